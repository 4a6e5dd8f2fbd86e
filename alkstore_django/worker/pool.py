"""The handler threads of a worker: a fixed number, each with a database session of its own."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from .execution import execute
from .running import RunningJob
from .sessions import HandlerSession

if TYPE_CHECKING:
    from ..managers import JobManager

JOIN_S = 5.0
JOIN_BUSY_S = 1.0


class HandlerPool:
    """Runs jobs in threads; only the worker's loop submits and counts.

    Args:
        before_atomic: called in a handler thread before an atomic handler takes the one
            write lock of a database that has but one.
        post: takes ``(running, outcome)`` for each finished job, or the error that ended a
            thread.
    """

    def __init__(
        self,
        jobs: JobManager,
        size: int,
        *,
        before_atomic: Callable[[], None],
        post: Callable[[Any], None],
    ) -> None:
        self._jobs = jobs
        self._before_atomic = before_atomic
        self._post = post
        self._tasks: deque[RunningJob] = deque()
        self._changed = threading.Condition(threading.Lock())
        self._idle = 0
        self._waking = False
        self._closed = False
        self._writer = threading.Lock()
        self._epoch = 0
        self.free = size
        """How many threads have nothing to do; a handler whose claim has ended counts as busy."""
        self._threads = [
            threading.Thread(target=self._run, name=f"alkstore-handler-{n + 1}", daemon=True)
            for n in range(size)
        ]

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def submit(self, running: RunningJob) -> None:
        """Hand a job to a free thread."""
        self.free -= 1
        with self._changed:
            self._tasks.append(running)
            self._wake_one()

    def note_done(self) -> None:
        """Count a thread as free again; called for each result that was posted."""
        self.free += 1

    def note_outage(self) -> None:
        """Have every thread connect anew before its next job."""
        self._epoch += 1

    def stop(self) -> None:
        """End the threads that are free; one whose handler hangs dies with the process."""
        until = time.monotonic() + (JOIN_S if self.free == len(self._threads) else JOIN_BUSY_S)
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(max(until - time.monotonic(), 0))

    def _take(self) -> RunningJob | None:
        """Wait for a job and take it; None when the pool is closed."""
        with self._changed:
            while not self._tasks:
                if self._closed:
                    return None
                self._idle += 1
                self._changed.wait()
                self._idle -= 1
                self._waking = False
            running = self._tasks.popleft()
            self._wake_one()
            return running

    def _wake_one(self) -> None:
        """Wake one idle thread if there is work for it, and never a second before it runs.

        Each that takes a job wakes the next, so slow handlers soon have every thread. Quick
        ones are done by the few that are awake: a hundred threads woken for a hundred jobs of
        some microseconds would do nothing but wait for each other.
        """
        if self._tasks and self._idle and not self._waking:
            self._waking = True
            self._changed.notify()

    def _run(self) -> None:
        session = HandlerSession()
        try:
            while (running := self._take()) is not None:
                session.prepare(self._epoch)
                with self._turn_to_write(running):
                    running.started_at = time.monotonic()
                    if running.handler.timeout_s is not None:
                        self._post(None)  # the loop has a new instant to look at
                    outcome = execute(running, session, self._jobs)
                session.tidy(failed=outcome.verb not in {"ack", "acked"})
                self._post((running, outcome))
        except BaseException as error:
            self._post(error)
        finally:
            session.close()

    @contextlib.contextmanager
    def _turn_to_write(self, running: RunningJob) -> Iterator[None]:
        """Let atomic handlers go one at a time where the database has but one writer.

        They would wait for its lock anyway, but there neither in turn nor without a limit.
        Each has its worker's claims renewed just before: nobody can while it runs.
        """
        if self._jobs.engine.supports_parallel_writers or not running.handler.atomic:
            yield
            return
        with self._writer:
            self._before_atomic()
            yield
