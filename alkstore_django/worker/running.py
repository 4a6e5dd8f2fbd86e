"""The jobs that a worker has, and what becomes of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ..core.records import Claim, Job, JobRow
from ..handlers import Handler


class RunningJob:
    """A claimed job on its way through the worker. Times are ``time.monotonic()`` seconds."""

    __slots__ = (
        "acking", "batch", "claim", "ended", "handler", "holds_slot", "job", "renewed_at", "row",
        "started_at",
    )  # fmt: skip

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
        self.batch: RunningBatch | None = None
        self.holds_slot = True
        """Its end makes room for another: of a batch that is only the last one's."""

    @property
    def jobs(self) -> tuple[RunningJob]:
        """Itself: what a batch has many of."""
        return (self,)

    def start(self, now: float) -> None:
        """Note when the call begins."""
        self.started_at = now

    def end(
        self, outcomes: Sequence[Outcome], on_end: Callable[[RunningJob, Outcome], None]
    ) -> None:
        """Report the end."""
        self.ended = True
        on_end(self, outcomes[0])

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


class RunningBatch:
    """Claimed events that one call delivers, in one slot; each is settled by itself."""

    __slots__ = ("handler", "jobs")

    def __init__(self, jobs: Sequence[RunningJob]) -> None:
        self.jobs = jobs
        self.handler = jobs[0].handler
        for running in jobs:
            running.batch = self
            running.holds_slot = running is jobs[-1]

    @property
    def is_over(self) -> bool:
        """Whether the claims of all of them are."""
        return all(running.job.lost for running in self.jobs)

    def start(self, now: float) -> None:
        """Note when the call begins."""
        for running in self.jobs:
            running.started_at = now

    def end(
        self, outcomes: Sequence[Outcome], on_end: Callable[[RunningJob, Outcome], None]
    ) -> None:
        """Report the end of each, in order."""
        for running in self.jobs:
            running.ended = True
        for running, outcome in zip(self.jobs, outcomes, strict=True):
            on_end(running, outcome)


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

Unit: TypeAlias = RunningJob | RunningBatch
"""What a slot is for: one call of a handler."""


def timed_out(running: RunningJob) -> Outcome:
    """Return what becomes of a claim whose handler took too long (CONTRACT 7.1)."""
    limit_s = round(running.handler.timeout_s or 0, 3)
    return Outcome("retry", error=f"timed out after {limit_s:g} s")
