"""The contract's lifecycle once more, as plain Python over a list of jobs.

Written from the rules, not from the package: it is what both engines are compared with.
Jobs are named by their place in the order of enqueue, claims by a number of their own, since
ids and claim tokens may differ between engines. Time is whole microseconds.
"""

import copy
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

SECOND = 1_000_000
HOUR_S = 3_600


def rounded_up(microseconds: int) -> int:
    """A promised instant, in whole seconds (1.4)."""
    return -(-microseconds // SECOND)


@dataclass
class ModelJob:
    """One job, live or dead."""

    place: int
    queue: str
    payload: Any
    priority: int
    run_at: int
    expires_at: int | None
    max_attempts: int
    visibility_timeout_s: int
    backoff_base_s: int
    enqueued_at: int
    attempts: int = 0
    state: str = "pending"
    worker_id: str | None = None
    claimed_at: int | None = None
    deadline: int | None = None
    claim: int | None = None
    last_error: str | None = None
    died_at: int | None = None

    def row(self) -> dict[str, Any]:
        """What a reader can see of it; which claim it is under, none can."""
        return {name: value for name, value in vars(self).items() if name != "claim"}


class Model:
    """All jobs of one store, and the rules of sections 2 and 3."""

    def __init__(self, now_s: int) -> None:
        self.now_us = now_s * SECOND
        self.jobs: dict[int, ModelJob] = {}
        self.places = 0
        self.claims = 0
        self._saved: list[dict[int, ModelJob]] = []

    @property
    def now_s(self) -> int:
        """The present, rounded down (1.4)."""
        return self.now_us // SECOND

    def rows(self) -> list[dict[str, Any]]:
        """Every job, in the order of enqueue."""
        return [job.row() for _, job in sorted(self.jobs.items())]

    def holds(self, place: int, claim: int) -> bool:
        """Whether an operation on that claim would succeed now."""
        return self._held(place, claim) is not None

    def any_live(self) -> bool:
        """Whether a claim could find anything now or later."""
        return any(job.state != "dead" for job in self.jobs.values())

    def any_to_sweep(self) -> bool:
        """Whether a sweep could find anything now or later."""
        return any(job.state == "dead" or job.expires_at for job in self.jobs.values())

    # -- transactions ---------------------------------------------------------------------

    def begin(self) -> None:
        self._saved.append(copy.deepcopy(self.jobs))

    def commit(self) -> None:
        self._saved.pop()

    def roll_back(self) -> None:
        self.jobs = self._saved.pop()

    # -- operations -----------------------------------------------------------------------

    def enqueue(
        self,
        queue: str,
        payload: Any,
        *,
        priority: int,
        delay_us: int | None,
        run_at_us: int | None,
        expires_us: int | None,
        **stamps: int,
    ) -> int:
        """2.2: a delay wins over run_at; without either the job is ready at once."""
        run_at = self.now_s
        if delay_us is not None:
            run_at = rounded_up(self.now_us + delay_us)
        elif run_at_us is not None:
            run_at = rounded_up(run_at_us)
        expires_at = None if expires_us is None else rounded_up(self.now_us + expires_us)
        place = self.places
        self.places += 1
        self.jobs[place] = ModelJob(
            place=place,
            queue=queue,
            payload=payload,
            priority=priority,
            run_at=run_at,
            expires_at=expires_at,
            enqueued_at=self.now_s,
            **stamps,
        )
        return place

    def claim(self, queue: str, worker_id: str, n: int) -> list[ModelJob]:
        """3.3, 3.4: bury the spent, then take the first n in order."""
        if n <= 0:
            return []
        for job in self._of(queue):
            if self._lapsed(job) and job.attempts >= job.max_attempts:
                self._bury(job, "max attempts exceeded")
        ready = [job for job in self._of(queue) if self._ready(job)]
        ready.sort(key=lambda job: (-job.priority, job.run_at, job.place))
        for job in ready[:n]:
            self.claims += 1
            job.state, job.claim = "processing", self.claims
            job.attempts += 1
            job.worker_id, job.claimed_at = worker_id, self.now_s
            job.deadline = rounded_up(self.now_us + job.visibility_timeout_s * SECOND)
        return ready[:n]

    def ack(self, place: int, claim: int) -> bool:
        """3.7"""
        job = self._held(place, claim)
        if job is not None:
            del self.jobs[place]
        return job is not None

    def ack_ids(self, places: Collection[int]) -> int:
        """3.7: by id, whoever claimed it."""
        held = [place for place in set(places) if self._unlapsed(self.jobs.get(place))]
        for place in held:
            del self.jobs[place]
        return len(held)

    def retry(self, place: int, claim: int, error: str | None, delay_us: int | None) -> bool:
        """3.8: a wait by the curve is left at its longest, see ``allowed_waits``."""
        job = self._held(place, claim)
        if job is None:
            return False
        if job.attempts >= job.max_attempts:
            self._bury(job, "max attempts exceeded" if error is None else error)
            return True
        if delay_us is None:
            delay_us = self.allowed_waits(job)[-1] * SECOND
        self._release(job)
        job.worker_id = job.claimed_at = None
        job.run_at = rounded_up(self.now_us + delay_us)
        return True

    @staticmethod
    def allowed_waits(job: ModelJob) -> range:
        """3.8: the whole seconds that the curve may draw after the job's present attempt."""
        cap = min(job.backoff_base_s * 2 ** (job.attempts - 1), HOUR_S)
        return range((cap + 1) // 2, cap + 1)

    def fail(self, place: int, claim: int, error: str | None) -> bool:
        """3.9"""
        job = self._held(place, claim)
        if job is not None:
            self._bury(job, "failed" if error is None else error)
        return job is not None

    def heartbeat(self, place: int, claim: int, extend_us: int) -> bool:
        """3.6"""
        job = self._held(place, claim)
        if job is not None:
            job.deadline = rounded_up(self.now_us + extend_us)
        return job is not None

    def cancel(self, place: int) -> bool:
        """3.11"""
        job = self.jobs.get(place)
        if job is None or job.state == "dead":
            return False
        del self.jobs[place]
        return True

    def sweep(self, queue: str, retention_s: int | None) -> tuple[int, int]:
        """3.13"""
        expired = [job for job in self._of(queue) if job.state != "dead" and self._expired(job)]
        for job in expired:
            self._bury(job, "expired")
        old = [job.place for job in self._of(queue) if self._beyond(job, retention_s)]
        for place in old:
            del self.jobs[place]
        return len(expired), len(old)

    # -- predicates of an instant (3.13: reached means past) ------------------------------

    def _of(self, queue: str) -> list[ModelJob]:
        return [job for job in self.jobs.values() if job.queue == queue]

    def _expired(self, job: ModelJob) -> bool:
        return job.expires_at is not None and job.expires_at * SECOND <= self.now_us

    def _lapsed(self, job: ModelJob) -> bool:
        return job.state == "processing" and job.deadline * SECOND <= self.now_us

    def _unlapsed(self, job: ModelJob | None) -> bool:
        return job is not None and job.state == "processing" and not self._lapsed(job)

    def _ready(self, job: ModelJob) -> bool:
        reached = job.state == "pending" and job.run_at * SECOND <= self.now_us
        return (reached or self._lapsed(job)) and not self._expired(job)

    def _beyond(self, job: ModelJob, retention_s: int | None) -> bool:
        if job.state != "dead" or retention_s is None:
            return False
        return (job.died_at + retention_s) * SECOND <= self.now_us

    def _held(self, place: int, claim: int) -> ModelJob | None:
        job = self.jobs.get(place)
        return job if self._unlapsed(job) and job.claim == claim else None

    def _release(self, job: ModelJob) -> None:
        job.state, job.claim, job.deadline = "pending", None, None

    def _bury(self, job: ModelJob, error: str) -> None:
        self._release(job)
        job.state, job.last_error, job.died_at = "dead", error, self.now_s
