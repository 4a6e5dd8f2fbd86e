"""A walk of random operations on schedules, each step compared with a model.

The model knows no formula of the package: it counts boundaries by going from one to the next.
Two contenders for the lease, a ticker that asks for no lease, crashes before the commit,
registrations that are rolled back, leaders that sleep beyond their lease, and clocks that jump
by an hour are all among the steps.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

from django.db import connections, transaction

from alkstore_django import LeadershipLost, schedule, unschedule
from alkstore_django.engines.registry import engine_for
from alkstore_django.scheduling.leadership import Leadership
from alkstore_django.scheduling.ticking import Ticker
from alkstore_django.testing import frozen_time
from tests.support.rows import TABLES, live_rows, schedule_row

START = 1_800_000_000
NAMES = ("a", "b", "c")
SPECS = {"@every 1s": 1, "@every 7s": 7, "@every 60s": 60, "@every 1m": 60, "@every 2h": 7200}
LEASE_S = 15
CATCH_UP = 64
N_STEPS = 16


@dataclass
class Entry:
    """What a schedule should be."""

    spec: str
    payload: int
    next_at: int
    boundaries: int = 0
    """All that there were, up to the next one."""
    fired: int = 0
    skipped: int = 0


@dataclass
class Contender:
    """One that may lead, with a clock of its own, and what the model thinks of its trust."""

    leadership: Leadership
    ticker: Ticker
    trusted_until: float = float("-inf")
    renew_at: float = float("-inf")


@dataclass
class Lease:
    """Who holds the lease, and until when by the database's clock."""

    owner: str | None = None
    expires_at: float = 0.0


class Crash(Exception):
    """A process dies after its jobs were written, before they were committed."""


class CrashingTicker(Ticker):
    """Dies just then."""

    def _visit(self, *args: Any, **kwargs: Any) -> None:
        super()._visit(*args, **kwargs)
        raise Crash


