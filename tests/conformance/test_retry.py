"""Retry and its curve: 3.8."""

import datetime as dt
import math

import pytest
from django.db import transaction

from alkstore_django import InvalidOptions
from tests.support.rows import dead_row, live_row
from tests.support.statements import no_sql
from tests.support.tampering import change_live_row

HOUR = 3_600
MANY = 400


def curve(base_s, attempt):
    """The whole seconds that the curve may draw, by the words of 3.8."""
    cap = min(base_s * 2 ** (attempt - 1), HOUR)
    return range(math.ceil(cap / 2), cap + 1)


def retried_waits(alias, clock, queue, *, claims, times):
    """Claim and retry so many jobs so many times; return the waits drawn, by attempt."""
    queue.enqueue_many([None] * claims)
    waits = {}
    for attempt in range(1, times + 1):
        with transaction.atomic(using=alias):
            handles = queue.claim_batch("w", claims)
            assert {handle.job.attempts for handle in handles} == {attempt}
            assert all(handle.retry() for handle in handles)
            rows = [live_row(alias, handle.job.id) for handle in handles]
        waits[attempt] = [row["run_at"] - clock.now for row in rows]
        clock.advance(2 * HOUR)
    return waits


@pytest.mark.parametrize("delay", [1, 30, 0.25, 0, dt.timedelta(hours=5), 10**9])
def test_retry_after_a_delay(alias, clock, make_queue, delay):
    """3.8 A retried job is pending at now + delay, rounded up once; the claim is wiped off,
    the attempt stays counted, and nothing else changes."""
    queue = make_queue()
    job_id = queue.enqueue("p", priority=3, expires=100)
    before = live_row(alias, job_id)
    handle = queue.claim_one("w")
    clock.advance(10.5)
    assert handle.retry("why", delay=delay) is True
    length = delay.total_seconds() if isinstance(delay, dt.timedelta) else delay
    expected = before | {"attempts": 1, "run_at": math.ceil(clock.now + length)}
    row = live_row(alias, job_id)
    del expected["claim_token"], row["claim_token"]
    assert row == expected
    assert dead_row(alias, job_id) is None


def test_not_claimed_before_the_retry_is_due(clock, make_queue):
    """3.8 The job is claimed again from its new run_at on, as its next attempt."""
    queue = make_queue()
    queue.enqueue(None)
    queue.claim_one("w").retry(delay=30)
    clock.advance(29.999)
    assert queue.claim_one("w") is None
    clock.advance(0.001)
    assert queue.claim_one("w").job.attempts == 2


def test_a_retried_job_queues_up_by_its_new_run_at(clock, make_queue):
    """3.8 It has no precedence over jobs that became ready before it."""
    queue = make_queue()
    retried = queue.enqueue(None)
    queue.claim_one("w").retry(delay=10)
    earlier = queue.enqueue(None, delay=5)
    later = queue.enqueue(None, delay=15)
    clock.advance(15)
    assert [handle.job.id for handle in queue.claim_batch("w", 3)] == [earlier, retried, later]


def test_a_retry_does_not_outlive_expiry(clock, make_queue):
    """3.8 A retry leaves expires_at alone: beyond it the job is never claimed again."""
    queue = make_queue()
    queue.enqueue(None, expires=20)
    queue.claim_one("w").retry(delay=20)
    clock.advance(20)
    assert queue.claim_one("w") is None
    assert queue.sweep_expired().expired == 1


@pytest.mark.parametrize("base_s", [5, 1])
def test_the_curve(alias, clock, make_queue, base_s):
    """3.8 FR-083 Attempt a waits a whole number of seconds drawn evenly from [ceil(cap/2), cap],
    cap = base * 2^(a-1): every second of the range occurs, both ends too, and none beyond."""
    queue = make_queue(backoff_base_s=base_s, max_attempts=9)
    waits = retried_waits(alias, clock, queue, claims=MANY, times=4)
    for attempt, drawn in waits.items():
        allowed = curve(base_s, attempt)
        assert set(drawn) == set(allowed)
        middle = (allowed[0] + allowed[-1]) / 2
        assert abs(sum(drawn) / MANY - middle) <= middle * 0.05


@pytest.mark.parametrize("attempt", [1, 2, 3])
def test_no_backoff(alias, clock, make_queue, attempt):
    """3.8 A base of 0 retries at once, whatever the attempt."""
    queue = make_queue(backoff_base_s=0, max_attempts=9)
    waits = retried_waits(alias, clock, queue, claims=3, times=attempt)
    assert set(waits[attempt]) == {0}


