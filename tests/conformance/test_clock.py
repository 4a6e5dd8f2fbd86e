"""The one clock and its rounding: 1.4, 2.3."""

import datetime as dt
import math
import time
from fractions import Fraction

import pytest
from django.db import transaction
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from alkstore_django import Queue
from alkstore_django.testing import frozen_time
from tests.support.rows import dead_row, live_row

NOW = 1_800_000_000
PATIENCE_S = 30


def at(seconds):
    return dt.datetime.fromtimestamp(seconds, dt.UTC)


def database_now(queue):
    """The database's present second, as an enqueue reads it."""
    job_id = queue.enqueue({})
    seconds = queue.get_job(job_id).enqueued_at.timestamp()
    queue.cancel(job_id)
    return seconds


# -- rounding -----------------------------------------------------------------------------------


@pytest.mark.parametrize("fraction", [0, 0.000001, 0.25, 0.999999])
def test_the_present_rounds_down(alias, clock, make_queue, fraction):
    """1.4 enqueued_at, run_at of a job ready at once, claimed_at, died_at."""
    clock.move_to(NOW + fraction)
    queue = make_queue()
    job_id = queue.enqueue({})
    assert live_row(alias, job_id)["enqueued_at"] == live_row(alias, job_id)["run_at"] == NOW
    handle = queue.claim_one("worker")
    assert live_row(alias, job_id)["claimed_at"] == NOW
    assert handle.fail()
    assert dead_row(alias, job_id)["died_at"] == NOW


@pytest.mark.parametrize(
    ("fraction", "length", "promised"),
    [
        (0, 1, 1),
        (0, 1.25, 2),
        (0.25, 1, 2),
        (0.25, 1.75, 2),
        (0.25, 1.750001, 3),
        (0.5, dt.timedelta(seconds=1, milliseconds=500), 2),
        (0.999999, 1, 2),
        (0.999999, 1.000001, 2),
        (0.000001, 1, 2),
    ],
)
def test_a_promised_instant_rounds_up_once(alias, clock, make_queue, fraction, length, promised):
    """1.4 2.3 Delay, expiry, heartbeat and retry: ceil(now + length)."""
    clock.move_to(NOW + fraction)
    queue = make_queue()
    for enqueue in (
        queue.enqueue,
        lambda payload, **options: queue.enqueue_many([payload], **options)[0],
    ):
        delayed = enqueue({}, delay=length)
        expiring = enqueue({}, expires=length)
        assert live_row(alias, delayed)["run_at"] == NOW + promised
        assert live_row(alias, expiring)["expires_at"] == NOW + promised
    handle = queue.claim_one("worker")
    assert handle.heartbeat(length)
    assert live_row(alias, handle.job.id)["deadline"] == NOW + promised
    assert handle.retry(delay=length)
    assert live_row(alias, handle.job.id)["run_at"] == NOW + promised


@pytest.mark.parametrize(("fraction", "run_at"), [(0, 0), (0.25, 1), (0.999999, 1)])
def test_a_delay_of_zero_is_promised_too(alias, clock, make_queue, fraction, run_at):
    """2.3 run_at = ceil(now + delay), to the letter."""
    clock.move_to(NOW + fraction)
    assert live_row(alias, make_queue().enqueue({}, delay=0))["run_at"] == NOW + run_at


@pytest.mark.parametrize(("fraction", "deadline"), [(0, 2), (0.000001, 3), (0.999999, 3)])
def test_a_claims_deadline_rounds_up(alias, clock, make_queue, fraction, deadline):
    """1.4 2.3 The timeout is stored rounded up (1.5 is 2), then added to the clock and rounded."""
    clock.move_to(NOW + fraction)
    queue = make_queue(visibility_timeout_s=1.5)
    job_id = queue.enqueue({})
    queue.claim_one("worker")
    assert live_row(alias, job_id)["deadline"] == NOW + deadline


