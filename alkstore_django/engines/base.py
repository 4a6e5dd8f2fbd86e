"""The contract of an engine: one method per operation, and the docstring is the law.

An engine serves one database alias in one process. It speaks through that alias's Django
connection of the calling thread, so every statement joins the caller's transaction if one
is open, and commits itself if none is. Identifiers are quoted once, at construction;
values are always parameters.

Clock: each statement reads the database's clock once, in microseconds. ``frozen_now_us``
replaces it for tests. Stored instants are whole UTC seconds: the present rounds down, a
promised instant (run_at after a delay, deadline, expiry) rounds up.

The held-claim predicate, used by all that acts on a claim: the row is processing, carries
this claim's token, and its deadline lies ahead (``deadline > now``). A claim is lapsed when
``deadline <= now``: at no instant are both true.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Sequence
from typing import ClassVar, Protocol, TypeAlias

from django.db.backends.base.base import BaseDatabaseWrapper

from ..core.frontier import Segment
from ..core.instants import FIRST_INSTANT
from ..core.options import Stamps
from ..core.records import Claim, Enqueued, JobRow, Purged
from .outbox import Outboxes
from .schedules import Schedules
from .statements import StatementRunner
from .upkeep import Upkeep

OnWake: TypeAlias = Callable[[str | None], None]
"""Takes the queue that was woken; ``None`` means that any may have been."""


class Subscription(Protocol):
    """One waiter's place at the wake: wakes are kept from the moment it exists."""

    def wait(self, timeout: float | None) -> bool:
        """Wait for a wake; True when one came (or was kept since the last wait)."""
        ...

    def close(self) -> None:
        """Give the place up; a second call changes nothing."""
        ...


