"""Enqueue one job in a transaction, beside a business row.

Measured against two: the bare statements through the driver, and the same Django transaction
with a bare INSERT in place of the enqueue. The business row is written by the same plain
statement everywhere, so that the ORM's cost is nowhere.
"""

import contextlib
from collections.abc import Callable, Iterator

from django.db import connections, transaction

from alkstore_django import Queue
from alkstore_django.engines.registry import engine_for

from .ground import raw_store
from .measuring import Benchmark, Metric, Values, empty, expect, stored, timed
from .raw.base import COLUMNS, job_values

INSERT_NOTE = "INSERT INTO note (text) VALUES (%s)"
SLICES = 20
TEXT = "order 1"
PAYLOAD = b'{"order":1}'


class EnqueueInAtomic(Benchmark):
    """Beside BEGIN, INSERT, INSERT, COMMIT through the driver."""

    name = "enqueue_in_atomic"
    metrics = (Metric(name, "jobs/s", higher_is_better=True),)

    def round(self) -> tuple[Values, Values]:
        n = max(self.sizes.enqueues // SLICES, 1)
        queue = Queue("bench", using=self.alias)
        empty(self.alias)
        package_s = raw_s = 0.0
        with self.raw_enqueue() as raw_enqueue:
            for _ in range(SLICES):  # short turns, so that whatever else goes on meets both
                package_s += timed(lambda: self._package(queue, n))
                raw_s += timed(lambda: [raw_enqueue() for _ in range(n)])
        self.check(n * SLICES)
        return [n * SLICES / package_s], [n * SLICES / raw_s]

    def _package(self, queue: Queue, n: int) -> None:
        for _ in range(n):
            with transaction.atomic(using=self.alias):
                with connections[self.alias].cursor() as cursor:
                    cursor.execute(INSERT_NOTE, [TEXT])
                queue.enqueue({"order": 1})

    @contextlib.contextmanager
    def raw_enqueue(self) -> Iterator[Callable[[], None]]:
        """Yield what enqueues one raw job."""
        with contextlib.closing(raw_store(self.alias)) as raw:
            raw.empty()
            yield lambda: raw.enqueue_with_note(TEXT, PAYLOAD)
            self._raw_stored = raw.count()

    def check(self, n: int) -> None:
        """Raise unless both sides have stored ``n`` jobs."""
        expect("raw jobs stored", self._raw_stored, n)
        expect("jobs stored", stored(self.alias), n)


class EnqueueBesideInsert(EnqueueInAtomic):
    """Beside the same with a bare INSERT through Django's cursor."""

    name = "enqueue_to_bare_insert"
    metrics = (Metric(name, "jobs/s", higher_is_better=True),)

    @contextlib.contextmanager
    def raw_enqueue(self) -> Iterator[Callable[[], None]]:
        marks = ", ".join(["%s"] * (len(job_values()) + 1))
        table = engine_for(self.alias).table("job")
        insert = f"INSERT INTO {table} ({COLUMNS}, payload) VALUES ({marks}) RETURNING id"

        def enqueue() -> None:
            with transaction.atomic(using=self.alias), connections[self.alias].cursor() as cursor:
                cursor.execute(INSERT_NOTE, [TEXT])
                cursor.execute(insert, [*job_values(), PAYLOAD])
                cursor.fetchall()

        yield enqueue

    def check(self, n: int) -> None:
        expect("jobs stored", stored(self.alias), 2 * n)
