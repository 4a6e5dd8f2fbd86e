"""Keeps a number of worker processes running until they are to stop, or have drained.

``turn`` looks at every process once and says how long to wait; ``run`` goes round. A process
that dies is replaced after a pause that grows, one that made room is replaced at once. The
supervisor itself claims nothing and holds no connection.
"""

from __future__ import annotations

import queue
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ..core.stop import StopToken
from . import process_log
from .channel import DRAINED, RECYCLED, RELOADED, STOP, STOP_NOW, STOPPED, Report
from .health import HealthFile
from .processes import CLEAN, on_child_end
from .tally import Tally

FIRST_PAUSE_S = 0.1
MAX_PAUSE_S = 30.0
LIVED_WELL_S = 60.0  # after so long a life a death is the first one again
KILL_MARGIN_S = 10.0  # what a process gets beyond its grace period to give back and close
LOOK_EVERY_S = 1.0


class SupervisedProcess(Protocol):
    """What the supervisor asks of a process."""

    number: int
    pid: int
    is_killed: bool

    @property
    def uptime_s(self) -> float: ...
    def report(self) -> Report: ...
    def order(self, order: bytes) -> None: ...
    def kill(self) -> None: ...
    def ended(self) -> str | None: ...
    def close(self) -> None: ...


@dataclass(slots=True)
class _Slot:
    """The place of one process, which several fill one after another."""

    number: int
    process: SupervisedProcess | None = None
    is_done: bool = False
    start_at: float = 0.0
    pause_s: float = FIRST_PAUSE_S
    ended_at: float = 0.0  # UTC epoch seconds


