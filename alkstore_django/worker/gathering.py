"""The thread that gathers finished jobs for some milliseconds and has them settled together."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from django.db import Error, connections

from ..outage import Outage
from .running import Outcome, RunningJob, RunningJobs
from .settling import Settled, Settler
from .write_turn import WriteTurn

if TYPE_CHECKING:
    from ..managers import JobManager

GATHER_S = 0.003
BUSY_PAUSE_S = 0.1
OVERLAP_FROM = 16
JOIN_S = 5.0


class Gatherer:
    """Settles what handlers finish, from a thread and a connection of its own.

    While other handlers run, it waits a moment for more of them to end: one statement, and
    one flush, for many acks. It waits for nothing once half of them have ended, or if none
    is left.

    Room for others is there once it was tried to settle what has ended, so that a crash repeats
    no more jobs than may run at once. But quick jobs that end by the dozen make room before:
    their settling overlaps with the claiming of the next, which nearly doubles their rate.

    Args:
        running: the open claims; a finished job that is not among them is dropped.
        write_turn: held while statements run.
        on_ends: takes the jobs that have ended, when there is room for others.
        on_death: takes the error that ended the thread: a bug of ours.
    """

    def __init__(
        self,
        jobs: JobManager,
        settler: Settler,
        running: RunningJobs,
        *,
        write_turn: WriteTurn,
        outage: Outage,
        on_ends: Callable[[list[RunningJob]], None],
        on_death: Callable[[BaseException], None],
    ) -> None:
        self._jobs = jobs
        self._settler = settler
        self._running = running
        self._write_turn = write_turn
        self._outage = outage
        self._on_ends = on_ends
        self._on_death = on_death
        self._finished: deque[Settled] = deque()
        self._overdue: deque[Settled] = deque()
        self._ended: list[RunningJob] = []  # not told to ``on_ends`` yet
        self._enough = 1
        self._bell = threading.Event()
        self._working = False
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="alkstore-settle", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Settle what there is, once, and end the thread."""
        self._stopped = True
        self._bell.set()
        self._thread.join(JOIN_S)

    @property
    def idle(self) -> bool:
        """Whether everything that has ended is settled."""
        return not (self._finished or self._overdue or self._working) and self._settler.idle

    def finish(self, running: RunningJob, outcome: Outcome) -> None:
        """Take a job that has ended; called in the handlers' threads."""
        self._finished.append((running, outcome))
        if len(self._finished) >= self._enough and not self._bell.is_set():
            self._bell.set()

    def end_overdue(self, running: RunningJob, outcome: Outcome) -> None:
        """Settle a claim that the caller has taken while its handler runs on."""
        self._overdue.append((running, outcome))
        self._bell.set()

    def _run(self) -> None:
        try:
            with self._jobs.engine.hot_path():
                pause = None
                while not self._stopped:
                    self._gather(pause)
                    pause = self._settle()
                if not self.idle:
                    self._settle()
        except BaseException as error:
            self._on_death(error)
        finally:
            connections[self._jobs.db].close()

    def _gather(self, pause: float | None) -> None:
        """Wait for a job to end, or out the pause; then for a moment for more to end."""
        self._enough = 1
        if not (self._finished or self._overdue):
            self._bell.wait(pause)
        self._bell.clear()
        self._enough = max(len(self._running) // 2, 1)
        if len(self._finished) < self._enough and not self._stopped:
            self._bell.wait(GATHER_S)
            self._bell.clear()

    def _settle(self) -> float | None:
        """Settle all that has ended; return when to try again what could not be settled."""
        self._working = True
        try:
            self._take_ended()
            self._jobs.engine.drop_stale_connection()
            with self._write_turn:
                self._settler.settle()
        except Error as error:
            if not self._jobs.engine.is_outage(error):
                raise
            self._jobs.engine.drop_stale_connection()
            return self._outage.note("settle", error)
        finally:
            self._working = False
        self._outage.end("settle")
        self._tell_ends()
        return None if self._settler.idle else BUSY_PAUSE_S

    def _tell_ends(self) -> None:
        ended, self._ended = self._ended, []
        self._on_ends(ended)

    def _take_ended(self) -> None:
        """Move what has ended to the settler, but for jobs whose claims are over already."""
        self._settler.add([self._overdue.popleft() for _ in range(len(self._overdue))])
        ended = [self._finished.popleft() for _ in range(len(self._finished))]
        self._ended += [running for running, _ in ended]
        if len(self._ended) >= OVERLAP_FROM:
            self._tell_ends()
        self._settler.add([entry for entry in ended if self._running.take(entry[0])])
