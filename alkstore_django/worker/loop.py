"""The worker's loop: one turn looks for what is due, claims and hands over.

The thread that calls ``run`` owns the loop and claims, on a connection of its own. Handler
threads, the gatherer (which settles what they finish), the renewer, the wake and the stop
token post to its mailbox; ``SimpleQueue.put`` is safe in signal handlers.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from django.db import Error

from ..core.names import checked_worker_id
from ..core.records import Job, JobRow
from ..core.stop import StopToken
from ..engines.base import Subscription
from ..handlers import Handler
from ..outage import Outage
from ..signals import announce, is_heard, job_claimed
from .event_loop import LoopPool
from .filling import Filler
from .gathering import Gatherer
from .options import WorkerOptions, new_worker_id
from .pool import HandlerPool
from .renewal import Renewer
from .running import RunningBatch, RunningJob, RunningJobs, Unit, timed_out
from .scheduler_thread import SchedulerThread
from .settling import Settler
from .slots import Slots
from .tally import Tally
from .write_turn import WriteTurn

if TYPE_CHECKING:
    from ..managers import JobManager

logger = logging.getLogger("alkstore_django.worker")

GIVE_BACK_WAIT_S = 5.0


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
        self._mailbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._running = RunningJobs()
        self._outage = Outage(type(self), jobs.db)
        self._write_turn = WriteTurn(one_writer=not jobs.engine.supports_parallel_writers)
        self._settler = Settler(jobs, self.tally, on_promoted=self._post_wake)
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
            on_death=self._mailbox.put,
        )
        self._pool = HandlerPool(
            jobs,
            options.threads,
            write_turn=self._write_turn,
            before_atomic=self._renewer.renew_stale,
            on_start=self._ring,
            on_end=self._gatherer.finish,
            on_death=self._mailbox.put,
        )
        self._loop_pool = LoopPool(
            on_start=self._ring,
            on_end=self._gatherer.finish,
            on_death=self._mailbox.put,
        )
        sizes = {False: options.threads, True: options.async_jobs}
        self._slots = Slots(handlers, sizes, options.limits)
        self._handlers = tuple(handlers)
        self._filler = Filler(
            jobs,
            handlers,
            self._slots,
            worker_id=self.worker_id,
            poll_interval_s=options.resolved_poll_interval_s(jobs.engine.settings),
            write_turn=self._write_turn,
            hand_over=self._hand_over,
        )
        self._scheduler = SchedulerThread(jobs.db, on_death=self._mailbox.put)
        self._posted_wakes: set[str | None] = set()
        self._grace_ends_at: float | None = None

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
        self._filler.look_at_clock()
        if self._stop.stopped:
            return self._stopping_pause()
        self._filler.fill()
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
                self._filler.wake(woken)
            case BaseException() as death:
                raise death  # a side thread met a bug: stop loudly

    # -- claiming -------------------------------------------------------------------------

    def _hand_over(self, rows: list[JobRow], handler: Handler, asked_at: float) -> int:
        codec = handler.queue.codec
        batch = [RunningJob(row, Job(row, codec), handler, asked_at) for row in rows]
        self._running.add(batch)
        if handler.heartbeat:
            self._renewer.expect(batch)
        if is_heard(job_claimed):
            for running in batch:
                announce(job_claimed, type(self), job=running.job, using=self._jobs.db)
        pool = self._loop_pool if handler.on_event_loop else self._pool
        units: Sequence[Unit] = batch
        if (size := handler.batch) is not None:
            units = [RunningBatch(batch[i : i + size]) for i in range(0, len(batch), size)]
        pool.submit(units)
        return len(units)

    def _is_drained(self) -> bool:
        """Ask every queue once more when nothing runs; an answer of nothing ends the drain."""
        if self._running or not self._gatherer.idle or not self._filler.has_room:
            return False
        self._filler.expect_anything()
        return self._filler.fill() == 0 and not self._filler.is_waiting

    def _pause(self) -> float:
        """Return the seconds until something is due by the clock."""
        due = [self._filler.due_at]
        due += [end for job in self._limited() if (end := job.times_out_at) is not None]
        return max(min(due) - time.monotonic(), 0.001)

    # -- time limits ----------------------------------------------------------------------

    def _limited(self) -> list[RunningJob]:
        """Return the running jobs whose handlers have a time limit."""
        if all(handler.timeout_s is None for handler in self._handlers):
            return []
        return [job for job in self._running.snapshot() if job.handler.timeout_s is not None]

    def _end_overdue(self) -> None:
        """End the claims of handlers whose time is over; their late results are dropped."""
        now = time.monotonic()
        for running in self._limited():
            if not running.ended and running.is_overdue(now) and self._running.take(running):
                running.job._mark_lost()
                self._gatherer.end_overdue(running, timed_out(running))
                self._loop_pool.cancel(running)

    # -- stopping -------------------------------------------------------------------------

    def _stopping_pause(self) -> float | None:
        """No new claims: wait for what runs within the grace, then give the rest back."""
        if not self._running and self._gatherer.idle:
            return None
        if not self._stop_is_overdue():
            assert self._grace_ends_at is not None
            return max(min(self._pause(), self._grace_ends_at - time.monotonic()), 0.001)
        self._give_back()
        return None

    def _give_back(self) -> None:
        """Give back what runs; what cannot be, since a handler has the turn to write, lapses."""
        self._gatherer.stop()  # what has ended is settled first
        abandoned = [job for job in self._running.snapshot() if self._running.take(job)]
        for running in abandoned:
            running.job._mark_lost()
        with self._write_turn.within(GIVE_BACK_WAIT_S) as is_ours:
            if is_ours:
                self._settler.give_back(abandoned)
            else:
                text = "Jobs not given back, they lapse: an atomic handler holds the database: n=%s"
                logger.warning(text, len(abandoned))

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
        if self.options.with_schedules:
            self._stop.on_stop(self._scheduler.ask_to_stop)
            self._scheduler.start()
        names = [handler.queue.name for handler in self._handlers]
        engine = self._jobs.engine
        return engine.subscribe(names, on_wake=self._post_wake, must_connect=False)

    def _close(self, subscription: Subscription) -> None:
        subscription.close()
        self._scheduler.stop()
        self._renewer.stop()
        self._loop_pool.stop()
        self._pool.stop()
        self._gatherer.stop()

    # -- what other threads call ----------------------------------------------------------

    def _ring(self) -> None:
        self._mailbox.put(None)

    def _note_ends(self, ended: list[RunningJob]) -> None:
        freed = Counter([running.row.queue for running in ended if running.holds_slot])
        self._mailbox.put(("ended", freed))

    def _lose(self, running: RunningJob) -> None:
        if not running.acking and self._running.take(running):
            self._settler.lose(running, "heartbeat")
            self._loop_pool.cancel(running)

    def _post_wake(self, woken: str | None) -> None:
        if woken not in self._posted_wakes:
            self._posted_wakes.add(woken)
            self._mailbox.put(("wake", woken))
