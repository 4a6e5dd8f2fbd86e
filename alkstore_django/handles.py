"""What a claim and a ``listen()`` give to their holder."""

from __future__ import annotations

import threading

from .access import StoreAccess
from .core.instants import MICROSECONDS, Length, length_us
from .core.payloads import Codec
from .core.records import Job, JobRow
from .engines.base import Subscription


class JobHandle:
    """A claimed job, and what its holder may do with it.

    Each operation acts on this very claim: it succeeds while the job is processing, the
    deadline lies ahead, and no later claim exists. Else it returns False and changes nothing.
    An operation that a rollback undoes leaves the handle usable. A handle may be used in any
    thread.
    """

    __slots__ = ("_access", "_row", "claim", "job")

    def __init__(self, access: StoreAccess, row: JobRow, codec: Codec) -> None:
        self._access = access
        self._row = row
        self.claim = row.claim
        self.job = Job(row, codec)

    def __repr__(self) -> str:
        return f"<JobHandle of {self.job!r}>"

    def ack(self) -> bool:
        """Done: delete the job."""
        return bool(self._access.jobs().ack([self.claim]))

    def retry(self, error: object = None, delay: Length | None = None) -> bool:
        """Run it again later: after ``delay``, or by the backoff curve for None.

        If no attempt is left the job is dead instead, with ``error``, or ``max attempts
        exceeded`` for None.
        """
        jobs = self._access.jobs()
        delay_us = None if delay is None else length_us("delay", delay, at_least_s=0)
        return jobs.retry(self._row, error=error, delay_us=delay_us)

    def fail(self, error: object = None) -> bool:
        """Bury it now with ``error`` as its last error, ``failed`` for None."""
        return self._access.jobs().fail(self._row, error=error)

    def heartbeat(self, extend: Length) -> bool:
        """Set the deadline to now + ``extend`` (at least 1 s); not additive."""
        jobs = self._access.jobs()
        extend_us = length_us("extend", extend, at_least_s=1)
        return jobs.engine.heartbeat(self.claim, extend_us=extend_us)


class Listener:
    """What ``Queue.listen()`` yields."""

    __slots__ = ("_access", "_subscription")

    def __init__(self, access: StoreAccess, subscription: Subscription) -> None:
        self._access = access
        self._subscription = subscription

    def wait(self, timeout: Length | None = None) -> bool:
        """Wait for a wake. True when one came since the last wait, False when time is over.

        ``None`` waits for as long as it takes. A wake is a hint: look again by the clock too.
        """
        self._access.jobs()  # raises StoreClosed
        seconds = None
        if timeout is not None:
            seconds = length_us("timeout", timeout, at_least_s=0) / MICROSECONDS
            seconds = min(seconds, threading.TIMEOUT_MAX)
        return self._subscription.wait(seconds)
