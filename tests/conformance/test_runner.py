"""The runner: 4.4, FR-116, FR-118, FR-120."""

import logging
import threading
import time
from contextlib import contextmanager

import pytest
from django.db import OperationalError, connections, transaction
from django.db.transaction import TransactionManagementError
from django.test import override_settings

from alkstore_django import (
    InvalidOptions,
    LeadershipLost,
    StopToken,
    Store,
    run_schedules,
    schedule,
    signals,
)
from alkstore_django.engines.registry import engine_for
from alkstore_django.scheduling.leadership import LEASE_NAME
from alkstore_django.scheduling.runner import Runner
from alkstore_django.testing import frozen_time
from tests.conftest import ENGINES, FROZEN_AT
from tests.support.rows import count_live, live_rows, schedule_row
from tests.support.statements import no_sql
from tests.support.tampering import change_schedule

PATIENCE_S = 20
SLOW_POLL = {alias: {"POLL_INTERVAL_S": 30, "LEASE_S": 60} for alias in ("default", *ENGINES)}


class Events:
    """What was told by signals, to be waited for."""

    def __init__(self):
        self._kinds = (
            signals.leadership_gained,
            signals.leadership_lost,
            signals.schedule_fired,
            signals.store_lost,
            signals.store_restored,
        )
        self._told = threading.Condition()
        self.heard = []

    def __enter__(self):
        for kind in self._kinds:
            kind.connect(self._hear)
        return self

    def __exit__(self, *_):
        for kind in self._kinds:
            kind.disconnect(self._hear)

    def _hear(self, signal, sender, **event):
        with self._told:
            self.heard.append(signal)
            self._told.notify_all()

    def wait(self, signal, n=1):
        with self._told:
            assert self._told.wait_for(lambda: self.heard.count(signal) >= n, PATIENCE_S), signal


@pytest.fixture(autouse=True)
def slow_poll(settings):
    """What a runner does at once it does because it was woken, not because time went by."""
    settings.ALKSTORE = SLOW_POLL


@pytest.fixture
def clock(alias, slow_poll):
    """The alias's clock, which stands still until the test moves it."""
    with frozen_time(alias, FROZEN_AT) as frozen:
        yield frozen


@pytest.fixture
def go_on(alias, clock):
    """Move the clock on, and have runners look at it."""

    def move(seconds):
        clock.advance(seconds)
        engine_for(alias).wake(LEASE_NAME)

    return move


@pytest.fixture
def events():
    with Events() as heard:
        yield heard


@pytest.fixture
def start(alias):
    """Start runners in threads; each has ``stop``, and ``error`` once it has ended."""
    started = []

    class Running:
        def __init__(self, make=None):
            self.stop = StopToken()
            self.error = None
            self._make = make
            self._thread = threading.Thread(target=self._run)
            self._thread.start()
            started.append(self)

        def _run(self):
            try:
                if self._make is None:
                    run_schedules(self.stop, alias)
                else:
                    self._make(self.stop).run()
            except BaseException as error:
                self.error = error
            finally:
                connections[alias].close()

        def end(self):
            self.stop.stop()
            self.join()

        def join(self):
            self._thread.join(PATIENCE_S)
            assert not self._thread.is_alive()

    yield Running
    for runner in started:
        runner.end()


def lease(alias):
    return not engine_for(alias).schedules.is_lease_free(LEASE_NAME)


# -- refusals --------------------------------------------------------------------------------------


def test_not_inside_a_transaction(alias):
    """FR-120 4.4 Refused at once, nothing is sent."""
    with transaction.atomic(using=alias):
        with no_sql(alias), pytest.raises(TransactionManagementError):
            run_schedules(StopToken(), alias)
        with pytest.raises(TransactionManagementError):
            Store(alias).run_schedules(StopToken())
    connections[alias].set_autocommit(False)
    try:
        with pytest.raises(TransactionManagementError):
            run_schedules(StopToken(), alias)
    finally:
        connections[alias].set_autocommit(True)


def test_the_stop_is_a_token(alias):
    """2.3 Anything else is InvalidOptions, before any SQL."""
    with no_sql(alias):
        for stop in (None, threading.Event(), True):
            with pytest.raises(InvalidOptions):
                run_schedules(stop, alias)


def test_stopped_before_it_began(alias):
    """4.4 A stop that was asked for already returns at once, and takes no lease."""
    stop = StopToken()
    stop.stop()
    run_schedules(stop, alias)
    assert not lease(alias)


# -- leading ---------------------------------------------------------------------------------------


