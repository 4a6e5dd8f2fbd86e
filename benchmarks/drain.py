"""Drain a queue: one worker process and a handler that does nothing.

Raw is a loop on one connection: claim a batch, delete it.
"""

import contextlib

from alkstore_django import Queue

from .child import Child
from .ground import raw_store
from .measuring import (
    Benchmark,
    Metric,
    Sizes,
    Values,
    empty,
    expect,
    settle_statistics,
    stored,
    timed,
)


class Drain(Benchmark):
    """A worker in a process of its own, timed there from the start of its run to the end."""

    name = "drain"
    metrics = (Metric(name, "jobs/s", higher_is_better=True),)

    def __init__(self, alias: str, sizes: Sizes) -> None:
        super().__init__(alias, sizes)
        self._threads = sizes.threads[0]

    def prepare(self) -> str:
        """Find the number of handler threads that is best on this machine."""
        rates = {n: self._package(self.sizes.trial, n) for n in self.sizes.threads}
        self._threads = max(rates, key=rates.__getitem__)
        tried = ", ".join(f"{threads}: {rate:,.0f}/s" for threads, rate in rates.items())
        return f"drain with {self._threads} threads, the best of {tried}"

    def round(self) -> tuple[Values, Values]:
        n = self.sizes.drained
        return [self._package(n, self._threads)], [self._raw(n)]

    def _package(self, n: int, threads: int) -> float:
        empty(self.alias)
        queue = Queue("bench", using=self.alias)
        queue.enqueue_many([{"order": order} for order in range(n)])
        settle_statistics(self.alias)
        with Child("drain_worker", self.alias, threads) as worker:
            worker.read()
            worker.go()
            report = worker.read()
        expect("jobs acked", report["outcomes"].get("acked", 0), n)
        expect("jobs left", stored(self.alias), 0)
        return float(n / report["seconds"])

    def _raw(self, n: int) -> float:
        with contextlib.closing(raw_store(self.alias)) as raw:
            raw.empty()
            raw.enqueue_many([b'{"order":%d}' % order for order in range(n)])
            settle_statistics(self.alias)
            done = 0

            def drain() -> None:
                nonlocal done
                done = raw.drain()

            seconds = timed(drain)
            expect("raw jobs done", done, n)
            expect("raw jobs left", raw.count(), 0)
        return n / seconds
