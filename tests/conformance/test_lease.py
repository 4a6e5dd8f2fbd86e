"""The leadership lease: 4.4, FR-051."""

import threading

import pytest
from django.db import connections

from alkstore_django import LeadershipLost
from alkstore_django.engines.registry import engine_for
from alkstore_django.scheduling.leadership import LEASE_NAME, Leadership
from alkstore_django.testing import frozen_time
from tests.conftest import FROZEN_AT

LEASE_S = 15
LEASE_US = LEASE_S * 1_000_000


class Watch:
    """A monotonic clock that the test moves."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def watch():
    return Watch()


@pytest.fixture
def schedules(alias, clock):
    return engine_for(alias).schedules


@pytest.fixture
def candidate(schedules, watch):
    def make():
        return Leadership(schedules, LEASE_S, clock=watch)

    return make


@pytest.fixture
def advance(clock, watch):
    """Let time go by, on the database's clock and on this process's."""

    def move(seconds):
        clock.advance(seconds)
        watch.now += seconds

    return move


def test_only_one_has_it(schedules):
    """4.4 Taken by one owner; no other takes, renews or releases it."""
    assert schedules.is_lease_free("x")
    assert schedules.take_lease("x", owner="a", lease_us=LEASE_US)
    assert not schedules.is_lease_free("x")
    assert not schedules.take_lease("x", owner="b", lease_us=LEASE_US)
    assert not schedules.take_lease("x", owner="a", lease_us=LEASE_US)
    assert not schedules.renew_lease("x", owner="b", lease_us=LEASE_US)
    assert not schedules.release_lease("x", owner="b")
    assert schedules.take_lease("y", owner="b", lease_us=LEASE_US)  # another name
    assert schedules.renew_lease("x", owner="a", lease_us=LEASE_US)
    assert schedules.release_lease("x", owner="a")
    assert not schedules.release_lease("x", owner="a")
    assert not schedules.renew_lease("x", owner="a", lease_us=LEASE_US)
    assert schedules.take_lease("x", owner="b", lease_us=LEASE_US)


def test_it_is_free_when_it_expires(schedules, clock):
    """4.4 To the microsecond, by the database's clock; a renewal counts from its own instant."""
    schedules.take_lease("x", owner="a", lease_us=LEASE_US)
    clock.advance(10)
    schedules.renew_lease("x", owner="a", lease_us=LEASE_US)
    clock.move_to(FROZEN_AT + 24.999999)
    assert not schedules.take_lease("x", owner="b", lease_us=LEASE_US)
    clock.advance(0.000001)
    assert schedules.is_lease_free("x")
    assert schedules.take_lease("x", owner="b", lease_us=LEASE_US)
    assert not schedules.renew_lease("x", owner="a", lease_us=LEASE_US)


def test_a_clock_set_ahead_costs_nobody_the_lead(schedules, clock):
    """4.4 FR-051 Expired, but taken by nobody: its owner may still renew it, and then has it."""
    schedules.take_lease("x", owner="a", lease_us=LEASE_US)
    clock.advance(3600)
    assert schedules.renew_lease("x", owner="a", lease_us=LEASE_US)
    assert not schedules.take_lease("x", owner="b", lease_us=LEASE_US)


def test_a_clock_set_back_blocks_nobody(schedules, clock):
    """4.4 FR-051 A lease that reaches further ahead than it can is void at once, not in an hour."""
    schedules.take_lease("x", owner="a", lease_us=LEASE_US)
    clock.advance(-3600)
    assert schedules.is_lease_free("x")
    assert schedules.take_lease("x", owner="b", lease_us=LEASE_US)


@pytest.mark.parametrize("step", [-1, -LEASE_S])
def test_a_small_step_back_costs_nobody_the_lead(schedules, clock, step):
    """4.4 FR-051 A clock that is set back a little, or was read before one waited for the holder's
    renewal, makes no valid lease void."""
    schedules.take_lease("x", owner="a", lease_us=LEASE_US)
    clock.advance(step)
    assert not schedules.take_lease("x", owner="b", lease_us=LEASE_US)


