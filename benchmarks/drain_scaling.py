"""How the drain holds when there are more workers, deep backlogs, or an old snapshot.

Each is measured beside the package's own drain without that: the ratio is what is left of it.
"""

import contextlib
from abc import abstractmethod

from django.db import connections

from alkstore_django import Queue
from alkstore_django.engines.registry import engine_for

from .child import Child
from .drain import Drain
from .measuring import Metric, Values, empty, expect, settle_statistics, stored

# More rows than anybody would like, stored by the engine itself.
FILL = {
    "postgres": "generate_series(1, {count}) AS place (n)",
    "sqlite": "(WITH RECURSIVE place (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM place "
    "WHERE n < {count}) SELECT n FROM place)",
}


def fill(alias: str, count: int, *, priority: int, delay_s: int) -> None:
    """Store ``count`` pending jobs by one statement."""
    clock = engine_for(alias).clock_us() // 1_000_000
    payload = "'{}'::bytea" if alias == "postgres" else "x'7b7d'"
    with connections[alias].cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {engine_for(alias).table('job')} (queue, state, priority, run_at, "
            f"attempts, max_attempts, visibility_timeout_s, backoff_base_s, enqueued_at, codec, "
            f"payload) SELECT 'bench', 'pending', {priority}, {clock + delay_s}, 0, 3, 300, 5, "
            f"{clock}, 'json', {payload} FROM {FILL[alias].format(count=count)}"
        )


class _ManyThreads(Drain):
    """A drain by the largest number of threads that the plain one tries."""

    def prepare(self) -> str:
        self._threads = max(self.sizes.threads)
        return f"{self.name} with {self._threads} threads"


class _DrainAgain(_ManyThreads):
    """A drain of the same number of jobs under other conditions."""

    def round(self) -> tuple[Values, Values]:
        return [self.under_conditions()], [self._package(self.sizes.drained, self._threads)]

    @abstractmethod
    def under_conditions(self) -> float:
        """Return the rate of the drain under the benchmark's conditions."""

    def rate_of(self, n: int) -> float:
        """Return the rate at which one worker does the first ``n`` jobs."""
        with Child("drain_worker", self.alias, self._threads, n) as worker:
            worker.read()
            worker.go()
            report = worker.read()
        done = report["outcomes"].get("acked", 0)
        if done < n:
            expect("jobs acked", done, n)
        return float(done / report["seconds"])


class DrainByTwo(_DrainAgain):
    """Two worker processes, beside one."""

    name = "drain_2_processes"
    metrics = (Metric(name, "jobs/s", higher_is_better=True),)

    def under_conditions(self) -> float:
        empty(self.alias)
        n = 2 * self.sizes.drained
        Queue("bench", using=self.alias).enqueue_many([{"order": order} for order in range(n)])
        settle_statistics(self.alias)
        with contextlib.ExitStack() as stack:
            workers = [
                stack.enter_context(Child("drain_worker", self.alias, self._threads))
                for _ in range(2)
            ]
            for worker in workers:
                worker.read()
            for worker in workers:
                worker.go()
            reports = [worker.read() for worker in workers]
        expect("jobs acked", sum(report["outcomes"].get("acked", 0) for report in reports), n)
        expect("jobs left", stored(self.alias), 0)
        return float(n / max(report["seconds"] for report in reports))


class DrainDeep(_DrainAgain):
    """The first jobs of a deep backlog of ready ones."""

    name = "drain_deep_backlog"
    metrics = (Metric(name, "jobs/s", higher_is_better=True),)

    def under_conditions(self) -> float:
        empty(self.alias)
        fill(self.alias, self.sizes.deep, priority=0, delay_s=0)
        settle_statistics(self.alias)
        return self.rate_of(self.sizes.drained)


class DrainBehindDelayed(_DrainAgain):
    """Ready jobs behind many of a higher priority that are not due yet."""

    name = "drain_behind_delayed"
    metrics = (Metric(name, "jobs/s", higher_is_better=True),)

    def under_conditions(self) -> float:
        empty(self.alias)
        fill(self.alias, self.sizes.deep, priority=9, delay_s=86_400)
        fill(self.alias, self.sizes.drained, priority=0, delay_s=0)
        settle_statistics(self.alias)
        return self.rate_of(self.sizes.drained)


class DrainUnderSnapshot(_ManyThreads):
    """Many jobs while another session keeps an old snapshot: its end, beside its beginning.

    Also how much memory the worker has at the end, beside after a short drain.
    """

    name = "drain_held_snapshot"
    metrics = (
        Metric("drain_held_snapshot", "jobs/s", higher_is_better=True),
        Metric("worker_memory", "MB", higher_is_better=False),
    )

    def round(self) -> tuple[Values, Values]:
        empty(self.alias)
        n = self.sizes.long_run
        fill(self.alias, n, priority=0, delay_s=0)
        settle_statistics(self.alias)
        with (
            Child("snapshot_holder", self.alias) as holder,
            Child("drain_worker", self.alias, self._threads) as worker,
        ):
            holder.read()
            worker.read()
            worker.go()
            report = worker.read()
            holder.go()
        expect("jobs acked", report["outcomes"].get("acked", 0), n)
        first, last = _ends(report["samples"])
        return [last, report["memory_mb"]], [first, self._memory_after_few()]

    def _memory_after_few(self) -> float:
        empty(self.alias)
        fill(self.alias, self.sizes.trial, priority=0, delay_s=0)
        with Child("drain_worker", self.alias, self._threads) as worker:
            worker.read()
            worker.go()
            return float(worker.read()["memory_mb"])


def _ends(samples: list[tuple[float, int]]) -> tuple[float, float]:
    """Return the rates of the first and the last ten seconds, or halves if it took less."""
    end = samples[-1][0]
    span = min(10.0, end / 2)
    first = [sample for sample in samples if sample[0] <= span]
    last = [sample for sample in samples if sample[0] >= end - span]
    return _rate(first), _rate(last)


def _rate(samples: list[tuple[float, int]]) -> float:
    (begin, before), (end, after) = samples[0], samples[-1]
    return (after - before) / (end - begin)
