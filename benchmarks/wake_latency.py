"""From the commit to the start of the handler, in a worker that has nothing else to do.

Raw is the wake alone, from a commit to the moment when another process has noticed it: LISTEN
and NOTIFY on PostgreSQL; on SQLite ``data_version``, read as often as the package does where no
kernel tells it of writes.
"""

import contextlib
import math
import random
import time
from collections.abc import Sequence

from django.db import transaction

from alkstore_django import Queue

from .child import Child
from .ground import raw_store
from .measuring import Benchmark, BrokenMeasurement, Metric, Sizes, Values, empty, expect, stored
from .raw.base import RawStore

ANSWER_S = 30.0


class WakeLatency(Benchmark):
    """The two sides take turns, commit by commit, each idle in between."""

    name = "wake_latency"
    metrics = (
        Metric("wake_latency_p50", "ms", higher_is_better=False),
        Metric("wake_latency_p99", "ms", higher_is_better=False),
    )

    def __init__(self, alias: str, sizes: Sizes) -> None:
        super().__init__(alias, sizes)
        self._queue = Queue("bench", using=alias)

    def round(self) -> tuple[Values, Values]:
        empty(self.alias)
        package: list[float] = []
        raw: list[float] = []
        with (
            contextlib.closing(raw_store(self.alias)) as store,
            Child("idle_worker", self.alias) as worker,
            Child("raw_waiter", self.alias) as waiter,
        ):
            store.empty()
            worker.read()
            waiter.read()
            for _ in range(self.sizes.wakes):
                self._idle()
                package.append(self._package(worker))
                self._idle()
                raw.append(self._raw(store, waiter))
        expect("jobs left", stored(self.alias), 0)
        return _percentiles(package), _percentiles(raw)

    def _idle(self) -> None:
        time.sleep(random.uniform(*self.sizes.idle_s))

    def _package(self, worker: Child) -> float:
        committed_at = 0.0

        def note_commit() -> None:
            nonlocal committed_at
            committed_at = time.monotonic()

        with transaction.atomic(using=self.alias):
            transaction.on_commit(note_commit, using=self.alias)  # runs before the wake is sent
            self._queue.enqueue({"order": 1})
        return _ms(committed_at, worker.read(ANSWER_S))

    def _raw(self, store: RawStore, waiter: Child) -> float:
        store.enqueue_many([b"{}"])
        committed_at = time.monotonic()
        store.wake()
        return _ms(committed_at, waiter.read(ANSWER_S))


def _ms(committed_at: float, noticed_at: float) -> float:
    """Return the milliseconds between two instants of the monotonic clock."""
    if noticed_at < committed_at - 0.05:
        raise BrokenMeasurement("woken before the commit")
    return (noticed_at - committed_at) * 1000


def _percentiles(samples: Sequence[float]) -> Values:
    ordered = sorted(samples)
    return [ordered[math.ceil(share * len(ordered)) - 1] for share in (0.5, 0.99)]
