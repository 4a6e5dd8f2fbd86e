"""Ticks: 4.5 to 4.7, FR-116, FR-118."""

import logging
import threading

import pytest
from django.db import OperationalError, connections, transaction

from alkstore_django import Queue, schedule, signals, unschedule
from alkstore_django.core.instants import MICROSECONDS
from alkstore_django.core.schedules import BEFORE_ALL, Advance
from alkstore_django.engines.registry import engine_for
from alkstore_django.scheduling import ticking
from alkstore_django.scheduling.ticking import Ticker
from alkstore_django.testing import run_due_schedules
from tests.conftest import FROZEN_AT
from tests.support.rows import live_rows, schedule_row
from tests.support.tampering import change_schedule, queue_refuses_jobs


def add(alias, name, spec="@every 1m", queue="q", **options):
    schedule(name, spec, queue, name, using=alias, **options)


def tick(alias, **options):
    engine = engine_for(alias)
    return Ticker(engine, **options).tick(engine.clock_us() // MICROSECONDS)


def audited(alias):
    """The ledgers by name, which must add up."""
    lines = {line.name: line for line in engine_for(alias).schedules.audit()}
    assert all(line.adds_up for line in lines.values())
    return lines


class Crash(Exception):
    """A process that dies."""


class CrashingTicker(Ticker):
    """Dies after its jobs are written, before they are committed."""

    def _visit(self, *args, **kwargs):
        super()._visit(*args, **kwargs)
        raise Crash


# -- boundaries ------------------------------------------------------------------------------------


def test_a_boundary_fires_when_it_is_reached(alias, clock):
    """4.5 Not a microsecond before, and then once."""
    add(alias, "s")
    clock.advance(59.999999)
    assert tick(alias) == (0, 0)
    clock.advance(0.000001)
    assert tick(alias) == (1, 1)
    assert tick(alias) == (0, 0)
    (job,) = live_rows(alias)
    assert (job["run_at"], job["state"], job["attempts"]) == (FROZEN_AT + 60, "pending", 0)
    row = schedule_row(alias, "s")
    assert row["last_boundary_at"] == row["last_fired_at"] == FROZEN_AT + 60
    assert row["next_boundary_at"] == FROZEN_AT + 120


def test_missed_boundaries_are_replayed_one_by_one(alias, clock):
    """4.5 Each with a job of its own, run_at its boundary, ids in the order of boundaries."""
    add(alias, "a", "@every 10s")
    add(alias, "b", "@every 15s")
    clock.advance(60)
    assert tick(alias) == (2, 10)
    jobs = [(row["run_at"] - FROZEN_AT, bytes(row["payload"])) for row in live_rows(alias)]
    expected = [(at, b'"a"') for at in range(10, 61, 10)] + [
        (at, b'"b"') for at in range(15, 61, 15)
    ]
    assert jobs == sorted(expected)


def test_the_oldest_64_are_replayed_the_rest_is_skipped(alias, clock, caplog):
    """4.5 64 per schedule and tick; beyond, forward to the next boundary on the old grid, with a
    line that counts."""
    add(alias, "s", "@every 3s")
    clock.advance(3 * 100 + 1.5)
    with caplog.at_level(logging.WARNING, "alkstore_django.scheduler"):
        assert tick(alias) == (1, 64)
    (line,) = [record.getMessage() for record in caplog.records]
    assert line == "Schedule skipped boundaries name=s queue=q n=36"
    assert [row["run_at"] for row in live_rows(alias)] == [
        FROZEN_AT + 3 * place for place in range(1, 65)
    ]
    ledger = audited(alias)["s"]
    assert (ledger.n_expected, ledger.n_fired, ledger.n_skipped, ledger.n_due) == (100, 64, 36, 0)
    assert ledger.next_boundary_at == FROZEN_AT + 303
    assert ledger.last_boundary_at == FROZEN_AT + 192


def test_exactly_64_skip_nothing(alias, clock):
    """4.5 The bound itself is still replayed whole."""
    add(alias, "s", "@every 3s")
    clock.advance(3 * 64)
    assert tick(alias) == (1, 64)
    assert audited(alias)["s"].n_skipped == 0


def test_no_drift(alias, clock):
    """FR-116 Late ticks leave no trace in the boundaries: 120 distinct ones on one grid."""
    add(alias, "s", "@every 1s")
    for late in range(400):
        clock.advance(0.1 + (late * 7 % 5) / 10)
        tick(alias)
    boundaries = [row["run_at"] for row in live_rows(alias)]
    assert boundaries == list(range(FROZEN_AT + 1, FROZEN_AT + 1 + len(boundaries)))
    assert len(boundaries) == int(clock.now) - FROZEN_AT


def test_a_clock_set_back_fires_nothing_twice(alias, clock):
    """FR-051 4.5 An hour back: nothing until the clock is there again; an hour ahead: caught up."""
    add(alias, "s", "@every 10m")
    clock.advance(1200)
    assert tick(alias) == (1, 2)
    clock.advance(-3600)
    assert tick(alias) == (0, 0)
    clock.advance(3600)
    assert tick(alias) == (0, 0)
    clock.advance(3600)
    assert tick(alias) == (1, 6)
    assert len({row["run_at"] for row in live_rows(alias)}) == 8
    audited(alias)


def test_many_schedules_in_batches(alias, clock, monkeypatch, sql_log):
    """4.5 Each due one is visited once, in batches; several with one boundary included."""
    monkeypatch.setattr(ticking, "BATCH", 7)
    for place in range(40):
        add(alias, f"s{place:02}", f"@every {place % 3 + 1}m")
    clock.advance(180)
    sql_log.clear()
    assert tick(alias) == (40, 14 * 3 + 13 * 1 + 13 * 1)
    assert sum("alkstore:due" in text for text in sql_log) == 7
    assert sum("alkstore:fire" in text for text in sql_log) == 6
    assert all("payload" not in text for text in sql_log if "alkstore:due" in text)
    audited(alias)


def test_a_transaction_has_a_bounded_number_of_jobs(alias, clock, monkeypatch, sql_log):
    """4.5 Schedules with much to catch up share no transaction with many others."""
    monkeypatch.setattr(ticking, "MANY_JOBS", 100)
    for place in range(7):
        add(alias, f"s{place}", "@every 1s")
    clock.advance(500)
    sql_log.clear()
    assert tick(alias) == (7, 7 * 64)
    assert sum("alkstore:fire" in text for text in sql_log) == 4
    audited(alias)


def test_an_idle_tick_reads_only(alias, clock, sql_log):
    """4.5 Nothing due costs one statement outside any transaction: no write lock on SQLite."""
    add(alias, "s")
    sql_log.clear()
    outlook = engine_for(alias).schedules.outlook()
    assert len(sql_log) == 1
    assert outlook == (False, FROZEN_AT + 60, FROZEN_AT * MICROSECONDS)
    clock.advance(61)
    assert engine_for(alias).schedules.outlook()[:2] == (True, None)


# -- crashes and rivals ----------------------------------------------------------------------------


def test_a_crash_before_the_commit_refires(alias, clock):
    """4.5 The jobs and the advance vanish together; the next tick fires the same boundaries."""
    add(alias, "s", "@every 20s")
    clock.advance(60)
    before = schedule_row(alias, "s")
    engine = engine_for(alias)
    with pytest.raises(Crash):
        CrashingTicker(engine).tick(FROZEN_AT + 60)
    assert (schedule_row(alias, "s"), live_rows(alias)) == (before, [])
    assert tick(alias) == (1, 3)
    audited(alias)


def test_two_tickers_at_once(alias, clock):
    """4.5 A second ticker that comes while the first one's transaction is open doubles nothing."""
    for name in "abc":
        add(alias, name)
    clock.advance(60)
    engine = engine_for(alias)
    results = []

    def rival():
        results.append(Ticker(engine).tick(FROZEN_AT + 60))
        connections[alias].close()

    with transaction.atomic(using=alias):
        first = Ticker(engine).tick(FROZEN_AT + 60)
        thread = threading.Thread(target=rival)
        thread.start()
        # Where rows can be locked it passes over ours, else it waits for the file.
        thread.join(20 if engine.supports_parallel_writers else 0.1)
        assert thread.is_alive() is not engine.supports_parallel_writers
    thread.join(20)
    assert (first, results) == ((3, 3), [(0, 0)])
    assert len(live_rows(alias)) == 3
    audited(alias)


def test_an_advance_from_elsewhere_is_refused(alias, clock):
    """4.5 Even without the lock on the row: who comes second moves and fires nothing."""
    add(alias, "s")
    clock.advance(60)
    schedules = engine_for(alias).schedules
    step = Advance("s", FROZEN_AT + 60, FROZEN_AT + 120, 1, 0, FROZEN_AT + 60)
    assert schedules.advance([step]) == {"s"}
    assert schedules.advance([step]) == set()
    assert schedule_row(alias, "s")["n_fired"] == 1


def test_a_schedule_that_is_held_is_passed_over(alias, clock):
    """4.5 Due rows are locked by who reads them, and what another holds is left for later."""
    add(alias, "s")
    clock.advance(60)
    schedules = engine_for(alias).schedules
    with transaction.atomic(using=alias):
        assert [due.name for due in schedules.due(FROZEN_AT + 60, after=BEFORE_ALL, n=9)] == ["s"]
    assert tick(alias) == (1, 1)


def test_an_edit_while_due(alias, clock):
    """4.3 4.5 Same interval: what is due fires with the new queue and payload."""
    add(alias, "s")
    clock.advance(60)
    schedule("s", "@every 1m", "other", "new", using=alias)
    assert tick(alias) == (1, 1)
    (job,) = live_rows(alias)
    assert (job["queue"], bytes(job["payload"])) == ("other", b'"new"')


# -- bad ones --------------------------------------------------------------------------------------


BAD = {
    "no spec": {"spec": "x"},
    "another interval": {"interval_s": 7},
    "a spec of another interval": {"spec": "@every 7s"},
    "a queue that may not be": {"queue": "__alkstore_outbox_x"},
}


@pytest.mark.parametrize("damage", BAD.values(), ids=BAD)
def test_a_bad_row_hinders_no_other(alias, clock, caplog, damage):
    """4.7 FR-118 Left where it is and told of, with a traceback; the others fire."""
    for name in ("a", "bad", "c"):
        add(alias, name)
    change_schedule(alias, "bad", **damage)
    clock.advance(60)
    with caplog.at_level(logging.ERROR, "alkstore_django.scheduler"):
        assert tick(alias) == (2, 2)
    (record,) = caplog.records
    assert "name=bad" in record.getMessage()
    assert record.exc_info is not None
    assert schedule_row(alias, "bad")["next_boundary_at"] == FROZEN_AT + 60


def test_a_database_error_of_one_hinders_no_other(alias, clock, caplog):
    """4.7 FR-118 The batch is done again one by one; the bad one is told of, never its payload."""
    for name in ("a", "bad", "c", "d"):
        add(alias, name, queue="refusing" if name == "bad" else "q")
    clock.advance(60)
    with (
        caplog.at_level(logging.ERROR, "alkstore_django.scheduler"),
        queue_refuses_jobs(alias, "refusing"),
    ):
        assert tick(alias) == (3, 3)
    (record,) = caplog.records
    assert (record.schedule, record.queue, record.using) == ("bad", "refusing", alias)
    assert tick(alias) == (1, 1)  # what refused it has gone
    audited(alias)


def test_a_bad_one_in_every_batch(alias, clock, monkeypatch):
    """4.7 Batches with and without bad ones: each good one fires once."""
    monkeypatch.setattr(ticking, "BATCH", 4)
    for place in range(30):
        add(alias, f"s{place:02}", queue="refusing" if place % 5 == 0 else "q")
    clock.advance(60)
    with queue_refuses_jobs(alias, "refusing"):
        assert tick(alias) == (24, 24)
    audited(alias)


def test_a_bad_one_is_told_of_once_a_minute(alias, clock, caplog):
    """FR-118 One ERROR per schedule and minute at most."""
    add(alias, "bad", "@every 1s")
    add(alias, "worse", "@every 1s")
    for name in ("bad", "worse"):
        change_schedule(alias, name, spec="x")
    ticker = Ticker(engine_for(alias), clock=lambda: clock.now)
    with caplog.at_level(logging.ERROR, "alkstore_django.scheduler"):
        for _ in range(130):
            clock.advance(1)
            ticker.tick(int(clock.now))
    names = [record.schedule for record in caplog.records]
    assert (names.count("bad"), names.count("worse")) == (3, 3)


def test_registering_again_mends_a_bad_row(alias, clock):
    """FR-118 A declared schedule that somebody has damaged is whole again after a start."""
    add(alias, "s")
    change_schedule(alias, "s", spec="x")
    add(alias, "s")
    clock.advance(60)
    assert tick(alias) == (1, 1)


def test_an_outage_ends_the_tick(alias, clock, monkeypatch):
    """4.7 A database that is away is no fault of a schedule: the error goes on to the runner."""
    add(alias, "s")
    clock.advance(60)
    engine = engine_for(alias)
    monkeypatch.setattr(engine, "is_outage", lambda error: True)
    monkeypatch.setattr(
        engine.schedules, "fire", lambda fires: (_ for _ in ()).throw(OperationalError("gone"))
    )
    with pytest.raises(OperationalError):
        Ticker(engine).tick(FROZEN_AT + 60)
    assert live_rows(alias) == []


# -- what is told, and the helper --------------------------------------------------------------------


def test_signals(alias, clock):
    """7.7 What was fired, skipped and failed is told by signals, without payloads."""
    heard = []

    def hear(signal, sender, **event):
        heard.append(event)

    kinds = (signals.schedule_fired, signals.boundaries_skipped, signals.schedule_failed)
    for kind in kinds:
        kind.connect(hear)
    try:
        add(alias, "bad")
        add(alias, "s", "@every 1s")
        change_schedule(alias, "bad", spec="x")
        clock.advance(100)
        tick(alias)
    finally:
        for kind in kinds:
            kind.disconnect(hear)
    exception = heard[2].pop("exception")
    assert type(exception).__name__ == "InvalidSpec"
    who = {"using": alias, "queue": "q"}
    assert heard == [
        {**who, "schedule": "s", "n_fired": 64},
        {**who, "schedule": "s", "n_skipped": 36},
        {**who, "schedule": "bad"},
    ]


def test_a_wake_follows_the_commit(alias, clock, monkeypatch):
    """3.1 6.2 One wake per target queue and transaction."""
    woken = []
    for place in range(6):
        add(alias, f"s{place}", queue=f"q{place % 2}")
    clock.advance(60)
    monkeypatch.setattr(engine_for(alias), "wake", woken.append)
    with transaction.atomic(using=alias):
        run_due_schedules(alias)
        assert woken == []
    assert sorted(woken) == ["q0", "q1"]


def test_the_helper_inside_a_transaction(alias, clock):
    """FR-120 run_due_schedules works in a TestCase: in its transaction, and undone with it."""
    connection = connections[alias]
    with transaction.atomic(using=alias):
        add(alias, "bad", queue="refusing")
        add(alias, "s")
        clock.advance(60)
        with queue_refuses_jobs(alias, "refusing"):
            assert run_due_schedules(alias) == 1
        assert Queue("q", using=alias).claim_one("w").job.payload == "s"
        connection.set_rollback(True)
    assert live_rows(alias) == []


def test_an_unscheduled_one_in_the_middle(alias, clock):
    """4.1 Unscheduled between two ticks: what it has fired stays, nothing more comes."""
    add(alias, "s")
    clock.advance(60)
    tick(alias)
    unschedule("s", using=alias)
    clock.advance(600)
    assert tick(alias) == (0, 0)
    assert len(live_rows(alias)) == 1