@given(
    now_us=st.integers(NOW * 10**6, NOW * 10**6 + 10**7),
    delay=st.floats(0, 1e9)
    | st.integers(0, 10**9)
    | st.timedeltas(dt.timedelta()).filter(lambda length: length.days < 10_000),
)
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_a_delay_is_never_early_and_less_than_a_second_late(alias, now_us, delay):
    """1.4 2.3 For any clock and any delay: run_at = ceil(now + delay), in exact numbers."""
    length = (
        Fraction(delay // dt.timedelta(microseconds=1), 10**6)
        if isinstance(delay, dt.timedelta)
        else Fraction(delay)
    )
    queue = Queue("jobs", using=alias)
    with frozen_time(alias, NOW) as clock:
        clock.move_to(now_us / 10**6)
        exact_now = Fraction(round(clock.now * 10**6), 10**6)
        job_id = queue.enqueue({}, delay=delay)
    assert live_row(alias, job_id)["run_at"] == math.ceil(exact_now + length)


# -- bounds -------------------------------------------------------------------------------------


def test_a_job_is_ready_at_its_run_at_and_not_before(clock, make_queue):
    """1.4 FR-071 A delay is never early; visibility starts at the claim."""
    clock.move_to(NOW + 0.5)
    queue = make_queue(visibility_timeout_s=2)
    queue.enqueue({}, delay=8)
    clock.move_to(NOW + 8.999999)
    assert queue.claim_one("worker") is None
    clock.move_to(NOW + 9)
    job = queue.claim_one("worker").job
    assert (job.attempts, job.claimed_at, job.deadline) == (1, at(NOW + 9), at(NOW + 11))


def test_a_job_expires_at_its_expiry_and_not_before(clock, make_queue):
    """1.4 3.13 FR-076 expires_at <= now is past."""
    clock.move_to(NOW + 0.5)
    queue = make_queue()
    ids = queue.enqueue_many([{}, {}], expires=1)
    clock.move_to(NOW + 1.999999)
    assert queue.claim_one("worker").job.id == ids[0]
    clock.move_to(NOW + 2)
    assert queue.claim_one("worker") is None


@pytest.mark.parametrize("fraction", [0, 0.1, 0.999999])
def test_a_claim_is_held_or_lapsed_at_every_instant(clock, make_queue, fraction):
    """1.4 FR-005 Never both, never neither; vt=1 lasts at least 1 s and less than 2 s."""
    start = NOW + fraction
    clock.move_to(start)
    queue = make_queue(visibility_timeout_s=1, max_attempts=99)
    queue.enqueue({})
    handle = queue.claim_one("worker")
    lapse = handle.job.deadline.timestamp()
    assert 1 <= lapse - start < 2
    clock.move_to(lapse - 0.000001)
    assert queue.claim_one("other") is None
    assert handle.heartbeat(1)
    clock.move_to(queue.get_job(handle.job.id).deadline.timestamp())
    assert handle.heartbeat(1) is False
    assert queue.claim_one("other").job.id == handle.job.id


# -- whose clock --------------------------------------------------------------------------------


def test_the_clock_goes_on_inside_a_transaction(alias, make_queue):
    """1.4 Read once per statement, not frozen at the transaction's start."""
    queue = make_queue()
    patience = time.monotonic() + PATIENCE_S
    with transaction.atomic(using=alias):
        first = queue.get_job(queue.enqueue({}))
        while queue.get_job(queue.enqueue({})).enqueued_at == first.enqueued_at:
            assert time.monotonic() < patience, "the clock stands still"
        transaction.set_rollback(True, using=alias)


@pytest.mark.parametrize("shift", [-86_400 * 365, -600, 600, 86_400 * 365])
def test_pythons_clock_has_no_say(make_queue, monkeypatch, shift):
    """1.4 FR-051 FR-053 Delay, expiry, deadline and retry by the database's clock alone."""
    queue = make_queue(visibility_timeout_s=60)
    real, real_now, real_ns = time.time, timezone.now, time.time_ns
    before = database_now(queue)
    with monkeypatch.context() as patched:
        patched.setattr(time, "time", lambda: real() + shift)
        patched.setattr(time, "time_ns", lambda: real_ns() + shift * 10**9)
        patched.setattr(timezone, "now", lambda: real_now() + dt.timedelta(seconds=shift))
        delayed = queue.get_job(queue.enqueue({}, delay=3_000, expires=5_000))
        queue.enqueue({})
        handle = queue.claim_one("worker")
        handle.retry(delay=100)
    after = database_now(queue)

    def promised(length):
        return at(before + length), at(after + length + 1)

    for instant, length in (
        (delayed.run_at, 3_000),
        (delayed.expires_at, 5_000),
        (handle.job.deadline, 60),
        (queue.get_job(handle.job.id).run_at, 100),
    ):
        least, most = promised(length)
        assert least <= instant <= most


def test_run_at_is_stored_as_given(make_queue):
    """2.2 FR-053 An absolute instant of the caller's is not shifted by any clock."""
    queue = make_queue()
    moment = dt.datetime(2031, 5, 6, 7, 8, 9, tzinfo=dt.UTC)
    assert queue.get_job(queue.enqueue({}, run_at=moment)).run_at == moment
    assert queue.get_job(queue.enqueue({}, run_at=moment.timestamp())).run_at == moment


def test_an_enqueue_of_many_reads_the_clock_once(make_queue):
    """1.4 2.3 One statement, one instant: run_at and expires_at of all rows agree."""
    queue = make_queue()
    ids = queue.enqueue_many(range(400), delay=10, expires=20)
    instants = {(job.enqueued_at, job.run_at, job.expires_at) for job in map(queue.get_job, ids)}
    assert len(instants) == 1