def test_it_leads_fires_and_gives_back(alias, start, events, go_on):
    """4.4 Take the lease, fire what is due, and on a stop give the lease back."""
    schedule("s", "@every 1s", "q", None, using=alias)
    runner = start()
    events.wait(signals.leadership_gained)
    go_on(1)
    events.wait(signals.schedule_fired, 1)
    go_on(1)
    events.wait(signals.schedule_fired, 2)
    assert lease(alias)
    runner.end()
    assert runner.error is None
    assert not lease(alias)
    assert count_live(alias) == schedule_row(alias, "s")["n_fired"] == 2


def test_a_stop_is_heeded_at_once(alias, start, events):
    """4.4 However long it meant to sleep; standing by as well as leading."""
    leader = start()
    events.wait(signals.leadership_gained)
    stand_by = start()
    began = time.monotonic()
    stand_by.end()
    leader.end()
    assert time.monotonic() - began < 5
    assert (leader.error, stand_by.error) == (None, None)


def test_the_next_one_leads_when_the_leader_stops(alias, start, events, go_on):
    """4.4 The lease that is given back wakes who stands by."""
    leader = start()
    events.wait(signals.leadership_gained)
    stand_by = start()
    leader.end()
    events.wait(signals.leadership_gained, 2)
    schedule("s", "@every 1s", "q", None, using=alias)
    go_on(1)
    events.wait(signals.schedule_fired)
    stand_by.end()
    assert events.heard.count(signals.leadership_gained) == 2


def test_a_lease_that_is_given_back_wakes(alias, start, events, monkeypatch):
    """4.4 6.1 The wake is sent by the release, and once."""
    woken = []
    monkeypatch.setattr(engine_for(alias), "wake", woken.append)
    leader = start()
    events.wait(signals.leadership_gained)
    leader.end()
    assert woken == [LEASE_NAME]


def test_a_new_schedule_wakes_the_leader(alias, start, events):
    """4.1 6.1 The runner sleeps until the nearest boundary, also of one that came later."""
    runner = start()
    events.wait(signals.leadership_gained)
    schedule("s", "@every 1s", "q", None, using=alias)
    events.wait(signals.schedule_fired)
    runner.end()


def test_of_two_one_leads(alias, start, events, go_on):
    """4.4 4.5 Two at once: one leads; each boundary has one job."""
    schedule("s", "@every 1s", "q", None, using=alias)
    runners = [start(), start()]
    events.wait(signals.leadership_gained)
    for place in range(3):
        go_on(1)
        events.wait(signals.schedule_fired, place + 1)
    assert events.heard.count(signals.leadership_gained) == 1
    for runner in runners:
        runner.end()
    boundaries = [row["run_at"] for row in live_rows(alias)]
    assert len(boundaries) == len(set(boundaries))


# -- losing ----------------------------------------------------------------------------------------


class Interrupted(Runner):
    """Meets something before each of its turns."""

    def __init__(self, alias, stop, before):
        super().__init__(alias, stop)
        self._before = before

    def _turn(self):
        self._before(self)
        return super()._turn()


def test_a_lost_lease_fires_nothing(alias, start, events, clock, caplog):
    """4.4 A failed renewal raises LeadershipLost before anything fires; the lease is not touched."""
    schedule("s", "@every 1s", "q", None, using=alias)
    schedules = engine_for(alias).schedules

    def overtake(runner):
        clock.advance(3600)
        assert schedules.take_lease(LEASE_NAME, owner="other", lease_us=60 * 10**6)
        runner._leadership._renew_at = 0

    with caplog.at_level(logging.WARNING, "alkstore_django.scheduler"):
        runner = start(lambda stop: Interrupted(alias, stop, overtake))
        runner.join()
    assert isinstance(runner.error, LeadershipLost)
    assert "Leadership lost" in caplog.text
    assert count_live(alias) == 0
    assert events.heard == [signals.leadership_gained, signals.leadership_lost]
    assert schedules.release_lease(LEASE_NAME, owner="other")


def test_trust_is_over_in_the_middle_of_a_tick(alias, clock, monkeypatch):
    """4.4 The lease is looked at before each batch: what comes after the loss is not fired."""
    monkeypatch.setattr("alkstore_django.scheduling.ticking.BATCH", 2)
    for name in "abcdef":
        schedule(name, "@every 1s", "q", None, using=alias)
    engine = engine_for(alias)
    runner = Runner(alias, StopToken())
    assert runner._leadership.try_to_take()
    clock.advance(2)
    calls = []

    def fire(fires, real=engine.schedules.fire):
        calls.append(len(fires))
        if len(calls) == 2:
            runner._leadership._trusted_until = 0
        return real(fires)

    monkeypatch.setattr(engine.schedules, "fire", fire)
    with pytest.raises(LeadershipLost):
        runner._turn()
    assert len(calls) == 2
    assert all(line.adds_up for line in engine.schedules.audit())


