"""Claims for one outbox: always exact, always in order per key."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

from ..core.records import JobRow
from .claiming import EXACT_EVERY_S, EXACT_PAUSE_S

if TYPE_CHECKING:
    from ..managers import JobManager

SEARCH_SHARE = 0.1
"""How much of the time may go into the search for stranded events."""

QUICK_S = 0.05
"""A step that took less may be taken by each poll, too."""


class OrderedClaimer:
    """Claims the events of one outbox for a worker; the twin of ``Claimer``.

    An event that was stored behind another is promoted by the worker that sees the other one
    leave. Those that nobody sees leave (cancelled, swept, acked while the next was not committed
    yet, or by a worker that died then) strand it: it is searched for once a second, and when a
    claim finds less than was asked for. The search goes on from key to key in short steps, with
    pauses in proportion to its own length, however many keys wait.
    """

    def __init__(self, jobs: JobManager, queue: str, worker_id: str) -> None:
        self._jobs = jobs
        self._queue = queue
        self._worker_id = worker_id
        self._search_due = float("-inf")
        self._search_from = float("-inf")
        self._search_took = 0.0
        self._after = ""
        self._bury_spent = True
        self.look_at = float("inf")

    def expect_anything(self) -> None:
        """Have the next claim bury what is spent, and search before it unless that takes long."""
        self._bury_spent = True
        self._search_due = float("-inf") if self._search_took < QUICK_S else self._search_from

    @property
    def is_searching(self) -> bool:
        """Whether the search has keys before it that wait."""
        return bool(self._after)

    def claim(self, n: int) -> list[JobRow]:
        """Claim up to ``n`` ready events."""
        if self._bury_spent:
            self._jobs.engine.bury_spent(self._queue)
            self._bury_spent = False
        searches = time.monotonic() >= self._search_due
        if searches:
            self._search()
        rows = self._claim(n)
        if len(rows) < n and not searches and time.monotonic() >= self._search_from:
            searches = True
            if self._search():
                rows += self._claim(n - len(rows))
        has_more = len(rows) < n and (self._after or not searches)
        self.look_at = self._search_from if has_more else float("inf")
        return rows

    def _claim(self, n: int) -> list[JobRow]:
        return self._jobs.claim_in_order(self._queue, worker_id=self._worker_id, n=n)

    def _search(self) -> int:
        """Take a step of the search; return how many events it promoted."""
        began = time.monotonic()
        promoted, self._after = self._jobs.promote_stranded(self._queue, after=self._after)
        now = time.monotonic()
        self._search_took = now - began
        self._search_from = now + max(self._search_took / SEARCH_SHARE, EXACT_PAUSE_S)
        if self._after:  # more keys wait than one step looks at
            self._search_due = self._search_from
        else:
            self._search_due = max(
                self._search_from, now + EXACT_EVERY_S * random.uniform(0.8, 1.0)
            )
        return promoted
