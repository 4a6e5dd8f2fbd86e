"""The worker's loop: one turn looks for what is due, claims and hands over.

The thread that calls ``run`` owns the loop and claims, on a connection of its own. Handler
threads, the gatherer (which settles what they finish), the renewer, the wake and the stop
token post to its mailbox; ``SimpleQueue.put`` is safe in signal handlers.
"""

from __future__ import annotations

import contextlib
import math
import queue
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from django.db import Error

from ..core.names import checked_worker_id
from ..core.records import Job, JobRow
from ..core.stop import StopToken
from ..engines.base import Subscription
from ..handlers import Handler
from ..signals import announce, is_heard, job_claimed
from .claiming import Claimer
from .event_loop import LoopPool
from .gathering import Gatherer
from .options import WorkerOptions, new_worker_id
from .outage import Outage
from .pool import HandlerPool
from .renewal import Renewer
from .running import Outcome, RunningJob, RunningJobs
from .settling import Settler
from .slots import Slots
from .tally import Tally

if TYPE_CHECKING:
    from ..managers import JobManager

UNSETTLED_AT_MOST = 1_000
"""With so many ended jobs not settled yet, the worker claims no more."""


class Worker:
    """Serves some queues of one store until it is stopped, or drained.

    Args:
        jobs: the manager bound to the store's alias.
        handlers: what to serve; one per queue.
        stop: asks for a stop: no new claims, running handlers get the grace period.
        stop_now: asks to give running jobs back without grace.
        after_turn: called in the loop after each turn that reached the database: at least once
            per poll interval while all is well. Must be quick and must not raise.
    """

    def __init__(
        self,
        jobs: JobManager,
        handlers: Sequence[Handler],
        options: WorkerOptions,
        *,
        stop: StopToken | None = None,
        stop_now: StopToken | None = None,
        after_turn: Callable[[], None] | None = None,
    ) -> None:
        self.options = options
        self.worker_id = checked_worker_id(
            new_worker_id() if options.worker_id is None else options.worker_id
        )
        self.tally = Tally()
        self._jobs = jobs
        self._stop = stop or StopToken()
        self._stop_now = stop_now or StopToken()
        self._after_turn = after_turn
        self._order = list(handlers)
        self._claimers = {
            handler.queue.name: Claimer(jobs, handler.queue.name, self.worker_id)
            for handler in handlers
        }
        self._mailbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._running = RunningJobs()
        self._outage = Outage(type(self), jobs.db)
        one_writer = not jobs.engine.supports_parallel_writers
        self._write_turn: AbstractContextManager[object] = (
            threading.Lock() if one_writer else contextlib.nullcontext()
        )
        self._settler = Settler(jobs, self.tally)
        self._renewer = Renewer(
            jobs,
            self._running,
            interval_s=options.heartbeat_interval_s,
            write_turn=self._write_turn,
            on_lost=self._lose,
            on_death=self._mailbox.put,
        )
        self._gatherer = Gatherer(
            jobs,
            self._settler,
            self._running,
            write_turn=self._write_turn,
            outage=self._outage,
            on_ends=self._note_ends,
            on_settled=self._ring,
            on_death=self._mailbox.put,
        )
        self._pool = HandlerPool(
            jobs,
            options.threads,
            write_turn=self._write_turn if one_writer else None,
            before_atomic=self._renewer.renew_stale,
            on_start=self._ring,
            on_end=self._gatherer.finish,
            on_death=self._mailbox.put,
        )
        self._loop_pool = LoopPool(
            options.async_jobs,
            on_start=self._ring,
            on_end=self._gatherer.finish,
            on_death=self._mailbox.put,
        )
        sizes = {False: options.threads, True: options.async_jobs}
        self._slots = Slots(handlers, sizes, options.limits)
        self._dry: set[str] = set()  # queues that had nothing when last asked
        self._posted_wakes: set[str | None] = set()
        interval = options.poll_interval_s or jobs.engine.settings.poll_interval_s
        self._poll_interval_s = interval
        self._next_poll = 0.0
        self._grace_ends_at: float | None = None

    @property
    def poll_interval_s(self) -> float:
        """How often the worker looks for jobs whatever the wake says."""
        return self._poll_interval_s

    # -- the loop -------------------------------------------------------------------------

    def run(self) -> Tally:
        """Work until stopped or drained; return what was done."""
        subscription = self._open()
        try:
            with self._jobs.engine.hot_path():
                while (pause := self._guarded_turn()) is not None:
                    self._wait(pause)
        finally:
            self._close(subscription)
        return self.tally

    def turn(self) -> float | None:
        """Claim, hand over; return the seconds to wait at most, None when finished.

        Never sleeps.
        """
        self._end_overdue()
        self._look_again_if_due()
        if self._stop.stopped:
            return self._stopping_pause()
        self._fill()
        if self.options.drain and self._is_drained():
            return None
        return self._pause()

    def _guarded_turn(self) -> float | None:
        """Take a turn; an outage costs a pause with jitter, and nothing else."""
        try:
            self._jobs.engine.drop_stale_connection()
            pause = self.turn()
        except Error as error:
            if not self._jobs.engine.is_outage(error):
                raise
            return self._outage_pause(error)
        self._outage.end("claim")
        if self._after_turn is not None:
            self._after_turn()
        return pause

    def _wait(self, pause: float) -> None:
        """Wait for mail, then take in all that has come."""
        with contextlib.suppress(queue.Empty):
            self._take(self._mailbox.get(timeout=pause))
            while True:
                self._take(self._mailbox.get_nowait())

    def _take(self, mail: Any) -> None:
        match mail:
            case ("ended", ended):
                self._slots.release(ended)
            case ("wake", woken):
                self._posted_wakes.discard(woken)  # first: a wake from now on posts anew
                self._dry.discard(woken) if woken is not None else self._dry.clear()
            case BaseException() as death:
                raise death  # a side thread met a bug: stop loudly

    # -- claiming -------------------------------------------------------------------------

    def _fill(self) -> int:
        """Claim what can start at once, the queues taking turns; return how many jobs."""
        if self._gatherer.backlog >= UNSETTLED_AT_MOST:
            return 0
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
                if got < n or n <= 0:
                    hungry.remove(handler)
        return claimed

    def _claim(self, handler: Handler, n: int) -> int:
        asked_at = time.monotonic()
        name = handler.queue.name
        with self._write_turn:
            rows = self._claimers[name].claim(n)
        if rows:
            self._hand_over(rows, handler, asked_at)
            self._order.remove(handler)  # whoever was served waits at the end of the line
            self._order.append(handler)
        if len(rows) < n:
            self._dry.add(name)
        return len(rows)

    def _hand_over(self, rows: list[JobRow], handler: Handler, asked_at: float) -> None:
        codec = handler.queue.codec
        batch = [RunningJob(row, Job(row, codec), handler, asked_at) for row in rows]
        self._running.add(batch)
        self._slots.take(handler.queue.name, len(batch))
        if handler.heartbeat:
            self._renewer.expect(batch)
        if is_heard(job_claimed):
            for running in batch:
                announce(job_claimed, type(self), job=running.job, using=self._jobs.db)
        pool = self._loop_pool if handler.on_event_loop else self._pool
        pool.submit(batch)

    def _look_again_if_due(self) -> None:
        """By the clock, whatever wakes have come, every queue is asked again (CONTRACT 6.1)."""
        now = time.monotonic()
        if now >= self._next_poll:
            self._next_poll = now + self._poll_interval_s * random.uniform(0.9, 1.0)
            self._expect_anything()
        for name, claimer in self._claimers.items():
            if now >= claimer.look_at:
                self._dry.discard(name)

    def _expect_anything(self) -> None:
        self._dry.clear()
        for claimer in self._claimers.values():
            claimer.expect_anything()

    def _is_drained(self) -> bool:
        """Ask every queue once more when nothing runs; an answer of nothing ends the drain."""
        if self._running or not self._gatherer.idle:
            return False
        if any(self._slots.free(handler.queue.name) < 1 for handler in self._order):
            return False  # without a free thread nobody can say that nothing is ready
        self._expect_anything()
        return self._fill() == 0

    def _pause(self) -> float:
        """Return the seconds until something is due by the clock."""
        due = [self._next_poll, *(claimer.look_at for claimer in self._claimers.values())]
        due += [end for job in self._limited() if (end := job.times_out_at) is not None]
        return max(min(due) - time.monotonic(), 0.001)

    # -- time limits ----------------------------------------------------------------------

    def _limited(self) -> list[RunningJob]:
        """Return the running jobs whose handlers have a time limit."""
        if all(handler.timeout_s is None for handler in self._order):
            return []
        return [job for job in self._running.snapshot() if job.handler.timeout_s is not None]

    def _end_overdue(self) -> None:
        """End the claims of handlers whose time is over; their late results are dropped."""
        now = time.monotonic()
        for running in self._limited():
            end = running.times_out_at
            if end is not None and now >= end and self._running.take(running):
                running.job._mark_lost()
                text = f"timed out after {round(running.handler.timeout_s or 0, 3):g} s"
                self._gatherer.end_overdue(running, Outcome("retry", error=text))
                self._loop_pool.cancel(running)

    # -- stopping -------------------------------------------------------------------------

    def _stopping_pause(self) -> float | None:
        """No new claims: wait for what runs within the grace, then give the rest back."""
        if not self._running and self._gatherer.idle:
            return None
        if not self._stop_is_overdue():
            assert self._grace_ends_at is not None
            return max(min(self._pause(), self._grace_ends_at - time.monotonic()), 0.001)
        self._settler_gives_back()
        return None

    def _settler_gives_back(self) -> None:
        abandoned = [job for job in self._running.snapshot() if self._running.take(job)]
        for running in abandoned:
            running.job._mark_lost()
        with self._write_turn:
            self._settler.give_back(abandoned)

    def _outage_pause(self, error: Error) -> float | None:
        pause = self._outage.note("claim", error)
        self._pool.note_outage()
        self._loop_pool.note_outage()
        self._jobs.engine.drop_stale_connection()
        if self._stop.stopped and self._stop_is_overdue():
            return None  # what is left lapses
        return pause

    def _stop_is_overdue(self) -> bool:
        if self._grace_ends_at is None:
            self._grace_ends_at = time.monotonic() + self.options.shutdown_timeout_s
        return self._stop_now.stopped or time.monotonic() >= self._grace_ends_at

    # -- beginning and end ----------------------------------------------------------------

    def _open(self) -> Subscription:
        self._stop.on_stop(self._ring)
        self._stop_now.on_stop(self._ring)
        self._renewer.start()
        self._gatherer.start()
        names = [handler.queue.name for handler in self._order]
        engine = self._jobs.engine
        return engine.subscribe(names, on_wake=self._post_wake, must_connect=False)

    def _close(self, subscription: Subscription) -> None:
        subscription.close()
        self._renewer.stop()
        self._loop_pool.stop()
        self._pool.stop()
        self._gatherer.stop()

    # -- what other threads call ----------------------------------------------------------

    def _ring(self) -> None:
        self._mailbox.put(None)

    def _note_ends(self, ended: list[RunningJob]) -> None:
        self._mailbox.put(("ended", Counter([running.row.queue for running in ended])))

    def _lose(self, running: RunningJob) -> None:
        if not running.acking and self._running.take(running):
            self._settler.lose(running, "heartbeat")
            self._loop_pool.cancel(running)

    def _post_wake(self, woken: str | None) -> None:
        if woken not in self._posted_wakes:
            self._posted_wakes.add(woken)
            self._mailbox.put(("wake", woken))
