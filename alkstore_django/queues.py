"""Queues: the front door of the package."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from . import handlers
from .access import StoreAccess
from .core.instants import Instant, Length
from .core.names import checked_name, checked_worker_id
from .core.options import (
    EnqueueOptions,
    QueueOptions,
    Stamps,
    checked_batch_size,
    checked_job_id,
)
from .core.payloads import JSON, Codec
from .core.records import Claim, Job
from .handles import JobHandle, Listener
from .job_source import JobSource

if TYPE_CHECKING:
    pass

Function = TypeVar("Function", bound=Callable[..., Any])


class Queue(JobSource):
    """A durable at-least-once job queue, by name.

    A queue is a name and its options; making one runs no SQL and creates nothing. The
    options are stamped onto each job when it is enqueued and never looked up again,
    ``dead_letter_retention_s`` excepted, which counts for this handle's sweeps.

    Every operation joins the open transaction of the alias, if there is one, and commits
    itself if there is none.

    Args:
        name: 1 to 200 characters, no NUL, no lone surrogate, not starting ``__alkstore_``.
        visibility_timeout_s: how long a claim lasts before others may take the job; at least 1 s.
        max_attempts: how many claims a job gets before it is dead; at least 1.
        backoff_base_s: base of the retry curve; at least 0.
        dead_letter_retention_s: how long a sweep keeps dead jobs; ``None`` keeps them forever.
        codec: ``JSON``, ``BYTES`` or your own.
        using: the database alias; ``None`` is the only one that ``ALKSTORE`` names, else "default".

    Raises:
        InvalidName, InvalidOptions: at construction, before any SQL.
    """

    def __init__(
        self,
        name: str,
        *,
        visibility_timeout_s: Length = 300,
        max_attempts: int = 3,
        backoff_base_s: Length = 5,
        dead_letter_retention_s: Length | None = None,
        codec: Codec = JSON,
        using: str | None = None,
        _access: StoreAccess | None = None,
    ) -> None:
        checked = checked_name("queue", name)
        options = QueueOptions(
            visibility_timeout_s, max_attempts, backoff_base_s, dead_letter_retention_s
        )
        super().__init__(checked, checked, options, codec, _access or StoreAccess(using))
        self._default_stamps = EnqueueOptions().stamps(checked, self._codec.name, options)
        handlers.declare(self)

    # -- producing ------------------------------------------------------------------------

    def enqueue(
        self,
        payload: Any,
        *,
        delay: Length | None = None,
        run_at: Instant | None = None,
        priority: int | None = 0,
        max_attempts: int | None = None,
        expires: Length | None = None,
    ) -> int:
        """Store one job and return its id.

        Args:
            delay: length until the job is ready; wins over ``run_at``, 0 too. It is added to
                the database's clock and rounded up to a whole second. ``None``: ready at once.
            run_at: instant from which it is ready: an aware datetime or epoch seconds. A past
                one means ready now, and sorts by that instant.
            priority: int32, higher is claimed first.
            max_attempts: overrides the queue's.
            expires: length after which the job is never claimed again; counted from now.

        Raises:
            InvalidPayload, InvalidOptions: before any SQL; nothing was stored.
            StoreClosed: the store was closed.
        """
        jobs = self._access.jobs()
        stamps = self._stamps(delay, run_at, priority, max_attempts, expires)
        return jobs.enqueue(stamps, self._encoded([payload], jobs)[0])

    def enqueue_many(
        self,
        payloads: Iterable[Any],
        *,
        delay: Length | None = None,
        run_at: Instant | None = None,
        priority: int | None = 0,
        max_attempts: int | None = None,
        expires: Length | None = None,
    ) -> list[int]:
        """Store one job per payload, all or none, in a few statements; ids in the order given.

        The options are those of ``enqueue``, and count for all. One payload that is refused
        refuses all, before any SQL.
        """
        jobs = self._access.jobs()
        stamps = self._stamps(delay, run_at, priority, max_attempts, expires)
        return jobs.enqueue_many(stamps, self._encoded(payloads, jobs))

    def cancel(self, job_id: int) -> bool:
        """Delete a pending or processing job; return whether there was one.

        Never touches the dead. A holder is not interrupted: its next operation returns False.
        """
        return self._cancel(job_id)

    # -- consuming ------------------------------------------------------------------------

    def handler(
        self,
        function: Any = None,
        *,
        atomic: bool = False,
        heartbeat: bool = True,
        timeout_s: Length | None = None,
    ) -> Any:
        """Make a function of one job the handler that workers run; use as a decorator.

        Args:
            atomic: run it in one transaction with its ack: its writes commit with the ack or
                not at all.
            heartbeat: renew the job's deadline while it runs.
            timeout_s: end its claim after so long; the job is retried by the curve, and the
                late result changes nothing.
        """

        def register(function: Function) -> Function:
            handlers.register(
                self, function, atomic=atomic, heartbeat=heartbeat, timeout_s=timeout_s
            )
            return function

        return register if function is None else register(function)

    def claim_one(self, worker_id: str) -> JobHandle | None:
        """Claim the first ready job, or return None."""
        claimed = self.claim_batch(worker_id, 1)
        return claimed[0] if claimed else None

    def claim_batch(self, worker_id: str, n: int) -> list[JobHandle]:
        """Claim up to ``n`` ready jobs, each for nobody else, in claim order.

        Order: priority descending, run_at ascending, id ascending. A lapsed claim is ready
        again and costs an attempt; lapsed jobs without attempts left go to the dead first.
        ``n <= 0`` claims nothing and runs no SQL.
        """
        jobs = self._access.jobs()
        worker = checked_worker_id(worker_id)
        rows = jobs.claim(self._name, worker_id=worker, n=checked_batch_size(n))
        return [JobHandle(self._access, row, self._codec) for row in rows]

    def ack_batch(self, ids_or_handles: Iterable[int | JobHandle]) -> int:
        """Ack many jobs; return how many were deleted.

        A handle acks its own claim. An id acks whatever unlapsed claim there is on that job,
        whoever made it. Those that are refused are not counted.
        """
        jobs = self._access.jobs()
        claims: set[Claim] = set()
        ids: set[int] = set()
        for given in ids_or_handles:
            if isinstance(given, JobHandle):
                claims.add(given.claim)
            elif (job_id := checked_job_id(given)) is not None:
                ids.add(job_id)
        if not (claims and ids):
            return len(jobs.ack(claims)) if claims else jobs.engine.ack_ids(sorted(ids))
        with jobs.engine.together():
            return len(jobs.ack(claims)) + jobs.engine.ack_ids(sorted(ids))

    @contextlib.contextmanager
    def listen(self) -> Iterator[Listener]:
        """Listen for wakes of this queue; effective once entered.

        Raises:
            django.db.OperationalError: the wake cannot be reached.
        """
        subscription = self._access.jobs().engine.subscribe([self._name])
        try:
            yield Listener(self._access, subscription)
        finally:
            subscription.close()

    # -- looking ------------------------------------------------------------------------

    def get_job(self, job_id: int) -> Job | None:
        """Read a job by its id, whatever its queue, dead ones too; None if there is none."""
        return self._get_job(job_id)

    def _stamps(
        self,
        delay: Length | None,
        run_at: Instant | None,
        priority: int | None,
        max_attempts: int | None,
        expires: Length | None,
    ) -> Stamps:
        if (
            delay is run_at is max_attempts is expires is None
            and type(priority) is int
            and not priority
        ):
            return self._default_stamps
        options = EnqueueOptions(delay, run_at, priority, max_attempts, expires)
        return options.stamps(self._name, self._codec.name, self._options)