@pytest.mark.parametrize(("base_s", "attempt"), [(5, 10), (5, 11), (3_600, 1), (100_000, 1)])
def test_the_cap(alias, clock, make_queue, base_s, attempt):
    """3.8 No wait is longer than an hour, and the draw goes on between half of it and all."""
    queue = make_queue(backoff_base_s=base_s, max_attempts=20)
    job_ids = queue.enqueue_many([None] * 40)
    for job_id in job_ids:
        change_live_row(alias, job_id, attempts=attempt - 1)
    assert all(handle.retry() for handle in queue.claim_batch("w", 40))
    allowed = curve(base_s, attempt)
    assert allowed[-1] == min(HOUR, base_s * 2 ** (attempt - 1))
    waits = {live_row(alias, job_id)["run_at"] - clock.now for job_id in job_ids}
    assert waits <= set(allowed)
    assert len(waits) > 20


@pytest.mark.parametrize("attempt", [32, 33, 63, 64, 65, 1_100, 2_147_483_646])
@pytest.mark.parametrize("base_s", [0, 1, 5, 3_600])
def test_huge_attempts(alias, clock, make_queue, base_s, attempt):
    """3.8 The curve overflows at no number of attempts."""
    queue = make_queue(backoff_base_s=base_s, max_attempts=2_147_483_647)
    job_id = queue.enqueue(None)
    change_live_row(alias, job_id, attempts=attempt - 1)
    handle = queue.claim_one("w")
    assert handle.job.attempts == attempt
    assert handle.retry() is True
    wait = live_row(alias, job_id)["run_at"] - clock.now
    assert (HOUR // 2 <= wait <= HOUR) if base_s else wait == 0


def test_the_curve_counts_from_now(alias, clock, make_queue):
    """3.8 1.4 The drawn wait is added to the exact clock and rounded up: never early."""
    queue = make_queue(backoff_base_s=1)
    job_id = queue.enqueue(None)
    handle = queue.claim_one("w")
    clock.advance(0.000_001)
    assert handle.retry() is True
    assert live_row(alias, job_id)["run_at"] == int(clock.now) + 2


def test_the_curve_is_the_rows_own(alias, clock, make_queue):
    """3.8 2.1 The base is the job's stamp, not the claiming handle's option."""
    job_id = make_queue(backoff_base_s=1_000).enqueue(None)
    make_queue(backoff_base_s=1).claim_one("w").retry()
    assert 500 <= live_row(alias, job_id)["run_at"] - clock.now <= 1_000


@pytest.mark.parametrize("delay", [None, 0, 30])
@pytest.mark.parametrize(
    ("error", "kept"), [(None, "max attempts exceeded"), ("boom", "boom"), ("", "")]
)
def test_retry_without_attempts_left(alias, clock, make_queue, error, kept, delay):
    """3.8 FR-085 On the last attempt a retry buries the job, with the error given; it returns
    True, and the delay does not matter."""
    queue = make_queue(max_attempts=2)
    job_id = queue.enqueue(None)
    assert queue.claim_one("w").retry(error, delay=0) is True
    assert live_row(alias, job_id)["state"] == "pending"
    clock.advance(0.5)
    handle = queue.claim_one("w")
    assert handle.retry(error, delay=delay) is True
    assert live_row(alias, job_id) is None
    dead = dead_row(alias, job_id)
    assert (dead["last_error"], dead["attempts"]) == (kept, 2)
    clock.advance(2 * HOUR)
    assert queue.claim_one("w") is None
    assert handle.retry() is False


@pytest.mark.parametrize("lapsed", [False, True], ids=["held", "lapsed"])
@pytest.mark.parametrize(
    "delay", [-1, -0.001, True, float("nan"), float("inf"), 1e20, 10**12, "5", b"5"]
)
def test_bad_delay(alias, clock, make_queue, delay, lapsed):
    """3.8 2.3 A bad delay is InvalidOptions before any SQL, whatever the state of the claim."""
    queue = make_queue(visibility_timeout_s=10)
    job_id = queue.enqueue(None)
    handle = queue.claim_one("w")
    clock.advance(10 if lapsed else 0)
    before = live_row(alias, job_id)
    with no_sql(alias), pytest.raises(InvalidOptions):
        handle.retry(delay=delay)
    assert live_row(alias, job_id) == before
