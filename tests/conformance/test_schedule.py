"""Registering: 4.1 to 4.3, 4.6, FR-055, FR-112, FR-114, FR-120, FR-122."""

import datetime as dt
import itertools

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import transaction
from django.test import override_settings

from alkstore_django import (
    BYTES,
    InvalidName,
    InvalidOptions,
    InvalidPayload,
    InvalidSpec,
    Queue,
    Store,
    StoreClosed,
    declare_schedule,
    schedule,
    unschedule,
)
from alkstore_django.engines.registry import engine_for
from alkstore_django.models import Schedule
from alkstore_django.scheduling import declarations
from alkstore_django.testing import run_due_schedules
from tests.conftest import FROZEN_AT
from tests.core.hostile import BAD_LENGTHS, BAD_MAX_ATTEMPTS, BAD_NAMES, BAD_PRIORITIES, cases
from tests.support.rows import live_rows, schedule_row
from tests.support.statements import no_sql


@pytest.fixture
def no_declarations():
    """Declarations of the test's own, forgotten after it."""
    before = dict(declarations._declared)
    declarations._declared.clear()
    yield
    declarations._declared.clear()
    declarations._declared.update(before)


def register(alias, name="s", spec="@every 1m", queue="q", payload=None, **options):
    schedule(name, spec, queue, payload, using=alias, **options)
    return schedule_row(alias, name)


def grid(row):
    return row["first_boundary_at"], row["next_boundary_at"], row["interval_s"]


# -- what is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", cases(BAD_NAMES))
def test_names(alias, name):
    """1.3 4.1 The schedule's name and the queue's obey the rule for names, before any SQL."""
    with no_sql(alias):
        with pytest.raises(InvalidName) as caught:
            register(alias, name=name)
        assert caught.value.kind == "schedule"
        with pytest.raises(InvalidName):
            unschedule(name, using=alias)
        with pytest.raises(InvalidName) as caught:
            register(alias, queue=name)
        assert caught.value.kind == "queue"


def test_options(alias):
    """2.3 4.1 Options are refused as an enqueue refuses them, before any SQL."""
    with no_sql(alias):
        for field, values in (
            ("priority", {**BAD_PRIORITIES}),
            ("max_attempts", {**BAD_MAX_ATTEMPTS}),
            ("expires", {**BAD_LENGTHS, "zero": 0}),
        ):
            for value in values.values():
                with pytest.raises(InvalidOptions) as mine:
                    register(alias, **{field: value})
                with pytest.raises(InvalidOptions) as theirs:
                    Queue("q", using=alias).enqueue(None, **{field: value})
                assert str(mine.value) == str(theirs.value)


def test_spec_payload_and_alias(alias):
    """2.4 4.2 A spec, a payload or an alias that cannot be is refused before any SQL."""
    with no_sql(alias):
        with pytest.raises(InvalidSpec):
            register(alias, spec="*/5 * * * *")
        with pytest.raises(InvalidPayload):
            register(alias, payload={1: 2})
        with pytest.raises(InvalidOptions):
            schedule("s", "@every 1m", "q", None, using="nowhere")
        with pytest.raises(InvalidOptions):
            schedule("s", "@every 1m", Queue("q", using=alias), None, using="default")
        with pytest.raises(InvalidOptions):
            Store("default").schedule("s", "@every 1m", Queue("q", using=alias), None)


def test_a_payload_that_is_too_large(alias, no_declarations):
    """2.4 The limit of the store counts, also for what was declared without knowing it."""
    declare_schedule("big", "@every 1m", "q", "x" * 100, using=alias)
    with override_settings(ALKSTORE={alias: {"MAX_PAYLOAD_BYTES": 50}}):
        with pytest.raises(InvalidPayload):
            register(alias, payload="x" * 100)
        with pytest.raises(InvalidPayload):
            declarations.register_declared(engine_for(alias))
    assert schedule_row(alias, "big") is None


def test_a_closed_store(alias):
    """1.2 After close() every operation raises and touches nothing."""
    store = Store(alias)
    queue = store.queue("q")
    store.close()
    with no_sql(alias):
        with pytest.raises(StoreClosed):
            store.schedule("s", "@every 1m", "q", None)
        with pytest.raises(StoreClosed):
            store.unschedule("s")
        with pytest.raises(StoreClosed):
            store.run_schedules(None)
        with pytest.raises(StoreClosed):
            schedule("s", "@every 1m", queue, None)
        with pytest.raises(StoreClosed):
            Store(alias).schedule("s", "@every 1m", queue, None)


