"""The worker's loop: one turn claims, hands over and settles; ``run`` goes round.

One thread, the one that calls ``run``, owns all that changes. Handler threads, the wake and
the stop token post to its mailbox (``SimpleQueue.put`` is safe in signal handlers) and it
alone talks to the database about claims, on a connection that no handler ever sees.
"""

from __future__ import annotations

import math
import os
import queue
import random
import secrets
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.db import Error

from ..core.names import checked_worker_id
from ..core.records import Job
from ..core.stop import StopToken
from ..engines.base import Subscription
from ..exceptions import InvalidOptions
from ..handlers import Handler
from ..signals import announce, job_claimed, store_lost, store_restored
from .pool import HandlerPool
from .renewal import Renewer
from .running import Outcome, RunningJob
from .settling import Settler
from .tally import Tally

if TYPE_CHECKING:
    from ..managers import JobManager

MAX_OUTAGE_PAUSE_S = 5.0
GATHER_S = 0.003


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """How a worker works. Lengths are seconds.

    Attributes:
        threads: how many handlers run at once.
        drain: return once nothing is ready and nothing runs.
        poll_interval_s: how often to look for jobs whatever the wake says; None: the setting.
        heartbeat_interval_s: how often to renew at the least; None: a third of each job's
            visibility timeout.
        shutdown_timeout_s: how long running handlers may go on after a stop.
    """

    threads: int = 4
    worker_id: str | None = None
    drain: bool = False
    poll_interval_s: float | None = None
    heartbeat_interval_s: float | None = None
    shutdown_timeout_s: float = 30.0

    def __post_init__(self) -> None:
        if isinstance(self.threads, bool) or not isinstance(self.threads, int) or self.threads < 1:
            raise InvalidOptions("threads", "must be an int of at least 1", self.threads)
        if not self.shutdown_timeout_s >= 0:
            raise InvalidOptions(
                "shutdown_timeout_s", "must be at least 0", self.shutdown_timeout_s
            )
        for field in ("poll_interval_s", "heartbeat_interval_s"):
            value = getattr(self, field)
            if value is not None and not value > 0:
                raise InvalidOptions(field, "must be above 0", value)


def new_worker_id() -> str:
    """Return an id that tells host and process, and is new for every worker."""
    return f"{socket.gethostname()[:100]}:{os.getpid()}:{secrets.token_hex(4)}"


