"""A worker process under a supervisor: it heeds orders, reports, and makes room.

The grace period is measured here and not by the worker's loop, because a process that makes
room for another finishes what it runs, however long that takes, unless it is told to stop.
"""

from __future__ import annotations

import math
import os
import selectors
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..core.stop import StopToken
from ..handlers import Handler
from . import process_log
from .channel import DRAINED, RECYCLED, STOP, STOP_NOW, STOPPED, ChildEnd, Report
from .health import BEAT_EVERY_S, at_most_every
from .loop import Worker
from .options import WorkerOptions
from .recycling import Recycler, RecyclingLimits
from .tally import Tally

if TYPE_CHECKING:
    from ..managers import JobManager

_QUIT = b"q"


class OrderListener:
    """A thread that turns orders, and the supervisor's death, into stops.

    ``ask`` and ``ask_now`` give the same orders from inside, also from a signal handler.
    """

    def __init__(
        self, orders_fd: int, stop: StopToken, stop_now: StopToken, grace_s: float
    ) -> None:
        self._orders_fd = orders_fd
        self._stop = stop
        self._stop_now = stop_now
        self._grace_s = grace_s
        self._inside, self._from_inside = os.pipe()
        self._is_closed = False
        self._grace_ends_at: float | None = None
        self._thread = threading.Thread(target=self._run, name="alkstore-orders", daemon=True)
        self._thread.start()

    @property
    def was_asked(self) -> bool:
        """Whether anybody asked for the stop."""
        return self._grace_ends_at is not None

    def ask(self) -> None:
        self._tell(STOP)

    def ask_now(self) -> None:
        self._tell(STOP + STOP_NOW)

    def close(self) -> None:
        self._tell(_QUIT)
        self._is_closed = True  # the number of a closed pipe may soon be that of another file
        self._thread.join()
        os.close(self._inside)
        os.close(self._from_inside)

    def _tell(self, orders: bytes) -> None:
        if not self._is_closed:
            os.write(self._from_inside, orders)

    def _run(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._orders_fd, selectors.EVENT_READ)
            selector.register(self._inside, selectors.EVENT_READ)
            while True:
                orders = b""
                for key, _ in selector.select(self._grace_left()):
                    orders += os.read(key.fd, 64) or self._orphaned(selector)
                if _QUIT in orders:
                    return
                self._heed(orders)

    def _orphaned(self, selector: selectors.BaseSelector) -> bytes:
        selector.unregister(self._orders_fd)
        process_log.supervisor_gone()
        return STOP

    def _heed(self, orders: bytes) -> None:
        if orders and self._grace_ends_at is None:
            self._grace_ends_at = time.monotonic() + self._grace_s
            self._stop.stop()
        if STOP_NOW in orders or self._grace_left() == 0:
            self._grace_ends_at = math.inf  # over: nothing is left to wait for
            self._stop_now.stop()

    def _grace_left(self) -> float | None:
        if self._grace_ends_at is None or self._grace_ends_at == math.inf:
            return None
        return max(0.0, self._grace_ends_at - time.monotonic())


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a supervised worker is to do."""

    jobs: JobManager
    handlers: Sequence[Handler]
    options: WorkerOptions
    limits: RecyclingLimits


def run_supervised(
    assignment: Assignment,
    channel: ChildEnd,
    asked: StopToken,
    asked_now: StopToken,
    *,
    on_start: Callable[[Worker], None],
    get_ready: Callable[[StopToken], bool] = lambda stop: True,
    on_beat: Callable[[], None] = lambda: None,
    other_end: Callable[[], str | None] = lambda: None,
) -> Tally:
    """Work until told to stop, drained, or due for recycling; report the end and what was done.

    Args:
        asked, asked_now: set by this process's own signals.
        on_start: told of the worker before it begins.
        get_ready: waits for what the worker needs; returns False when it was stopped meanwhile.
        on_beat: called after a turn that reached the database, once a second at most.
        other_end: a reason for the end that only the caller knows, if it is that.
    """
    stop, stop_now = StopToken(), StopToken()
    options = replace(assignment.options, shutdown_timeout_s=math.inf)
    listener = OrderListener(
        channel.orders_fd, stop, stop_now, assignment.options.shutdown_timeout_s
    )
    asked.on_stop(listener.ask)
    asked_now.on_stop(listener.ask_now)

    def beat() -> None:
        channel.report(Report(worker.tally.as_dict(), time.time()))
        on_beat()

    def after_each_turn() -> None:
        paced_beat()
        recycler()

    paced_beat = at_most_every(BEAT_EVERY_S, beat)
    worker = Worker(
        assignment.jobs,
        assignment.handlers,
        options,
        stop=stop,
        stop_now=stop_now,
        after_turn=after_each_turn,
    )
    recycler = Recycler(worker.tally, assignment.limits, stop)
    try:
        if get_ready(stop):
            on_start(worker)
            worker.run()
    finally:
        listener.close()
    end = other_end() or _end(listener, recycler)
    channel.report_last(Report(worker.tally.as_dict(), time.time(), end))
    return worker.tally


def _end(listener: OrderListener, recycler: Recycler) -> str:
    if listener.was_asked:
        return STOPPED
    return RECYCLED if recycler.has_stopped else DRAINED
