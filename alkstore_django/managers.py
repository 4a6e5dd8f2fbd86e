"""The raw-SQL managers: what can be done with the jobs of one alias.

A manager is bound to an alias like any of Django's (``Job.objects.db_manager("other")``),
and never asks a router for it. Its operations take checked values, run the engine's
statements in the caller's transaction if there is one, and see to the wake after the
commit. Queues build on them; use a ``Queue`` unless you need the rows themselves.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

from django.db import models
from django.db.models import F, Q

from .commit_wake import wake_after_commit
from .core.backoff import backoff_s
from .core.errortext import FAILED, MAX_ATTEMPTS_EXCEEDED, kept_error
from .core.frontier import Segment
from .core.instants import MICROSECONDS
from .core.options import Stamps
from .core.records import Claim, JobRow, SweepResult
from .engines.base import Engine
from .engines.registry import engine_for
from .engines.upkeep import EnqueuedAgain
from .fields import EpochNow
from .tables import EngineQuerySet

SWEEP_BATCH = 500
KEYS_AT_ONCE = 1_000


class JobQuerySet(EngineQuerySet):
    """Reads the live jobs."""

    def for_queue(self, name: str) -> JobQuerySet:
        """Only the jobs of one queue."""
        return self.filter(queue=name)

    def ready(self) -> JobQuerySet:
        """Jobs that a claim could take now, in claim order."""
        reached = Q(state="pending", run_at__lte=EpochNow())
        lapsed = Q(state="processing", deadline__lte=EpochNow(), attempts__lt=F("max_attempts"))
        unexpired = Q(expires_at__isnull=True) | Q(expires_at__gt=EpochNow())
        return self.filter(reached | lapsed, unexpired).order_by("-priority", "run_at", "id")

    def running(self) -> JobQuerySet:
        """Jobs whose claim is held."""
        return self.filter(state="processing", deadline__gt=EpochNow())

    def lapsed(self) -> JobQuerySet:
        """Jobs whose claim lapsed and was not taken over yet."""
        return self.filter(state="processing", deadline__lte=EpochNow())


class DeadJobQuerySet(EngineQuerySet):
    """Reads the dead jobs."""

    def for_queue(self, name: str) -> DeadJobQuerySet:
        """Only the jobs of one queue."""
        return self.filter(queue=name)


if TYPE_CHECKING:
    _JobManager = models.Manager[Any]
else:
    _JobManager = models.Manager.from_queryset(JobQuerySet)

DeadJobManager = models.Manager.from_queryset(DeadJobQuerySet)
ScheduleManager = models.Manager.from_queryset(EngineQuerySet)


class JobManager(_JobManager):
    """The operations on jobs. Arguments are checked values; see ``Queue`` for the rules."""

    @property
    def engine(self) -> Engine:
        """The engine of the alias that this manager is bound to."""
        return engine_for(self.db)

    def enqueue(self, stamps: Stamps, payload: bytes) -> int:
        """Store one job; its wake follows the commit, if it is ready by then."""
        engine = self.engine
        stored = engine.enqueue(stamps, payload)
        if stored.ready:
            wake_after_commit(engine, stamps.queue)
        return stored.id

    def enqueue_many(self, stamps: Stamps, payloads: Sequence[bytes]) -> list[int]:
        """Store one job per payload, all or none; ids in the order given."""
        if not payloads:
            return []
        engine = self.engine
        stored = engine.enqueue_many(stamps, payloads)
        if any(job.ready for job in stored):
            wake_after_commit(engine, stamps.queue)
        return [job.id for job in stored]

    def claim(self, queue: str, *, worker_id: str, n: int, bury_spent: bool = True) -> list[JobRow]:
        """Claim up to ``n`` ready jobs, each under this call's own fence.

        Args:
            bury_spent: first move lapsed jobs without attempts left to the dead. A worker,
                which claims all the time, asks for it now and then only.
        """
        if n <= 0:
            return []
        engine = self.engine
        if bury_spent:
            engine.bury_spent(queue)
        token = secrets.randbits(63)
        return engine.claim(queue, worker_id=worker_id, n=min(n, 2**31 - 1), token=token)

    def claim_ahead(
        self, queue: str, *, worker_id: str, n: int, segments: Sequence[Segment]
    ) -> list[JobRow]:
        """Claim up to ``n`` ready jobs in the segments, for a worker: see ``Engine.claim_ahead``."""
        token = secrets.randbits(63)
        return self.engine.claim_ahead(
            queue, worker_id=worker_id, n=n, token=token, segments=segments
        )

    # -- events, which may have a key -------------------------------------------------------

    def enqueue_event(self, stamps: Stamps, payload: bytes, *, key: str | None) -> int:
        """Store one event; the wake is for who finds it stranded, too."""
        if key is None:
            return self.enqueue(stamps, payload)
        engine = self.engine
        stored = engine.outbox.enqueue(stamps, payload, key=key)
        if stored.ready:
            wake_after_commit(engine, stamps.queue)
        return stored.id

    def enqueue_events(
        self, stamps: Stamps, payloads: Sequence[bytes], *, key: str | None
    ) -> list[int]:
        """Store one event per payload, all of one key, all or none; ids in the order given."""
        if key is None or not payloads:
            return self.enqueue_many(stamps, payloads)
        engine = self.engine
        stored = engine.outbox.enqueue_many(stamps, payloads, key=key)
        if any(event.ready for event in stored):
            wake_after_commit(engine, stamps.queue)
        return [event.id for event in stored]

    def claim_in_order(self, queue: str, *, worker_id: str, n: int) -> list[JobRow]:
        """Claim up to ``n`` ready events, the first of their keys."""
        token = secrets.randbits(63)
        return self.engine.outbox.claim(queue, worker_id=worker_id, n=n, token=token)

    def promote_stranded(self, queue: str, *, after: str = "") -> tuple[int, str]:
        """Find keys above ``after`` whose first event waits for nothing, and promote it.

        Returns:
            how many were promoted, and after which key to go on; ``""`` at the end.
        """
        outbox = self.engine.outbox
        keys = outbox.waiting_keys(queue, after=after, limit=KEYS_AT_ONCE)
        promoted = outbox.promote(queue, [key for key, is_stranded in keys if is_stranded])
        return promoted, keys[-1][0] if len(keys) == KEYS_AT_ONCE else ""

    # -- claims -----------------------------------------------------------------------------

    def ack(self, claims: Collection[Claim]) -> set[int]:
        """Delete the jobs whose claims are still held; return their ids."""
        return self.engine.ack(claims)

    def ack_free(self, claims: Collection[Claim]) -> tuple[set[int], set[int]]:
        """Ack as above, but wait for nobody: return the ids deleted, and those still held."""
        return self.engine.ack_free(claims)

    def retry(self, row: JobRow, *, error: object, delay_us: int | None) -> bool:
        """Put a claimed job back, or bury it if that claim was its last attempt."""
        if row.attempts >= row.max_attempts:
            return self.bury(row, error=kept_error(error, default=MAX_ATTEMPTS_EXCEEDED))
        if delay_us is None:
            delay_us = backoff_s(row.backoff_base_s, row.attempts) * MICROSECONDS
        return self.engine.retry(row.claim, delay_us=delay_us)

    def fail(self, row: JobRow, *, error: object) -> bool:
        """Move a claimed job to the dead."""
        return self.bury(row, error=kept_error(error, default=FAILED))

    def bury(self, row: JobRow, *, error: str) -> bool:
        """Move a claimed job to the dead with exactly this error."""
        return self.engine.bury(row.claim, error=error)

    def sweep(
        self,
        queue: str,
        *,
        retention_s: int | None,
        after_batch: Callable[[SweepResult], None] | None = None,
    ) -> SweepResult:
        """Bury what has expired and purge what is beyond retention, in short batches.

        Outside a transaction each batch commits by itself, so that no lock lasts long.

        Args:
            after_batch: told the counts so far.
        """
        engine = self.engine
        done = SweepResult(0, 0)
        tell = after_batch or (lambda _: None)
        while moved := engine.sweep_expired(queue, limit=SWEEP_BATCH):
            tell(done := done._replace(expired=done.expired + moved))
        if retention_s is not None:
            gone = engine.purge_dead(queue, retention_s=retention_s, limit=SWEEP_BATCH)
            while gone.n:
                tell(done := done._replace(purged=done.purged + gone.n))
                gone = engine.purge_dead(
                    queue, retention_s=retention_s, limit=SWEEP_BATCH, since=gone.until
                )
        return done

    def enqueue_again(self, dead_ids: Sequence[int]) -> list[EnqueuedAgain]:
        """Make fresh jobs of dead ones (CONTRACT 3.14); wakes follow the commit.

        See ``Upkeep.enqueue_again`` for what becomes of each.
        """
        engine = self.engine
        stored = engine.upkeep.enqueue_again(dead_ids)
        for queue in {job.queue for job in stored if job.ready}:
            wake_after_commit(engine, queue)
        return stored
