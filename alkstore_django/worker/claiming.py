"""Claims for one queue: mostly ahead of the frontier, now and then exactly."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

from ..core.frontier import Frontier
from ..core.records import JobRow

if TYPE_CHECKING:
    from ..managers import JobManager

EXACT_EVERY_S = 1.0
"""However busy the queue is, it is looked at from its start at least so often."""

EXACT_PAUSE_S = 0.02
"""However often its worker is woken, it is looked at from its start at most so often."""


class Claimer:
    """Claims the jobs of one queue for a worker.

    A claim ahead that finds nothing is followed by an exact one, so that no job behind the
    frontier waits while its worker is idle; ``look_at`` says when, if one was made just before.
    """

    is_searching = False

    def __init__(self, jobs: JobManager, queue: str, worker_id: str) -> None:
        self._jobs = jobs
        self._queue = queue
        self._worker_id = worker_id
        self._frontier = Frontier()
        self._exact_at = float("-inf")
        self._exact_due = float("-inf")
        self._bury_spent = True
        self.look_at = float("inf")

    def expect_anything(self) -> None:
        """Make the next claim exact, and have it bury what is spent."""
        self._exact_due = float("-inf")
        self._bury_spent = True

    def claim(self, n: int) -> list[JobRow]:
        """Claim up to ``n`` ready jobs."""
        self.look_at = float("inf")
        now = time.monotonic()
        if now >= self._exact_due:
            return self._claim_exactly(n, now)
        rows = self._jobs.claim_ahead(
            self._queue, worker_id=self._worker_id, n=n, segments=self._frontier.segments()
        )
        self._frontier.note(rows, full=len(rows) == n)
        if rows:
            if len(rows) < n:  # what lies behind may have shared the wake
                self.look_at = self._exact_due
            return rows
        if now < self._exact_at + EXACT_PAUSE_S:
            self.look_at = self._exact_at + EXACT_PAUSE_S
            return rows
        return self._claim_exactly(n, now)

    def _claim_exactly(self, n: int, now: float) -> list[JobRow]:
        rows = self._jobs.claim(
            self._queue, worker_id=self._worker_id, n=n, bury_spent=self._bury_spent
        )
        self._bury_spent = False
        self._exact_at = now
        self._exact_due = now + EXACT_EVERY_S * random.uniform(0.8, 1.0)
        self._frontier.note(rows, full=len(rows) == n)
        return rows