class Supervisor:
    """Starts, replaces and stops worker processes.

    Args:
        start: starts the process of a number; is told which others run. Raises OSError if it
            cannot.
        n_processes: how many.
        stop: asks for a stop; the processes heed their own grace period.
        stop_now: asks them to give back at once.
        grace_s: how long that grace period is; what has not ended some seconds after it is killed.
        health: touched while every process reaches the database.
        may_hurry: told when a process died, says whether its replacement should wait no longer.
        clock: seconds that only go forward.
        draw: a number from 0 to 1, for the jitter of the pauses.
    """

    def __init__(
        self,
        start: Callable[[int, Sequence[SupervisedProcess]], SupervisedProcess],
        *,
        n_processes: int,
        stop: StopToken,
        stop_now: StopToken,
        grace_s: float,
        health: HealthFile | None = None,
        may_hurry: Callable[[float], bool] | None = None,
        clock: Callable[[], float] = time.monotonic,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self.tally = Tally()
        self.n_failed = 0  # processes that did not come to a good end after the stop
        self._start = start
        self._stop = stop
        self._stop_now = stop_now
        self._grace_s = grace_s
        self._health = health
        self._may_hurry = may_hurry
        self._clock = clock
        self._draw = draw
        self._slots = [_Slot(number) for number in range(1, n_processes + 1)]
        self._bell: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._kill_at: float | None = None
        self._told_now = False

    def run(self) -> Tally:
        """Supervise until stopped, or until every process has drained; return what was done."""
        self._stop.on_stop(self._ring)
        self._stop_now.on_stop(self._ring)
        try:
            with on_child_end(self._ring):
                while (pause := self.turn()) is not None:
                    self._wait(pause)
        finally:
            if self._health is not None:
                self._health.remove()
        return self.tally

    def turn(self) -> float | None:
        """Look at every process; return the seconds to wait at most, None when all is over."""
        now = self._clock()
        for slot in self._slots:
            self._look_after(slot, now)
        if self._stop.stopped:
            self._pass_on_stop(now)
        else:
            self._start_what_is_due(now)
        if not self._running and (self._stop.stopped or all(slot.is_done for slot in self._slots)):
            return None
        self._show_health()
        return self._pause(now)

    # -- one process -----------------------------------------------------------------------

    @property
    def _running(self) -> list[SupervisedProcess]:
        return [slot.process for slot in self._slots if slot.process is not None]

    def _start_what_is_due(self, now: float) -> None:
        for slot in self._slots:
            if slot.process is None and not slot.is_done and self._is_due(slot, now):
                try:
                    slot.process = self._start(slot.number, self._running)
                except OSError as error:
                    process_log.process_not_started(slot.number, error)
                    self._put_off(slot, now, uptime_s=0)
                else:
                    process_log.process_started(slot.number, slot.process.pid)

    def _is_due(self, slot: _Slot, now: float) -> bool:
        if now >= slot.start_at:
            return True
        return self._may_hurry is not None and self._may_hurry(slot.ended_at)

    def _look_after(self, slot: _Slot, now: float) -> None:
        process = slot.process
        if process is None:
            return
        how = process.ended()
        report = process.report()  # only then: the last one is written before the end
        if how is None:
            return
        slot.process = None
        process.close()
        for name, counts in report.tally.items():
            for outcome, n in counts.items():
                self.tally.add(name, outcome, n)
        end = report.end if how == CLEAN else None
        process_log.process_ended(
            slot.number, process.pid, end or how, process.uptime_s, expected=end is not None
        )
        self._plan_next(slot, end, now, process.uptime_s)

    def _plan_next(self, slot: _Slot, end: str | None, now: float, uptime_s: float) -> None:
        """Decide when the place of a process that ended is filled again."""
        slot.ended_at = time.time()
        if end == DRAINED:
            slot.is_done = True
        elif end in (RECYCLED, RELOADED):
            slot.start_at, slot.pause_s = now, FIRST_PAUSE_S
        elif end == STOPPED:  # by somebody's signal to it alone, unless all are to stop
            slot.start_at, slot.pause_s = now + FIRST_PAUSE_S, FIRST_PAUSE_S
        else:
            self.n_failed += self._stop.stopped
            self._put_off(slot, now, uptime_s)

    def _put_off(self, slot: _Slot, now: float, uptime_s: float) -> None:
        if uptime_s >= LIVED_WELL_S:
            slot.pause_s = FIRST_PAUSE_S
        slot.start_at = now + slot.pause_s * (0.5 + self._draw() / 2)
        slot.pause_s = min(slot.pause_s * 2, MAX_PAUSE_S)

    # -- all of them -----------------------------------------------------------------------

    def _pass_on_stop(self, now: float) -> None:
        """Pass each order on once; kill what has not ended when the time is over."""
        if self._kill_at is None:
            self._kill_at = now + self._grace_s + KILL_MARGIN_S
            self._order(STOP)
        if self._stop_now.stopped and not self._told_now:
            self._told_now = True
            self._kill_at = min(self._kill_at, now + KILL_MARGIN_S)
            self._order(STOP_NOW)
        if now >= self._kill_at:
            for process in self._running:
                if not process.is_killed:
                    process_log.process_overdue(process.number, process.pid)
                    process.kill()

    def _order(self, order: bytes) -> None:
        for process in self._running:
            process.order(order)

    def _show_health(self) -> None:
        """Show the beat of the process whose beat is the oldest; nothing while one is missing."""
        if self._health is None:
            return
        places = [slot for slot in self._slots if not slot.is_done]
        beats = [slot.process.report().beat_at if slot.process else None for slot in places]
        known = [beat for beat in beats if beat is not None]
        if known and len(known) == len(places):
            self._health.touch(min(known))

    def _pause(self, now: float) -> float:
        due = [now + LOOK_EVERY_S]
        if self._stop.stopped:
            due += [at for at in (self._kill_at,) if at is not None and at > now]
        else:
            due += [slot.start_at for slot in self._slots if not (slot.process or slot.is_done)]
        return max(min(due) - now, 0.01)

    def _ring(self) -> None:
        self._bell.put(None)

    def _wait(self, pause: float) -> None:
        try:
            self._bell.get(timeout=pause)
            while True:
                self._bell.get_nowait()
        except queue.Empty:
            return
