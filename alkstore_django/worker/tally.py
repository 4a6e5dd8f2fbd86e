"""What a worker has done, per queue and outcome; readable from any thread."""

from __future__ import annotations

import threading
from collections import Counter

OUTCOMES = ("acked", "retried", "died", "given_back", "lost")


class Tally:
    """Counters of settled jobs."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()

    def add(self, queue: str, outcome: str, n: int = 1) -> None:
        """Count ``n`` jobs of a queue under an outcome."""
        with self._lock:
            self._counts[queue, outcome] += n

    def count(self, outcome: str, queue: str | None = None) -> int:
        """Return how many jobs had an outcome, in one queue or in all."""
        items = list(self._counts.items())
        return sum(n for (q, o), n in items if o == outcome and queue in (None, q))

    def as_dict(self) -> dict[str, dict[str, int]]:
        """Return ``{queue: {outcome: count}}`` for the queues that had any job."""
        table: dict[str, dict[str, int]] = {}
        for (queue, outcome), n in list(self._counts.items()):
            table.setdefault(queue, {})[outcome] = n
        return table

    def __str__(self) -> str:
        return " ".join(f"{outcome}={self.count(outcome)}" for outcome in OUTCOMES)