def test_the_holders_length_counts(schedules, clock):
    """4.4 Who has another LEASE_S judges the holder's lease by the holder's length."""
    schedules.take_lease("x", owner="a", lease_us=100 * LEASE_US)
    assert not schedules.take_lease("x", owner="b", lease_us=LEASE_US)


def test_twenty_at_once(alias, clock):
    """4.4 Of many that try at one instant one succeeds."""
    schedules = engine_for(alias).schedules
    start, results = threading.Barrier(20), []

    def candidate(number):
        start.wait(20)
        results.append(schedules.take_lease("x", owner=str(number), lease_us=LEASE_US))
        connections[alias].close()

    threads = [threading.Thread(target=candidate, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert (results.count(True), len(results)) == (1, 20)


# -- trust -----------------------------------------------------------------------------------------


def test_owners_are_told_apart(candidate):
    """4.4 Each candidate has a fresh token, also two of one process."""
    one, other = candidate(), candidate()
    assert one.owner != other.owner
    assert one.try_to_take()
    assert not other.try_to_take()
    assert not one.try_to_take()


def test_standing_by_writes_nothing(candidate, sql_log):
    """4.4 Who stands by reads the lease only, so the leader's renewal never waits for it."""
    candidate().try_to_take()
    sql_log.clear()
    candidate().try_to_take()
    assert [text.split()[1] for text in sql_log] == ["alkstore:is_lease_held"]


def test_it_is_renewed_when_a_third_is_over(candidate, advance, sql_log):
    """4.4 Not before; and then it lasts anew."""
    leader = candidate()
    leader.try_to_take()
    sql_log.clear()
    advance(4.9)
    leader.keep()
    assert sql_log == []
    assert leader.renewal_in_s == pytest.approx(0.1)
    advance(0.2)
    leader.keep()
    assert len(sql_log) == 1
    assert leader.renewal_in_s == pytest.approx(5)
    for _ in range(10):
        advance(6)
        leader.keep()
    assert not candidate().try_to_take()


def test_one_that_slept_beyond_its_lease_has_lost_it(candidate, advance, sql_log):
    """4.4 By its own clock, without asking: a process that was stopped fires nothing."""
    leader = candidate()
    leader.try_to_take()
    advance(13.6)  # a tenth is kept back
    sql_log.clear()
    with pytest.raises(LeadershipLost) as caught:
        leader.keep()
    assert caught.value.name == LEASE_NAME
    assert sql_log == []


def test_one_that_was_overtaken_has_lost_it(candidate, advance, clock):
    """4.4 A refused renewal is a loss, even while its own clock still trusts."""
    leader, other = candidate(), candidate()
    leader.try_to_take()
    clock.advance(3600)
    assert other.try_to_take()
    advance(6)
    with pytest.raises(LeadershipLost):
        leader.keep()
    other.keep()


def test_trust_counts_from_before_the_question(candidate, schedules, watch, monkeypatch):
    """4.4 An answer that took longer than it is good for is no leadership."""
    leader = candidate()
    leader.try_to_take()
    watch.now += 6
    renew = schedules.renew_lease

    def slowly(*args, **kwargs):
        watch.now += 14
        return renew(*args, **kwargs)

    monkeypatch.setattr(schedules, "renew_lease", slowly)
    with pytest.raises(LeadershipLost):
        leader.keep()


def test_released_it_is_free(candidate):
    """4.4 Given back, another has it at once; and who gave it back leads no more."""
    leader = candidate()
    leader.try_to_take()
    assert leader.release()
    with pytest.raises(LeadershipLost):
        leader.keep()
    assert candidate().try_to_take()
    assert not leader.release()


def test_who_never_took_it_does_not_lead(candidate):
    """4.4 Leading begins with taking."""
    with pytest.raises(LeadershipLost):
        candidate().keep()


def test_the_wall_clock_is_not_asked(alias, monkeypatch):
    """FR-051 Python's wall clock, however wrong, changes nothing."""
    monkeypatch.setattr("time.time", lambda: 0.0)
    with frozen_time(alias, FROZEN_AT):
        leader = Leadership(engine_for(alias).schedules, LEASE_S)
        assert leader.try_to_take()
        leader.keep()
