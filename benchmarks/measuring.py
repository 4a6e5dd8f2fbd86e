"""What a benchmark is, and how it is measured: package and raw in turns, medians of rounds."""

from __future__ import annotations

import statistics
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from django.db import connections

from alkstore_django.engines.registry import engine_for

from .environ import POSTGRES_SCHEMA

Values: TypeAlias = Sequence[float]


class BrokenMeasurement(Exception):
    """What was measured is not what was meant: jobs are left over, or missing."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much work one round is."""

    enqueues: int = 2_000
    many: int = 20_000
    drained: int = 20_000
    trial: int = 4_000
    relayed: int = 10_000
    deep: int = 1_000_000
    long_run: int = 200_000
    writing_s: float = 5.0
    idle_span_s: float = 20.0
    schedules: int = 10_000
    threads: tuple[int, ...] = (1, 4, 16, 64, 128)
    """How many handler threads the drain tries, with ``trial`` jobs each, to take the best."""
    wakes: int = 100
    idle_s: tuple[float, float] = (0.13, 0.2)
    """How long to wait before each wake, of either side: from and to."""


QUICK = Sizes(
    enqueues=40,
    many=600,
    drained=300,
    trial=100,
    relayed=200,
    threads=(4,),
    wakes=4,
    idle_s=(0.01, 0.02),
    deep=500,
    long_run=3_000,
    writing_s=0.5,
    idle_span_s=0.3,
    schedules=250,
)


@dataclass(frozen=True, slots=True)
class Metric:
    """One row of the table."""

    name: str
    unit: str
    higher_is_better: bool


@dataclass(frozen=True, slots=True)
class Result:
    """What the rounds gave for one metric on one engine."""

    metric: Metric
    engine: str
    package_values: Values
    raw_values: Values

    @property
    def value(self) -> float:
        """The package's median."""
        return statistics.median(self.package_values)

    @property
    def raw(self) -> float:
        """The raw counterpart's median."""
        return statistics.median(self.raw_values)

    @property
    def ratio(self) -> float:
        """How fast the package is for a raw of 1.00; above 1 is faster than raw."""
        return self._ratio(self.value, self.raw)

    @property
    def spread(self) -> tuple[float, float]:
        """The lowest and the highest ratio of a single round."""
        ratios = list(map(self._ratio, self.package_values, self.raw_values))
        return min(ratios), max(ratios)

    def _ratio(self, value: float, raw: float) -> float:
        above, below = (value, raw) if self.metric.higher_is_better else (raw, value)
        return above / below if below else 1.0


class Benchmark(ABC):
    """One measurement on one engine. ``round`` may be called any number of times."""

    name: ClassVar[str]
    metrics: ClassVar[tuple[Metric, ...]]

    def __init__(self, alias: str, sizes: Sizes) -> None:
        self.alias = alias
        self.sizes = sizes

    def prepare(self) -> str | None:
        """Set up what all rounds share; return what is worth saying about it."""
        return None

    @abstractmethod
    def round(self) -> tuple[Values, Values]:
        """Measure once: the package's value of each metric, and the raw one's."""


def measure(benchmark: Benchmark, runs: int) -> list[Result]:
    """Run some rounds, after one that does not count unless nothing is to be measured."""
    if benchmark.sizes is not QUICK:
        benchmark.round()
    rounds = [benchmark.round() for _ in range(runs)]
    return [
        Result(
            metric,
            benchmark.alias,
            package_values=[package[place] for package, _ in rounds],
            raw_values=[raw[place] for _, raw in rounds],
        )
        for place, metric in enumerate(benchmark.metrics)
    ]


def timed(work: Callable[[], object]) -> float:
    """Return the seconds that ``work`` took."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def expect(what: str, found: int, expected: int) -> None:
    """Raise ``BrokenMeasurement`` unless the two counts agree."""
    if found != expected:
        raise BrokenMeasurement(f"{what}: {found} instead of {expected}")


def stored(alias: str) -> int:
    """Return how many live jobs the package's store holds."""
    with connections[alias].cursor() as cursor:
        cursor.execute(f"SELECT count(*) FROM {engine_for(alias).table('job')}")
        return int(cursor.fetchone()[0])


def empty(alias: str) -> None:
    """Empty the package's tables, and the business table."""
    engine_for(alias).empty()
    with connections[alias].cursor() as cursor:
        cursor.execute("DELETE FROM note")
        if alias == "sqlite":
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def settle_statistics(alias: str) -> None:
    """Have PostgreSQL know its tables, so that autovacuum strikes neither side midway."""
    if alias == "postgres":
        with connections[alias].cursor() as cursor:
            for schema in (POSTGRES_SCHEMA, f"{POSTGRES_SCHEMA}_raw"):
                cursor.execute(f"VACUUM (ANALYZE) {schema}.job")
