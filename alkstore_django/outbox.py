"""Outboxes: events that commit with the business data, and are delivered after it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from . import handlers
from .access import StoreAccess, require_transaction
from .core.events import Event
from .core.instants import Instant, Length
from .core.names import backing_name, checked_key, checked_name
from .core.options import (
    EnqueueOptions,
    QueueOptions,
    Stamps,
    checked_batch,
)
from .core.payloads import JSON, Codec
from .core.records import Job
from .job_source import JobSource

if TYPE_CHECKING:
    pass

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True, eq=False)
class BackingQueue:
    """The queue behind an outbox; nobody outside the package can name it."""

    name: str
    using: str
    codec: Codec
    options: QueueOptions


class Outbox(JobSource):
    """Events for the world outside: stored in the caller's transaction, delivered after it.

    At-least-once: a delivery that ends in an error, or of which nothing more is heard, is made
    again, under the same id. Events that are given a ``key`` are delivered one at a time per
    key and in the order in which they were enqueued; one that fails holds back its own key and
    nothing else, until it is delivered or dead.

    Making one runs no SQL and creates nothing. The options are stamped onto each event when it
    is enqueued, ``dead_letter_retention_s`` excepted, which counts for this handle's sweeps.

    Args:
        name: 1 to 200 characters, no NUL, no lone surrogate, not starting ``__alkstore_``.
        max_attempts: how many deliveries an event gets before it is dead; the default spans
            about half a day of retries.
        visibility_timeout_s, backoff_base_s, dead_letter_retention_s, codec, using: as of
            ``Queue``.

    Raises:
        InvalidName, InvalidOptions: at construction, before any SQL.
    """

    def __init__(
        self,
        name: str,
        *,
        max_attempts: int = 20,
        visibility_timeout_s: Length = 300,
        backoff_base_s: Length = 5,
        dead_letter_retention_s: Length | None = None,
        codec: Codec = JSON,
        using: str | None = None,
        _access: StoreAccess | None = None,
    ) -> None:
        checked = checked_name("outbox", name)
        options = QueueOptions(
            visibility_timeout_s, max_attempts, backoff_base_s, dead_letter_retention_s
        )
        super().__init__(
            checked, backing_name(checked), options, codec, _access or StoreAccess(using)
        )
        self._queue = BackingQueue(self._stored_name, self.using, self._codec, options)
        handlers.declare(self._queue)

    # -- producing ------------------------------------------------------------------------

    def enqueue(
        self,
        payload: Any,
        *,
        key: str | None = None,
        delay: Length | None = None,
        run_at: Instant | None = None,
        priority: int | None = 0,
        max_attempts: int | None = None,
        expires: Length | None = None,
    ) -> int:
        """Store one event and return its id; within the open transaction, if there is one.

        On PostgreSQL a transaction that enqueues for a key lets no other one enqueue for the
        same key until it ends.

        Args:
            key: 1 to 200 characters; events of one key are delivered in order of enqueue.
                ``None`` promises no order.
            delay, run_at, priority, max_attempts, expires: as of ``Queue.enqueue``. None of
                them lets an event overtake an earlier one of its key.

        Raises:
            InvalidPayload, InvalidOptions: before any SQL; nothing was stored.
            StoreClosed: the store was closed.
        """
        jobs = self._access.jobs()
        stamps = self._stamps(EnqueueOptions(delay, run_at, priority, max_attempts, expires))
        checked = checked_key(key)
        return jobs.enqueue_event(stamps, self._encoded([payload], jobs)[0], key=checked)

    def enqueue_many(
        self,
        payloads: Iterable[Any],
        *,
        key: str | None = None,
        delay: Length | None = None,
        run_at: Instant | None = None,
        priority: int | None = 0,
        max_attempts: int | None = None,
        expires: Length | None = None,
    ) -> list[int]:
        """Store one event per payload, all or none, in a few statements; ids in the order given.

        The options are those of ``enqueue``, and count for all: the key, too. One payload that
        is refused refuses all, before any SQL.
        """
        jobs = self._access.jobs()
        stamps = self._stamps(EnqueueOptions(delay, run_at, priority, max_attempts, expires))
        checked = checked_key(key)
        return jobs.enqueue_events(stamps, self._encoded(payloads, jobs), key=checked)

    def enqueue_tx(self, payload: Any, **options: Any) -> int:
        """Like ``enqueue``, but never outside a transaction: an event goes with what it tells.

        Raises:
            TransactionRequired: no transaction is open on the alias.
        """
        self._access.jobs()  # raises StoreClosed
        require_transaction("enqueue_tx", self.using)
        return self.enqueue(payload, **options)

    def cancel(self, event_id: int) -> bool:
        """Delete an event that is not delivered yet; return whether there was one.

        Never touches the dead. A delivery that runs is not interrupted. The next event of its
        key goes on.
        """
        return self._cancel(event_id)

    # -- delivering -----------------------------------------------------------------------

    def deliver(
        self,
        function: Any = None,
        *,
        batch: int | None = None,
        heartbeat: bool = True,
        timeout_s: Length | None = None,
    ) -> Any:
        """Make a function the one that delivers the events; use as a decorator.

        It takes one ``Event``. Returning means delivered; what it raises means again later by
        the curve, and dead when no attempt is left; ``RetryJob`` and ``FailJob`` choose.

        Args:
            batch: the function takes a list of up to so many events, no two of one key. It
                returns ``None`` when all are delivered, raises when none is, or returns a
                mapping of the ids of those that are not to an exception each.
            heartbeat: renew the events' deadlines while it runs.
            timeout_s: end the claims after so long; the events are retried by the curve, and
                the late result changes nothing.
        """

        def register(function: Function) -> Function:
            handlers.register(
                self._queue,
                function,
                heartbeat=heartbeat,
                timeout_s=timeout_s,
                batch=None if batch is None else checked_batch(batch),
                called=_of_jobs,
            )
            return function

        return register if function is None else register(function)

    # -- looking ------------------------------------------------------------------------

    def get_job(self, event_id: int) -> Job | None:
        """Read the job that carries an event, dead ones too; None if there is none."""
        return self._get_job(event_id)

    def _stamps(self, options: EnqueueOptions) -> Stamps:
        return options.stamps(self._stored_name, self._codec.name, self._options)


def _of_jobs(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of a job, or of a list of jobs, that calls one of events."""
    if handlers.is_coroutine_function(function):

        @functools.wraps(function)
        async def deliver_async(jobs: Job | Sequence[Job]) -> Any:
            return await function(_events(jobs))

        return deliver_async

    @functools.wraps(function)
    def deliver(jobs: Job | Sequence[Job]) -> Any:
        return function(_events(jobs))

    return deliver


def _events(jobs: Job | Sequence[Job]) -> Event | list[Event]:
    return Event(jobs) if isinstance(jobs, Job) else [Event(job) for job in jobs]
