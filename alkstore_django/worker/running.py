"""The jobs that a worker has, and what becomes of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..core.records import Claim, Job, JobRow
from ..handlers import Handler


class RunningJob:
    """A claimed job on its way through the worker. Times are ``time.monotonic()`` seconds."""

    __slots__ = ("acking", "claim", "ended", "handler", "job", "renewed_at", "row", "started_at")

    def __init__(self, row: JobRow, job: Job, handler: Handler, renewed_at: float) -> None:
        self.row = row
        self.job = job
        self.handler = handler
        self.claim: Claim = row.claim
        self.renewed_at = renewed_at
        self.started_at: float | None = None
        self.ended = False
        """Its handler has returned."""
        self.acking = False
        """Its handler thread is about to ack it: a renewal that finds it gone says nothing."""

    @property
    def renewal_due(self) -> float:
        """When the deadline should be renewed: after a third of the visibility timeout."""
        return self.renewed_at + self.row.visibility_timeout_s / 3

    @property
    def times_out_at(self) -> float | None:
        """When the handler's time is over, if it is limited and has begun."""
        limit = self.handler.timeout_s
        return None if limit is None or self.started_at is None else self.started_at + limit

    def is_overdue(self, now: float) -> bool:
        """Whether the handler's time is over."""
        end = self.times_out_at
        return end is not None and now >= end


class RunningJobs:
    """The claims that are open. Whoever takes one out, and nobody else, settles it.

    So a handler's end, its timeout, a lost claim and a stop cannot settle one job twice,
    whichever threads they come from: each step here is one operation on a dict, which is
    atomic.
    """

    def __init__(self) -> None:
        self._open: dict[int, RunningJob] = {}

    def __len__(self) -> int:
        return len(self._open)

    def add(self, jobs: Iterable[RunningJob]) -> None:
        """Put claims in that were just made."""
        self._open.update([(id(running), running) for running in jobs])

    def take(self, running: RunningJob) -> bool:
        """Take a claim out; False if somebody has done so before."""
        return self._open.pop(id(running), None) is not None

    def snapshot(self) -> list[RunningJob]:
        """Return those that are open now."""
        return list(self._open.values())


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


ACK = Outcome("ack")


def timed_out(running: RunningJob) -> Outcome:
    """Return what becomes of a claim whose handler took too long (CONTRACT 7.1)."""
    limit_s = round(running.handler.timeout_s or 0, 3)
    return Outcome("retry", error=f"timed out after {limit_s:g} s")