class Worker:
    """Serves some queues of one store until it is stopped, or drained.

    Args:
        jobs: the manager bound to the store's alias.
        handlers: what to serve; one per queue.
        stop: asks for a stop: no new claims, running handlers get the grace period.
        stop_now: asks to give running jobs back without grace.
    """

    def __init__(
        self,
        jobs: JobManager,
        handlers: Sequence[Handler],
        options: WorkerOptions,
        *,
        stop: StopToken | None = None,
        stop_now: StopToken | None = None,
    ) -> None:
        self.options = options
        self.worker_id = checked_worker_id(
            new_worker_id() if options.worker_id is None else options.worker_id
        )
        self.tally = Tally()
        self._jobs = jobs
        self._stop = stop or StopToken()
        self._stop_now = stop_now or StopToken()
        self._order = list(handlers)
        self._mailbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._renewer = Renewer(
            jobs,
            interval_s=options.heartbeat_interval_s,
            on_lost=self._post_lost,
            on_death=self._mailbox.put,
        )
        self._settler = Settler(jobs, self.tally, self._renewer.discard)
        self._pool = HandlerPool(
            jobs, options.threads, before_atomic=self._renewer.renew_stale, post=self._mailbox.put
        )
        self._running: dict[int, RunningJob] = {}
        self._dry: set[str] = set()  # queues that had nothing when last asked
        self._buried: set[str] = set()  # queues whose spent jobs were buried since the last poll
        self._posted_wakes: set[str | None] = set()
        interval = options.poll_interval_s or jobs.engine.settings.poll_interval_s
        self._poll_interval_s = interval
        self._next_poll = 0.0
        self._grace_ends_at: float | None = None
        self._outage: Error | None = None
        self._outage_pause_s = 0.1

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
        """Settle, claim, hand over; return the seconds to wait at most, None when finished.

        Never sleeps.
        """
        self._end_overdue()
        self._settler.settle()
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
        if self._outage is not None:
            self._outage = None
            self._outage_pause_s = 0.1
            announce(store_restored, type(self), using=self._jobs.db)
        return pause

    def _wait(self, pause: float) -> None:
        """Wait for mail, then take in all that has come.

        While handlers still run, what they will post within a moment is gathered too: one
        statement for many acks, one claim for many free threads.
        """
        try:
            self._take(self._mailbox.get(timeout=pause))
            until = time.monotonic() + GATHER_S
            while True:
                left = until - time.monotonic() if self._running else 0
                self._take(
                    self._mailbox.get(timeout=left) if left > 0 else self._mailbox.get_nowait()
                )
        except queue.Empty:
            return

    def _take(self, mail: Any) -> None:
        match mail:
            case (RunningJob() as running, Outcome() as outcome):
                self._pool.note_done()
                self._running.pop(id(running), None)
                if not running.ended:
                    self._settler.add(running, outcome)
            case ("lost", RunningJob() as running):
                if not (running.ended or running.acking):
                    self._running.pop(id(running), None)
                    self._settler.lose(running, "heartbeat")
            case ("wake", woken):
                self._posted_wakes.discard(woken)  # first: a wake from now on posts anew
                self._dry.discard(woken) if woken is not None else self._dry.clear()
            case BaseException() as death:
                raise death  # a side thread met a bug: stop loudly

    # -- claiming -------------------------------------------------------------------------

    def _fill(self) -> None:
        """Claim what can start at once, the queues taking turns, and hand it over."""
        hungry = [handler for handler in self._order if handler.queue.name not in self._dry]
        while hungry and self._pool.free:
            share = math.ceil(self._pool.free / len(hungry))
            for handler in tuple(hungry):
                n = min(share, self._pool.free)
                if n and self._claim(handler, n) < n:
                    self._dry.add(handler.queue.name)
                    hungry.remove(handler)

    def _claim(self, handler: Handler, n: int) -> int:
        asked_at = time.monotonic()
        name = handler.queue.name
        rows = self._jobs.claim(
            name, worker_id=self.worker_id, n=n, bury_spent=name not in self._buried
        )
        self._buried.add(name)
        if rows:  # whoever was served waits at the end of the line
            self._order.remove(handler)
            self._order.append(handler)
        for row in rows:
            job = Job(row, handler.queue.codec)
            self._hand_over(RunningJob(row, job, handler, asked_at))
        return len(rows)

    def _hand_over(self, running: RunningJob) -> None:
        self._running[id(running)] = running
        if running.handler.heartbeat:
            self._renewer.add(running)
        announce(job_claimed, type(self), job=running.job, using=self._jobs.db)
        self._pool.submit(running)

    def _look_again_if_due(self) -> None:
        """By the clock, whatever wakes have come, every queue is asked again (CONTRACT 6.1)."""
        now = time.monotonic()
        if now >= self._next_poll:
            self._next_poll = now + self._poll_interval_s * random.uniform(0.9, 1.0)
            self._dry.clear()
            self._buried.clear()

    def _is_drained(self) -> bool:
        """Ask every queue once more when nothing runs; an answer of nothing ends the drain."""
        if self._running or not self._settler.idle or not self._pool.free:
            return False  # without a free thread nobody can say that nothing is ready
        self._dry.clear()
        self._buried.clear()
        self._fill()
        return not self._running

    def _pause(self) -> float:
        """Return the seconds until something is due by the clock."""
        now = time.monotonic()
        due = [self._next_poll]
        due += [end for job in self._running.values() if (end := job.times_out_at) is not None]
        return max(min(due) - now, 0.001)

    # -- time limits ----------------------------------------------------------------------

    def _end_overdue(self) -> None:
        """End the claims of handlers whose time is over; their late results are dropped."""
        now = time.monotonic()
        for running in tuple(self._running.values()):
            end = running.times_out_at
            if end is not None and now >= end and not running.ended:
                running.ended = True
                del self._running[id(running)]
                text = f"timed out after {round(running.handler.timeout_s or 0, 3):g} s"
                self._settler.add(running, Outcome("retry", error=text))

    # -- stopping -------------------------------------------------------------------------

    def _stopping_pause(self) -> float | None:
        """No new claims: wait for what runs within the grace, then give the rest back."""
        now = time.monotonic()
        if self._grace_ends_at is None:
            self._grace_ends_at = now + self.options.shutdown_timeout_s
        if not self._running:
            return None
        if now < self._grace_ends_at and not self._stop_now.stopped:
            return min(self._pause(), self._grace_ends_at - now)
        self._settler.give_back(list(self._running.values()))
        self._running.clear()
        return None

    def _outage_pause(self, error: Error) -> float | None:
        if self._outage is None:
            announce(store_lost, type(self), using=self._jobs.db, error=error)
        self._outage = error
        self._pool.note_outage()
        self._jobs.engine.drop_stale_connection()
        if self._stop.stopped and self._stop_is_overdue():
            return None  # what is left lapses
        self._outage_pause_s = min(self._outage_pause_s * 2, MAX_OUTAGE_PAUSE_S)
        return self._outage_pause_s * random.uniform(0.5, 1.0)

    def _stop_is_overdue(self) -> bool:
        if self._grace_ends_at is None:
            self._grace_ends_at = time.monotonic() + self.options.shutdown_timeout_s
        return self._stop_now.stopped or time.monotonic() >= self._grace_ends_at

    # -- beginning and end ----------------------------------------------------------------

    def _open(self) -> Subscription:
        self._stop.on_stop(self._ring)
        self._stop_now.on_stop(self._ring)
        self._renewer.start()
        self._pool.start()
        names = [handler.queue.name for handler in self._order]
        engine = self._jobs.engine
        return engine.subscribe(names, on_wake=self._post_wake, must_connect=False)

    def _close(self, subscription: Subscription) -> None:
        subscription.close()
        self._renewer.stop()
        self._pool.stop()

    def _ring(self) -> None:
        self._mailbox.put(None)

    def _post_lost(self, running: RunningJob) -> None:
        self._mailbox.put(("lost", running))

    def _post_wake(self, woken: str | None) -> None:
        if woken not in self._posted_wakes:
            self._posted_wakes.add(woken)
            self._mailbox.put(("wake", woken))