@dataclass
class Walk:
    """One walk on an alias whose tables are empty; ``run`` raises AssertionError with the trail."""

    alias: str
    seed: int
    trail: list[str] = field(default_factory=list)
    entries: dict[str, Entry] = field(default_factory=dict)
    jobs: Counter[tuple[str, int, int]] = field(default_factory=Counter)
    lease: Lease = field(default_factory=Lease)
    monotonic: float = 0.0

    def run(self) -> None:
        """Walk all steps, and compare after each."""
        self._draw = random.Random(self.seed)
        self._engine = engine_for(self.alias)
        empty(self.alias)
        with frozen_time(self.alias, START) as self._clock:
            self._contenders = [self._contender(), self._contender()]
            for _ in range(N_STEPS):
                self._step()
                self._compare()
            self._compare_jobs()

    @property
    def now(self) -> int:
        """The present second."""
        return int(self._clock.now)

    # -- steps ----------------------------------------------------------------------------

    def _step(self) -> None:
        kinds = {
            self._wait: 5,
            self._register: 5,
            self._register_in_vain: 1,
            self._unregister: 1,
            self._lead: 6,
            self._tick_without_lease: 2,
            self._crash: 2,
            self._sleep_beyond_the_lease: 1,
            self._jump: 1,
            self._resign: 1,
        }
        (step,) = self._draw.choices(list(kinds), list(kinds.values()))
        self.trail.append(step.__name__)
        step()

    def _wait(self) -> None:
        self._advance(self._draw.choice([0.3, 1, 2.5, 10, 70, 200]))

    def _register(self) -> None:
        name, spec = self._draw.choice(NAMES), self._draw.choice(list(SPECS))
        payload = self._draw.randrange(3)
        self.trail.append(f"{name} {spec} {payload}")
        schedule(name, spec, f"q-{name}", payload, using=self.alias)
        self._model_register(name, spec, payload)

    def _register_in_vain(self) -> None:
        with transaction.atomic(using=self.alias):
            schedule(self._draw.choice(NAMES), "@every 3s", "vain", "vain", using=self.alias)
            transaction.set_rollback(True, using=self.alias)

    def _unregister(self) -> None:
        name = self._draw.choice(NAMES)
        assert unschedule(name, using=self.alias) is (name in self.entries), self._told()
        self.entries.pop(name, None)

    def _lead(self) -> None:
        """A contender leads on, or tries to; only if it leads does it tick."""
        contender = self._draw.choice(self._contenders)
        if contender.trusted_until == float("-inf"):
            taken = contender.leadership.try_to_take()
            assert taken is self._model_take(contender), self._told()
            if not taken:
                return
        expected = self._model_keep(contender)
        try:
            contender.ticker.tick(self.now)
        except LeadershipLost:
            assert not expected, self._told()
            self._replace(contender)
        else:
            assert expected, self._told()
            self._model_tick()

    def _tick_without_lease(self) -> None:
        Ticker(self._engine).tick(self.now)
        self._model_tick()

    def _crash(self) -> None:
        is_due = any(entry.next_at <= self.now for entry in self.entries.values())
        try:
            CrashingTicker(self._engine).tick(self.now)
        except Crash:
            return
        assert not is_due, self._told()

    def _sleep_beyond_the_lease(self) -> None:
        """As a process does that was sent SIGSTOP: the others go on."""
        self._advance(LEASE_S * 1.2)

    def _jump(self) -> None:
        self._clock.advance(self._draw.choice([-3600, 3600]))

    def _resign(self) -> None:
        contender = self._draw.choice(self._contenders)
        is_ours = self.lease.owner == contender.leadership.owner
        assert contender.leadership.release() is is_ours, self._told()
        if is_ours:
            self.lease = Lease()
        self._replace(contender)

    def _advance(self, seconds: float) -> None:
        self._clock.advance(seconds)
        self.monotonic += seconds

    def _contender(self) -> Contender:
        leadership = Leadership(self._engine.schedules, LEASE_S, clock=lambda: self.monotonic)

        def keep() -> bool:
            leadership.keep()
            return True

        return Contender(leadership, Ticker(self._engine, keep=keep))

    def _replace(self, contender: Contender) -> None:
        self._contenders[self._contenders.index(contender)] = self._contender()

    # -- the model ------------------------------------------------------------------------

    def _model_register(self, name: str, spec: str, payload: int) -> None:
        first = -int(-self._clock.now // 1) + SPECS[spec]
        entry = self.entries.get(name)
        if entry is None:
            self.entries[name] = Entry(spec, payload, first)
            return
        if SPECS[entry.spec] != SPECS[spec]:
            while entry.next_at <= self.now:
                entry.next_at += SPECS[entry.spec]
                entry.boundaries += 1
                entry.skipped += 1
            entry.next_at = first
        self.entries[name] = replace(entry, spec=spec, payload=payload)

    def _model_tick(self) -> None:
        for name, entry in self.entries.items():
            n = 0
            while entry.next_at <= self.now:
                if n < CATCH_UP:
                    self.jobs[f"q-{name}", entry.payload, entry.next_at] += 1
                    entry.fired += 1
                else:
                    entry.skipped += 1
                n += 1
                entry.boundaries += 1
                entry.next_at += SPECS[entry.spec]

    def _model_take(self, contender: Contender) -> bool:
        now, lease = self._clock.now, self.lease
        if lease.owner is not None and now < lease.expires_at <= now + 2 * LEASE_S:
            return False
        self._model_have(contender)
        return True

    def _model_keep(self, contender: Contender) -> bool:
        if self.monotonic >= contender.trusted_until:
            return False
        if self.monotonic >= contender.renew_at:
            if self.lease.owner != contender.leadership.owner:
                return False
            self._model_have(contender)
        return True

    def _model_have(self, contender: Contender) -> None:
        self.lease = Lease(contender.leadership.owner, self._clock.now + LEASE_S)
        contender.renew_at = self.monotonic + LEASE_S / 3
        contender.trusted_until = self.monotonic + LEASE_S * 0.9

    # -- comparing ------------------------------------------------------------------------

    def _compare(self) -> None:
        lines = {line.name: line for line in self._engine.schedules.audit()}
        assert lines.keys() == self.entries.keys(), self._told()
        for name, entry in self.entries.items():
            line = lines[name]
            found = (line.spec, line.next_boundary_at, line.n_expected, line.n_fired)
            expected = (entry.spec, entry.next_at, entry.boundaries, entry.fired)
            assert (*found, line.n_skipped) == (*expected, entry.skipped), self._told()
            assert line.adds_up, self._told()

    def _compare_jobs(self) -> None:
        rows = live_rows(self.alias)
        found = Counter((row["queue"], int(bytes(row["payload"])), row["run_at"]) for row in rows)
        assert found == self.jobs, self._told()
        for name, entry in self.entries.items():
            row = schedule_row(self.alias, name)
            assert row is not None
            assert int(bytes(row["payload"])) == entry.payload, self._told()

    def _told(self) -> str:
        return f"{self.alias}, seed {self.seed}: " + " > ".join(self.trail)


def empty(alias: str) -> None:
    """Delete what an earlier walk has left."""
    tables = TABLES[connections[alias].vendor]
    with connections[alias].cursor() as cursor:
        for name in ("job", "schedule", "lease"):
            cursor.execute(f"DELETE FROM {tables[name]}")
