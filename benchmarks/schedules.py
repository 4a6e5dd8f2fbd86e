"""Many schedules due at once, fired by one scheduler; raw are the jobs' rows alone."""

import contextlib

from django.db import connections

from alkstore_django.core.options import QueueOptions, ScheduleOptions
from alkstore_django.core.schedules import Registration
from alkstore_django.engines.registry import engine_for

from .child import Child
from .ground import raw_store
from .measuring import Benchmark, Metric, Values, empty, expect, stored, timed

DAY_S = 86_400
START_US = 1_800_000_000_000_000


class SchedulesDue(Benchmark):
    """10,000 schedules become due at one instant, and are fired in batches.

    Beside the speed stands the most memory that the scheduler took for it; raw is what it had
    taken before it began.
    """

    name = "schedules_due"
    metrics = (
        Metric(name, "jobs/s", higher_is_better=True),
        Metric("scheduler_memory", "MB", higher_is_better=False),
    )
    _rounds = 0

    def prepare(self) -> None:
        empty(self.alias)
        engine = engine_for(self.alias)
        stamps = ScheduleOptions().stamps("bench", "json", QueueOptions())
        engine.frozen_now_us = START_US
        try:
            with engine.together():
                for number in range(self.sizes.schedules):
                    engine.schedules.register(
                        Registration(f"s{number}", "@every 1d", DAY_S, stamps, b"%d" % number)
                    )
        finally:
            engine.frozen_now_us = None

    def round(self) -> tuple[Values, Values]:
        n = self.sizes.schedules
        self._rounds += 1
        with connections[self.alias].cursor() as cursor:
            cursor.execute(f"DELETE FROM {engine_for(self.alias).table('job')}")
        now_us = START_US + self._rounds * DAY_S * 1_000_000
        with Child("ticker", self.alias, now_us) as ticker:
            ticker.read()
            ticker.go()
            report = ticker.read()
        expect("jobs fired", report["fired"], n)
        expect("jobs stored", stored(self.alias), n)
        wrong = sum(not line.adds_up for line in engine_for(self.alias).schedules.audit())
        expect("ledgers that do not add up", wrong, 0)
        encoded = [b"%d" % number for number in range(n)]
        with contextlib.closing(raw_store(self.alias)) as raw:
            raw.empty()
            raw_s = timed(lambda: raw.enqueue_many(encoded))
        return [n / report["seconds"], report["peak_mb"]], [n / raw_s, report["before_mb"]]
