"""Enqueue many jobs at once, beside multi-row inserts in chunks of the same size."""

import contextlib

from alkstore_django import Queue

from .ground import raw_store
from .measuring import Benchmark, Metric, Values, empty, expect, stored, timed


class EnqueueMany(Benchmark):
    """20,000 small payloads in one call; the raw ones are encoded beforehand."""

    name = "enqueue_many"
    metrics = (Metric(name, "jobs/s", higher_is_better=True),)

    def round(self) -> tuple[Values, Values]:
        n = self.sizes.many
        empty(self.alias)
        queue = Queue("bench", using=self.alias)
        payloads = [{"order": order} for order in range(n)]
        package_s = timed(lambda: queue.enqueue_many(payloads))
        expect("jobs stored", stored(self.alias), n)
        encoded = [b'{"order":%d}' % order for order in range(n)]
        with contextlib.closing(raw_store(self.alias)) as raw:
            raw.empty()
            raw_s = timed(lambda: raw.enqueue_many(encoded))
            expect("raw jobs stored", raw.count(), n)
        return [n / package_s], [n / raw_s]