# -- upsert ------------------------------------------------------------------------------------


def test_a_new_schedule(alias, clock):
    """4.3 The first boundary is now plus the interval; nothing was expected before."""
    clock.advance(0.25)
    row = register(alias, spec="@every 90s", payload={"a": 1})
    assert grid(row) == (FROZEN_AT + 91, FROZEN_AT + 91, 90)  # a promise rounds up
    assert (row["registered_at"], row["changed_at"]) == (FROZEN_AT, FROZEN_AT)
    assert (row["revision"], row["n_fired"], row["n_skipped"], row["n_before"]) == (1, 0, 0, 0)
    assert bytes(row["payload"]) == b'{"a":1}'


def test_the_same_interval_keeps_the_next_boundary(alias, clock):
    """4.3 FR-112 A deploy takes the new queue, payload and options, and postpones nothing."""
    before = register(alias, payload=1)
    clock.advance(30)
    after = register(
        alias, spec="@every 60s", queue="r", payload=2, priority=7, max_attempts=9, expires=10
    )
    assert grid(after) == grid(before)
    assert (after["queue"], bytes(after["payload"]), after["priority"]) == ("r", b"2", 7)
    assert (after["max_attempts"], after["expires_us"]) == (9, 10_000_000)
    assert (after["spec"], after["revision"]) == ("@every 60s", 2)
    assert (after["registered_at"], after["changed_at"]) == (FROZEN_AT, FROZEN_AT + 30)


def test_another_interval_starts_anew(alias, clock):
    """4.3 FR-112 '@every 1h' due in 30 min to '@every 2s': fires at +2 s, not at once."""
    register(alias, spec="@every 1h")
    clock.advance(1800)
    row = register(alias, spec="@every 2s")
    assert grid(row) == (FROZEN_AT + 1802, FROZEN_AT + 1802, 2)
    assert run_due_schedules(alias) == 0
    clock.advance(2)
    assert run_due_schedules(alias) == 1


def test_another_interval_catches_nothing_up(alias, clock):
    """4.3 FR-112 '@every 2s' with 50 missed to '@every 1h': none fires now, the ledger has all 50."""
    register(alias, spec="@every 2s")
    clock.advance(4)
    assert run_due_schedules(alias) == 2
    clock.advance(100)
    register(alias, spec="@every 1h")
    assert run_due_schedules(alias) == 0
    (line,) = engine_for(alias).schedules.audit()
    assert (line.n_expected, line.n_fired, line.n_skipped, line.adds_up) == (52, 2, 50, True)
    clock.advance(3600)
    assert run_due_schedules(alias) == 1
    (line,) = engine_for(alias).schedules.audit()
    assert (line.n_expected, line.n_fired, line.n_skipped, line.adds_up) == (53, 3, 50, True)


def test_registering_all_the_time_postpones_nothing(alias, clock):
    """FR-112 The same spec every half second for 10 s on '@every 3s': 3 fires, not 0."""
    fired = 0
    for _ in range(20):
        register(alias, spec="@every 3s")
        clock.advance(0.5)
        fired += run_due_schedules(alias)
    assert fired == 3


def test_what_is_there_already_is_not_written(alias, clock, sql_log):
    """FR-114 Registering what is stored just so writes and locks nothing: one read."""
    queue = Queue("q", using=alias, max_attempts=7)
    schedule("s", "@every 1m", queue, [1], expires=5, priority=2)
    sql_log.clear()
    clock.advance(5)
    schedule("s", "@every 1m", queue, [1], expires=5, priority=2)
    assert len(sql_log) == 1
    assert sql_log[0].startswith("/* alkstore:is_registered */")
    assert schedule_row(alias, "s")["revision"] == 1


@pytest.mark.parametrize(
    "change",
    [
        {"queue": "other"},
        {"payload": 2},
        {"priority": 1},
        {"max_attempts": 4},
        {"expires": 60},
        {"spec": "@every 60s"},
        {"spec": "@every 2m"},
        {"queue": Queue("q", using="sqlite", visibility_timeout_s=9)},
        {"queue": Queue("q", using="sqlite", backoff_base_s=9)},
        {"queue": Queue("q", using="sqlite", codec=BYTES), "payload": b"1"},
    ],
    ids=str,
)
def test_every_change_is_taken(alias, clock, change):
    """4.3 Whatever differs is taken, and counted as a revision; back again as well."""
    if isinstance(change.get("queue"), Queue):
        queue = change["queue"]
        options = {"backoff_base_s": queue.options.backoff_base_s, "codec": queue.codec}
        options["visibility_timeout_s"] = queue.options.visibility_timeout_s
        change = {**change, "queue": Queue("q", using=alias, **options)}
    first = register(alias, payload=1)
    changed = register(alias, **{"payload": 1, **change})
    assert changed["revision"] == 2
    assert {name for name in first if first[name] != changed[name]} > {"revision"}
    again = register(alias, payload=1)
    assert again["revision"] == 3
    assert {name for name in first if first[name] != again[name]} <= {
        "revision", "changed_at", "first_boundary_at", "next_boundary_at",
    }  # fmt: skip


