"""Fills the free slots: which queue is asked next, and for how many jobs."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..core.records import JobRow
from ..handlers import Handler
from .claiming import Claimer
from .claiming_in_order import OrderedClaimer
from .slots import Slots
from .write_turn import WriteTurn

if TYPE_CHECKING:
    from ..managers import JobManager

TURN_WAIT_S = 0.05
"""How long a claim waits for another thread's statement before the loop goes on."""


class Filler:
    """Claims what can start at once, the queues taking turns: a busy one starves no other.

    A queue that had fewer jobs than were asked for is left alone until it is woken, or until
    the re-poll. The loop's thread alone uses it.

    Args:
        poll_interval_s: how often every queue is asked, whatever the wake says.
        write_turn: held while statements run.
        hand_over: takes the rows claimed for a handler, and the ``time.monotonic()`` from just
            before the claim; returns how many slots they take.
    """

    def __init__(
        self,
        jobs: JobManager,
        handlers: Sequence[Handler],
        slots: Slots,
        *,
        worker_id: str,
        poll_interval_s: float,
        write_turn: WriteTurn,
        hand_over: Callable[[list[JobRow], Handler, float], int],
    ) -> None:
        self._poll_interval_s = poll_interval_s
        self._slots = slots
        self._write_turn = write_turn
        self._hand_over = hand_over
        self._order = list(handlers)
        self._claimers = {
            handler.queue.name: (OrderedClaimer if handler.is_delivery else Claimer)(
                jobs, handler.queue.name, worker_id
            )
            for handler in handlers
        }
        self._dry: set[str] = set()  # queues that had nothing more when last asked
        self._next_poll = 0.0
        self._turn_at = float("inf")  # when to try again what had to wait for a turn

    @property
    def has_room(self) -> bool:
        """Whether every queue could start a job: else nobody can say that nothing is ready."""
        return all(self._slots.free(handler.queue.name) > 0 for handler in self._order)

    @property
    def is_waiting(self) -> bool:
        """Whether the last ``fill`` could not ask, since another thread had the turn to write,
        or has not looked everywhere."""
        searching = any(claimer.is_searching for claimer in self._claimers.values())
        return self._turn_at < float("inf") or searching

    def wake(self, queue: str | None) -> None:
        """Ask a queue again at the next fill; all of them for None."""
        self._dry.discard(queue) if queue is not None else self._dry.clear()

    def expect_anything(self) -> None:
        """Ask every queue at the next fill, and exactly."""
        self._dry.clear()
        for claimer in self._claimers.values():
            claimer.expect_anything()

    def look_at_clock(self) -> None:
        """By the clock, whatever wakes have come, every queue is asked again (CONTRACT 6.1)."""
        now = time.monotonic()
        if now >= self._next_poll:
            self._next_poll = now + self._poll_interval_s * random.uniform(0.9, 1.0)
            self.expect_anything()
        for name, claimer in self._claimers.items():
            if now >= claimer.look_at:
                self._dry.discard(name)

    @property
    def due_at(self) -> float:
        """When ``look_at_clock`` has something to do next."""
        return min(
            self._next_poll,
            self._turn_at,
            *(claimer.look_at for claimer in self._claimers.values()),
        )

    def fill(self) -> int:
        """Claim and hand over; return how many slots that took."""
        self._turn_at = float("inf")
        return self._fill_kind(on_event_loop=False) + self._fill_kind(on_event_loop=True)

    def _fill_kind(self, *, on_event_loop: bool) -> int:
        claimed = 0
        hungry = [
            handler
            for handler in self._order
            if handler.on_event_loop is on_event_loop and handler.queue.name not in self._dry
        ]
        while hungry:
            share = math.ceil(self._slots.free_of_kind(on_event_loop) / len(hungry))
            for handler in tuple(hungry):
                n = min(share, self._slots.free(handler.queue.name))
                got = self._claim(handler, n) if n > 0 else 0
                claimed += got
                if got < n or n <= 0 or handler.queue.name in self._dry:
                    hungry.remove(handler)
        return claimed

    def _claim(self, handler: Handler, n: int) -> int:
        """Claim for up to ``n`` slots; return how many were taken."""
        asked_at = time.monotonic()
        name = handler.queue.name
        with self._write_turn.within(TURN_WAIT_S) as is_ours:
            if not is_ours:
                self._turn_at = time.monotonic() + TURN_WAIT_S
                return 0
            wanted = n * (handler.batch or 1)
            rows = self._claimers[name].claim(wanted)
        taken = 0
        if rows:
            taken = self._hand_over(rows, handler, asked_at)
            self._slots.take(name, taken)
            self._order.remove(handler)  # whoever was served waits at the end of the line
            self._order.append(handler)
        if len(rows) < wanted:
            self._dry.add(name)
        return taken
