"""The threads that run handlers."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from .execution import execute, execute_batch
from .running import Outcome, RunningBatch, RunningJob, Unit
from .sessions import HandlerSession
from .write_turn import WriteTurn

if TYPE_CHECKING:
    from ..managers import JobManager

JOIN_S = 5.0
JOIN_BUSY_S = 1.0


class HandlerPool:
    """Runs jobs in threads, each started when there is work that no other thread takes.

    Quick handlers are done by the few threads that are awake: a hundred woken for a hundred
    jobs of some microseconds would do nothing but wait for each other.

    Args:
        size: how many jobs run at once at most.
        write_turn: held while an atomic handler runs.
        before_atomic: called in that turn, before the handler.
        on_start: called when a handler with a time limit begins.
        on_end: takes each job with its outcome, in the handler's thread.
        on_death: takes the error that ended a thread: a bug of ours.
    """

    def __init__(
        self,
        jobs: JobManager,
        size: int,
        *,
        write_turn: WriteTurn,
        before_atomic: Callable[[], None],
        on_start: Callable[[], None],
        on_end: Callable[[RunningJob, Outcome], None],
        on_death: Callable[[BaseException], None],
    ) -> None:
        self._size = size
        self._jobs = jobs
        self._write_turn = write_turn
        self._before_atomic = before_atomic
        self._on_start = on_start
        self._on_end = on_end
        self._on_death = on_death
        self._tasks: deque[Unit] = deque()
        self._changed = threading.Condition(threading.Lock())
        self._idle = 0
        self._waking = False  # a thread was woken or started, and has not taken anything yet
        self._closed = False
        self._epoch = 0
        self._threads: list[threading.Thread] = []

    def submit(self, units: Sequence[Unit]) -> None:
        """Hand over jobs and batches, no more in all than there are free threads."""
        self._tasks.extend(units)
        with self._changed:
            self._wake_one()

    def note_outage(self) -> None:
        """Have every thread connect anew before its next job."""
        self._epoch += 1

    def stop(self) -> None:
        """End the threads that are free; one whose handler hangs dies with the process."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            idle = self._idle == len(self._threads)
        until = time.monotonic() + (JOIN_S if idle else JOIN_BUSY_S)
        for thread in self._threads:
            thread.join(max(until - time.monotonic(), 0))

    def _take(self) -> Unit | None:
        """Take a job, waiting if there is none; None when the pool is closed."""
        try:
            running = self._tasks.popleft()
        except IndexError:
            return self._wait_for_one()
        if self._tasks and not self._waking:
            with self._changed:
                self._wake_one()
        return running

    def _wait_for_one(self) -> Unit | None:
        with self._changed:
            while True:
                self._waking = False
                try:
                    running = self._tasks.popleft()
                except IndexError:
                    if self._closed:
                        return None
                    self._idle += 1
                    self._changed.wait()
                    self._idle -= 1
                else:
                    self._wake_one()
                    return running

    def _wake_one(self) -> None:
        """Wake one thread, or start one, if there is work for it; call with the lock held.

        Never a second before the first has run: each that takes a job sees to the next, so
        slow handlers soon have every thread.
        """
        if not self._tasks or self._waking or self._closed:
            return
        if self._idle:
            self._waking = True
            self._changed.notify()
        elif len(self._threads) < self._size:
            self._waking = True
            name = f"alkstore-handler-{len(self._threads) + 1}"
            thread = threading.Thread(target=self._run, name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def _run(self) -> None:
        session = HandlerSession()
        try:
            running = self._wait_for_one()
            while running is not None:
                session.prepare(self._epoch)
                if isinstance(running, RunningBatch):
                    self._run_batch(running, session)
                else:
                    outcome = self._execute(running, session)
                    session.tidy(failed=outcome.verb not in {"ack", "acked"})
                    running.ended = True
                    self._on_end(running, outcome)
                running = self._take()
        except BaseException as error:
            self._on_death(error)
        finally:
            session.close()

    def _run_batch(self, batch: RunningBatch, session: HandlerSession) -> None:
        batch.start(time.monotonic())
        if batch.handler.timeout_s is not None:
            self._on_start()
        outcomes = execute_batch(batch)
        session.tidy(failed=any(outcome.verb != "ack" for outcome in outcomes))
        batch.end(outcomes, self._on_end)

    def _execute(self, running: RunningJob, session: HandlerSession) -> Outcome:
        """Run the handler; an atomic one in turn, where the database has but one writer.

        It has its worker's claims renewed just before: nobody can while it runs.
        """
        if running.handler.atomic and self._write_turn.one_writer:
            with self._write_turn:
                self._before_atomic()
                return self._timed(running, session)
        return self._timed(running, session)

    def _timed(self, running: RunningJob, session: HandlerSession) -> Outcome:
        running.started_at = time.monotonic()
        if running.handler.timeout_s is not None:
            self._on_start()
        return execute(running, session, self._jobs)
