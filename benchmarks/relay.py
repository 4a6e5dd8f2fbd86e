"""Relay an outbox: worker processes and a delivery that does nothing.

Raw is a loop on one connection: claim a batch, delete it; it knows no order.
"""

import contextlib
from typing import ClassVar

from django.db import transaction

from alkstore_django import Outbox

from .child import Child
from .drain import Drain
from .measuring import Metric, Values, empty, expect, settle_statistics, stored


class Relay(Drain):
    """Events without keys, delivered one by one by one process."""

    name = "relay"
    metrics = (Metric(name, "events/s", higher_is_better=True),)
    processes: ClassVar[int] = 1
    batch: ClassVar[int] = 0
    events_per_key: ClassVar[int] = 0

    def prepare(self) -> str:
        self._threads = 4 if self.batch else max(self.sizes.threads)
        return f"{self.name} with {self._threads} threads in each process"

    def round(self) -> tuple[Values, Values]:
        return [self._relayed(self.sizes.relayed)], [self._raw(self.sizes.relayed)]

    def _relayed(self, n: int) -> float:
        empty(self.alias)
        self._enqueue(n)
        settle_statistics(self.alias)
        with contextlib.ExitStack() as stack:
            relays = [
                stack.enter_context(Child("relay_worker", self.alias, self._threads, self.batch))
                for _ in range(self.processes)
            ]
            for relay in relays:
                relay.read()
            for relay in relays:
                relay.go()
            reports = [relay.read() for relay in relays]
        expect("events delivered", sum(report["acked"] for report in reports), n)
        expect("events left", stored(self.alias), 0)
        return float(n / max(report["seconds"] for report in reports))

    def _enqueue(self, n: int) -> None:
        outbox = Outbox("bench", using=self.alias)
        if not self.events_per_key:
            outbox.enqueue_many([{"order": order} for order in range(n)])
            return
        with transaction.atomic(using=self.alias):
            for start in range(0, n, self.events_per_key):
                orders = range(start, min(start + self.events_per_key, n))
                outbox.enqueue_many([{"order": order} for order in orders], key=f"k{start}")


class RelayByTwo(Relay):
    """The same by two processes."""

    name = "relay_2_processes"
    metrics = (Metric(name, "events/s", higher_is_better=True),)
    processes = 2


class RelayBatch(Relay):
    """Delivered a hundred by a call."""

    name = "relay_batch"
    metrics = (Metric(name, "events/s", higher_is_better=True),)
    batch = 100


class RelayKeyed(Relay):
    """Twenty events of each key, one by one."""

    name = "relay_keyed"
    metrics = (Metric(name, "events/s", higher_is_better=True),)
    events_per_key = 20


class RelayKeyedByTwo(RelayKeyed):
    """The same by two processes."""

    name = "relay_keyed_2_processes"
    metrics = (Metric(name, "events/s", higher_is_better=True),)
    processes = 2


class RelayKeyedBatch(RelayKeyed):
    """A hundred by a call, no two of one key."""

    name = "relay_keyed_batch"
    metrics = (Metric(name, "events/s", higher_is_better=True),)
    batch = 100
