"""The record of one job while a worker has it."""

from __future__ import annotations

from dataclasses import dataclass

from ..core.records import Claim, Job, JobRow
from ..handlers import Handler


@dataclass(slots=True, eq=False)
class RunningJob:
    """A claimed job on its way through the worker. Times are ``time.monotonic()`` seconds."""

    row: JobRow
    job: Job
    handler: Handler
    renewed_at: float
    started_at: float | None = None
    ended: bool = False
    """The claim is over (settled, timed out, lost or given back): a late result is dropped."""
    acking: bool = False
    """Its handler thread is about to ack it: a renewal that finds it gone says nothing."""

    @property
    def claim(self) -> Claim:
        """The fence of the claim."""
        return self.row.claim

    @property
    def renewal_due(self) -> float:
        """When the deadline should be renewed: after a third of the visibility timeout."""
        return self.renewed_at + self.row.visibility_timeout_s / 3

    @property
    def times_out_at(self) -> float | None:
        """When the handler's time is over, if it is limited and has begun."""
        limit = self.handler.timeout_s
        return None if limit is None or self.started_at is None else self.started_at + limit


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is to become of a claim.

    Attributes:
        verb: ``ack``, ``retry``, ``fail``; ``acked`` when the ack is committed already;
            ``refused`` when it was refused and the handler's writes were rolled back.
        error: for retry and fail: why; ``None`` for the default text.
        delay_us: for retry: how long, in microseconds; ``None`` for the curve.
        exception: what the handler raised by mistake.
    """

    verb: str
    error: object = None
    delay_us: int | None = None
    exception: BaseException | None = None