def test_identity_is_the_name(alias, clock):
    """FR-122 The same content under two names is two schedules: 10 and 5 jobs in 10 s."""
    register(alias, name="a", spec="@every 1s", payload="p")
    register(alias, name="b", spec="@every 2s", payload="p")
    fired = 0
    for _ in range(10):
        clock.advance(1)
        fired += run_due_schedules(alias)
    assert fired == 15
    assert set(Schedule.objects.using(alias).values_list("name", flat=True)) == {"a", "b"}


def test_names_of_every_kind(alias, clock):
    """1.3 Names are kept apart to the letter, and quotes, percent signs and emoji are names."""
    names = [
        "a",
        "A",
        "a ",
        'q"u',
        "o'k",
        "100%",
        "%(name)s",
        "😀" * 200,
        "ß",
        "$job",
        "é",
        "e\u0301",
    ]
    for name in names:
        register(alias, name=name, queue=name, payload=name)
    clock.advance(60)
    assert run_due_schedules(alias) == len(names)
    assert {row["queue"] for row in live_rows(alias)} == set(names)
    assert all(unschedule(name, using=alias) for name in names)


def test_unschedule(alias, clock):
    """4.1 FR-114 True if there was one, then False; its due boundaries fire no more."""
    register(alias)
    clock.advance(60)
    assert unschedule("s", using=alias) is True
    assert unschedule("s", using=alias) is False
    assert run_due_schedules(alias) == 0


def test_after_unschedule_it_is_a_new_one(alias, clock):
    """4.3 Registered again after unschedule, it starts with an empty ledger."""
    register(alias)
    clock.advance(60)
    run_due_schedules(alias)
    unschedule("s", using=alias)
    row = register(alias)
    assert grid(row) == (FROZEN_AT + 120, FROZEN_AT + 120, 60)
    assert (row["revision"], row["n_fired"]) == (1, 0)


# -- transactions and wakes ----------------------------------------------------------------------


class Undo(Exception):
    pass


def test_rolled_back_with_the_caller(alias, clock):
    """4.1 FR-120 schedule and unschedule join the open transaction, savepoints included."""
    with pytest.raises(Undo), transaction.atomic(using=alias):
        register(alias)
        raise Undo
    assert schedule_row(alias, "s") is None
    before = register(alias)
    with pytest.raises(Undo), transaction.atomic(using=alias):
        assert unschedule("s", using=alias)
        raise Undo
    with transaction.atomic(using=alias), pytest.raises(Undo), transaction.atomic(using=alias):
        register(alias, spec="@every 2m")
        raise Undo
    assert schedule_row(alias, "s") == before


def test_the_runner_is_woken_after_the_commit(alias, monkeypatch):
    """3.1 6.2 One wake per transaction follows the commit; none for a rollback or for no change."""
    woken = []
    monkeypatch.setattr(engine_for(alias), "wake", woken.append)
    with transaction.atomic(using=alias):
        register(alias, name="a")
        register(alias, name="b")
        assert woken == []
    assert woken == ["__alkstore_scheduler"]
    register(alias, name="a")
    with pytest.raises(Undo), transaction.atomic(using=alias):
        register(alias, name="c")
        raise Undo
    assert len(woken) == 1
    unschedule("a", using=alias)
    unschedule("a", using=alias)
    assert len(woken) == 2


# -- stamps and time -------------------------------------------------------------------------------


def test_stamps_of_a_bare_name(alias, clock):
    """4.6 A bare name gives the engine's defaults: 300 s, 3, 5 s, JSON."""
    register(alias, payload={"n": 1})
    clock.advance(61)
    run_due_schedules(alias)
    (job,) = live_rows(alias)
    stamps = {name: job[name] for name in ("max_attempts", "visibility_timeout_s", "codec")}
    assert stamps == {"max_attempts": 3, "visibility_timeout_s": 300, "codec": "json"}
    assert (job["backoff_base_s"], job["priority"], job["expires_at"]) == (5, 0, None)
    assert (job["run_at"], job["enqueued_at"]) == (FROZEN_AT + 60, FROZEN_AT + 61)
    assert bytes(job["payload"]) == b'{"n":1}'