def test_a_stop_in_the_middle_of_a_tick(alias, clock, monkeypatch):
    """4.4 A stop does not wait for all batches; what is left fires later."""
    monkeypatch.setattr("alkstore_django.scheduling.ticking.BATCH", 2)
    for name in "abcdef":
        schedule(name, "@every 1h", "q", None, using=alias)
    engine = engine_for(alias)
    stop = StopToken()
    runner = Runner(alias, stop)
    runner._leadership.try_to_take()
    clock.advance(3601)

    def fire(fires, real=engine.schedules.fire):
        stop.stop()
        return real(fires)

    monkeypatch.setattr(engine.schedules, "fire", fire)
    runner._turn()
    assert count_live(alias) == 2


def test_a_bug_gives_the_lease_up(alias, start, events):
    """FR-118 An error that ends the loop is raised, and another may lead at once."""

    def fail(runner):
        raise ZeroDivisionError

    runner = start(lambda stop: Interrupted(alias, stop, fail))
    runner.join()
    assert isinstance(runner.error, ZeroDivisionError)
    assert not lease(alias)


# -- outages ---------------------------------------------------------------------------------------


@contextmanager
def outages(alias, monkeypatch, name, n):
    """The n next calls of an operation on schedules find the database away."""
    engine = engine_for(alias)
    left = [n]
    real = getattr(engine.schedules, name)

    def fail(*args, **kwargs):
        if left[0]:
            left[0] -= 1
            raise OperationalError("away")
        return real(*args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(engine.schedules, name, fail)
        patch.setattr(engine, "is_outage", lambda error: isinstance(error, OperationalError))
        yield


@pytest.mark.parametrize("name", ["is_lease_free", "take_lease", "outlook"])
def test_an_outage_is_waited_out(alias, start, events, monkeypatch, clock, name):
    """4.4 7.4 Standing by or leading, it waits, says so once, and goes on."""
    schedule("s", "@every 1s", "q", None, using=alias)
    clock.advance(1)
    with outages(alias, monkeypatch, name, 2):
        runner = start()
        events.wait(signals.schedule_fired)
        runner.end()
    assert runner.error is None
    assert events.heard.count(signals.store_lost) == 1
    assert events.heard.count(signals.store_restored) == 1


@override_settings(ALKSTORE={alias: {"LEASE_S": 1} for alias in ("default", *ENGINES)})
def test_an_outage_longer_than_the_lease(alias, start, events, monkeypatch):
    """4.4 While leading it tries for as long as the lease can be trusted, then leadership is lost."""
    with outages(alias, monkeypatch, "outlook", 10**9):
        runner = start()
        runner.join()
    assert isinstance(runner.error, LeadershipLost)
    assert events.heard.count(signals.store_lost) == 1


def test_an_outage_at_the_end(alias, start, events, monkeypatch):
    """4.4 A lease that cannot be given back expires by itself; the stop is clean."""
    with outages(alias, monkeypatch, "release_lease", 1):
        runner = start()
        events.wait(signals.leadership_gained)
        runner.end()
    assert runner.error is None


# -- sleeping --------------------------------------------------------------------------------------


@pytest.fixture
def leading(alias, clock):
    """A runner that leads, by a frozen clock, and is told when to take a turn."""
    runner = Runner(alias, StopToken())
    assert runner._leadership.try_to_take()
    return runner


def test_it_sleeps_until_the_nearest_boundary(alias, clock, leading):
    """FR-116 Or the renewal, or the poll interval, whichever comes first; after a fire not at all."""
    assert leading._turn() == pytest.approx(20, abs=0.5)  # a third of the lease
    schedule("s", "@every 7s", "q", None, using=alias)
    clock.advance(0.5)
    assert leading._turn() == pytest.approx(6.5, abs=0.3)
    clock.advance(6.5)
    assert leading._turn() == 0
    assert leading._turn() == pytest.approx(7, abs=0.3)


def test_a_bad_schedule_does_not_make_it_spin(alias, clock, leading):
    """FR-118 A row that can never fire is looked at by the poll interval only."""
    schedule("bad", "@every 1s", "q", None, using=alias)
    change_schedule(alias, "bad", spec="x")
    clock.advance(5)
    assert leading._turn() > 10
    schedule("s", "@every 2s", "q", None, using=alias)
    clock.advance(2)
    assert leading._turn() == 0
    assert leading._turn() == pytest.approx(2, abs=0.3)