class Engine(StatementRunner):
    """All that the package does on one database alias."""

    display_name: ClassVar[str]
    supports_parallel_writers: ClassVar[bool]
    """False where a transaction that writes keeps every other writer of the database out."""
    schedules: Schedules
    """The schedules and leases of the alias."""
    outbox: Outboxes
    """What it does for outboxes and inboxes."""
    upkeep: Upkeep
    """What maintenance and the admin ask for."""

    # -- tables ---------------------------------------------------------------------------

    @abstractmethod
    def schema_script(self, name: str) -> str:
        """Return the frozen DDL file ``name`` with this engine's identifiers filled in."""

    @abstractmethod
    def has_tables(self) -> bool:
        """Return whether ``migrate`` has created the engine's tables."""

    @abstractmethod
    def empty(self) -> None:
        """Delete every row of the engine's tables; ids go on from where they were."""

    # -- jobs -----------------------------------------------------------------------------

    @abstractmethod
    def enqueue(self, stamps: Stamps, payload: bytes) -> Enqueued:
        """Store one pending job and return its id.

        Law: CONTRACT 1.4, 2.1 to 2.3, 3.1.
        """

    @abstractmethod
    def enqueue_many(self, stamps: Stamps, payloads: Sequence[bytes]) -> list[Enqueued]:
        """Store one pending job per payload, all or none; ids ascend in the order given.

        Law: CONTRACT 3.2.
        """

    @abstractmethod
    def bury_spent(self, queue: str) -> None:
        """Move the queue's lapsed jobs with no attempts left to the dead.

        Law: CONTRACT 3.4.
        """

    @abstractmethod
    def claim(self, queue: str, *, worker_id: str, n: int, token: int) -> list[JobRow]:
        """Hand up to ``n`` ready jobs of ``queue`` to ``worker_id``, each to nobody else.

        Order: priority descending, run_at ascending, id ascending, over pending and lapsed
        jobs together. A lapsed claim is ready again and costs an attempt; one without
        attempts left is passed over (see ``bury_spent``). Jobs past ``expires_at`` are never
        handed out.

        Args:
            n: how many at most, at least 1.
            token: the fence of the claims made; never used before.
        Returns:
            0..n rows, as claimed, in claim order.
        Law: CONTRACT 3.3, 3.4.
        """

    @abstractmethod
    def claim_ahead(
        self, queue: str, *, worker_id: str, n: int, token: int, segments: Sequence[Segment]
    ) -> list[JobRow]:
        """Claim pending jobs like ``claim``, but only those that lie in the segments.

        For workers, which claim all the time: its cost does not grow with what they have
        claimed before, whoever keeps the server from tidying up. What it passes over, and
        lapsed jobs, is for ``claim`` to find. Where ``claim`` is always flat, an engine may
        look everywhere. Need not be durable by itself: a claim that a crash undoes leaves
        the job pending.
        """

    @abstractmethod
    def ack(self, claims: Collection[Claim]) -> set[int]:
        """Delete the rows of the claims that are still held; return the ids deleted.

        Law: CONTRACT 3.5, 3.7.
        """

    @abstractmethod
    def ack_free(self, claims: Collection[Claim]) -> tuple[set[int], set[int]]:
        """Like ``ack``, but never wait for a row that another transaction holds.

        Returns:
            the ids deleted, and those that are still held but could not be deleted now.
        """

    @abstractmethod
    def ack_ids(self, job_ids: Collection[int]) -> int:
        """Delete the rows that are processing and unlapsed, whoever claimed them; count them.

        Law: CONTRACT 3.7.
        """

    @abstractmethod
    def retry(self, claim: Claim, *, delay_us: int) -> bool:
        """Put a held job back to pending at now + delay, if its budget is not spent.

        Law: CONTRACT 3.8.
        """

    @abstractmethod
    def bury(self, claim: Claim, *, error: str) -> bool:
        """Move a held job to the dead with ``error``.

        Law: CONTRACT 3.9, 3.10.
        """

    @abstractmethod
    def heartbeat(self, claim: Claim, *, extend_us: int) -> bool:
        """Set a held claim's deadline to now + extend.

        Law: CONTRACT 3.6.
        """

    @abstractmethod
    def renew(self, claims: Collection[Claim]) -> set[int]:
        """Set each held claim's deadline to now + its own visibility timeout.

        Never waits for a row that another transaction holds: such a claim counts as held.

        Returns:
            the ids of the claims that are still held.
        Law: CONTRACT 7.1, 7.4.
        """

    @abstractmethod
    def give_back(self, claims: Collection[Claim]) -> set[int]:
        """Put held jobs back to pending as they were, their claim's attempt returned.

        Returns:
            the ids given back.
        Law: CONTRACT 7.4.
        """

    @abstractmethod
    def cancel(self, job_id: int) -> bool:
        """Delete a pending or processing row.

        Law: CONTRACT 3.11.
        """

    @abstractmethod
    def get_job(self, job_id: int, *, queue: str | None = None) -> JobRow | None:
        """Read a job, dead ones too; with ``queue``, only of that queue.

        Law: CONTRACT 1.5, 3.12.
        """

    @abstractmethod
    def sweep_expired(self, queue: str, *, limit: int) -> int:
        """Move up to ``limit`` rows past ``expires_at`` to the dead; return how many.

        Passes over rows that another session holds.
        Law: CONTRACT 3.13.
        """

    @abstractmethod
    def purge_dead(
        self, queue: str, *, retention_s: int, limit: int, since: int = FIRST_INSTANT
    ) -> Purged:
        """Delete up to ``limit`` dead rows with died_at + retention <= now, the oldest first.

        Args:
            since: look no further back than this ``died_at``: where the last batch ended. The
                next one then does not walk over what that one left behind in the index.
        Returns:
            how many were deleted, and the last ``died_at`` among them (``since`` if none).
        Law: CONTRACT 3.13.
        """

    @abstractmethod
    def live_count(self, queue: str, *, at_most: int) -> int:
        """Return how many jobs are pending or processing, none counted beyond ``at_most``."""

    # -- wake -----------------------------------------------------------------------------

    @abstractmethod
    def wake(self, queue: str) -> None:
        """Wake the waiters of ``queue`` in every process. Called after a commit, never before.

        A hint: a failure is logged and harms nobody.
        Law: CONTRACT 6.1 to 6.3.
        """

    @abstractmethod
    def subscribe(
        self,
        queues: Sequence[str],
        *,
        on_wake: OnWake | None = None,
        must_connect: bool = True,
    ) -> Subscription:
        """Return a subscription that any wake of ``queues`` rings, effective on return.

        Args:
            on_wake: called for each wake, in the thread that notices it, instead of keeping
                the wake for ``wait``. Must be quick and must not raise.
            must_connect: raise ``django.db.OperationalError`` if the wake cannot be reached
                now; else return at once and go on trying.
        Law: CONTRACT 6.2 to 6.4.
        """

    # -- health ---------------------------------------------------------------------------

    @abstractmethod
    def is_outage(self, error: BaseException) -> bool:
        """Return whether ``error`` says that the database is away, busy or refuses writes.

        Judged by SQLSTATE or SQLite's error code, never by message text.
        """

    @abstractmethod
    def drop_stale_connection(self) -> None:
        """Close this thread's connection if it no longer leads to the store.

        That is: broken, or open on a file that was replaced since. The next statement
        connects anew. Does nothing inside a transaction.
        """

    @abstractmethod
    def is_disturbed(self, connection: BaseDatabaseWrapper) -> bool:
        """Return whether an open connection of this alias cannot serve the next user as it is.

        That is: the driver has closed it, or is inside a transaction. Runs no SQL.
        """

    @abstractmethod
    def worker_fault(self) -> str | None:
        """Return why no worker can run on this database, in one line; ``None`` if one can."""