def test_stamps_of_a_queue(alias, clock):
    """4.6 A Queue gives its options and codec; the schedule's own go before them. Expiry counts
    from the fire."""
    queue = Queue(
        "q", using=alias, visibility_timeout_s=7, max_attempts=8, backoff_base_s=9, codec=BYTES
    )
    schedule("s", "@every 1m", queue, b"\x00\xff")
    schedule("t", "@every 1m", queue, b"t", max_attempts=2, priority=-3, expires=1.5)
    clock.advance(100.25)
    run_due_schedules(alias)
    s, t = live_rows(alias)
    assert (s["visibility_timeout_s"], s["max_attempts"], s["backoff_base_s"]) == (7, 8, 9)
    assert (bytes(s["payload"]), s["codec"], s["expires_at"]) == (b"\x00\xff", "bytes", None)
    assert (t["max_attempts"], t["priority"], t["expires_at"]) == (2, -3, FROZEN_AT + 102)
    handle = queue.claim_one("w")
    assert handle.job.payload == b"\x00\xff"


def test_summer_time_is_nothing_to_us(alias, clock):
    """FR-055 '@every 1d' across the end of summer time in Berlin: gaps of exactly 86,400 s."""
    with override_settings(TIME_ZONE="Europe/Berlin"):
        clock.move_to(dt.datetime(2026, 10, 24, 1, 30, tzinfo=dt.UTC).timestamp())  # 3:30 there
        register(alias, name="d", spec="@every 1d")
        boundaries = []
        for _ in range(4):
            boundaries.append(Schedule.objects.using(alias).get(name="d").next_boundary_at)
            clock.advance(86_400)
            assert run_due_schedules(alias) == 1
    gaps = {later - sooner for sooner, later in itertools.pairwise(boundaries)}
    assert gaps == {dt.timedelta(seconds=86_400)}


# -- declarations ----------------------------------------------------------------------------------


def test_declaring_runs_no_sql(alias, no_declarations):
    """4.1 A declaration is checked at once, and touches no database; the same one may be repeated."""
    with no_sql(alias):
        for _ in range(2):
            declare_schedule("s", "@every 1m", Queue("q", using=alias), {"a": 1}, expires=5)
        with pytest.raises(ImproperlyConfigured, match="'s' is declared twice"):
            declare_schedule("s", "@every 2m", "q", {"a": 1}, using=alias)
        with pytest.raises(InvalidSpec):
            declare_schedule("t", "@hourly", "q", None, using=alias)
        with pytest.raises(InvalidOptions):
            declare_schedule("t", "@every 1m", "q", None, using=alias, priority="high")
        declare_schedule("s", "@every 2m", "q", None, using="default")  # another alias
    assert [found.name for found in declarations.declared_on(alias)] == ["s"]


def test_bringing_declarations_in(alias, no_declarations, clock):
    """4.1 Declared ones are added, changed or left in one transaction; pruning spares schedule()."""
    register(alias, name="by hand")
    engine = engine_for(alias)
    declare_schedule("b", "@every 1m", "q", 1, using=alias)
    declare_schedule("a", "@every 1m", "q", 1, using=alias)
    assert declarations.register_declared(engine) == ([("a", "added"), ("b", "added")], [])
    assert declarations.register_declared(engine) == ([("a", "left"), ("b", "left")], [])
    declarations._declared.clear()
    declare_schedule("b", "@every 1m", "q", 2, using=alias)
    assert declarations.register_declared(engine) == ([("b", "changed")], [])
    assert declarations.register_declared(engine, pruning=True) == ([("b", "left")], ["a"])
    assert schedule_row(alias, "by hand")["declared"] in (False, 0)
    assert not engine.schedules.unregister("by hand", only_declared=True)
    assert engine.schedules.unregister("b", only_declared=True)
    assert schedule_row(alias, "a") is None


def test_a_start_that_changes_nothing_writes_nothing(alias, no_declarations, sql_log):
    """FR-114 Twenty processes that register what is there already do not meet at the write lock."""
    declare_schedule("a", "@every 1m", "q", 1, using=alias)
    declarations.register_declared(engine_for(alias))
    sql_log.clear()
    declarations.register_declared(engine_for(alias), pruning=True)
    assert [text.split()[1] for text in sql_log] == [
        "alkstore:is_registered",
        "alkstore:declared_names",
    ]
