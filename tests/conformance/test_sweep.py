"""Sweeping: 3.13."""

import pytest
from django.db import transaction

from alkstore_django import SweepResult
from tests.support.rows import count_dead, count_live, dead_row, live_row
from tests.support.transactions import rolled_back

MICROSECOND = 0.000_001


def bury(queue, n=1):
    """Let n fresh jobs fail."""
    job_ids = queue.enqueue_many([None] * n, priority=1_000)
    for handle in queue.claim_batch("w", n):
        assert handle.fail() is True
    return job_ids


def test_expired_jobs_die(alias, clock, make_queue):
    """3.13 Every pending and every processing job past expires_at goes to the dead with
    `expired`, held, lapsed or spent; the others stay."""
    queue = make_queue(visibility_timeout_s=50)
    held = queue.enqueue(None, expires=100, priority=4)
    lapsed = queue.enqueue(None, expires=100, priority=3)
    spent = queue.enqueue(None, expires=100, priority=2, max_attempts=1)
    queue.claim_batch("w", 3)[0].heartbeat(1_000)
    ready = queue.enqueue(None, expires=100)
    waiting = queue.enqueue(None, expires=100)
    clock.advance(1)
    later = queue.enqueue(None, expires=100)
    never = queue.enqueue(None)
    queue.enqueue(None, priority=9)
    queue.claim_one("w").retry(delay=5_000)
    clock.advance(99)
    doomed = (held, lapsed, spent, ready, waiting)
    attempts = {job_id: live_row(alias, job_id)["attempts"] for job_id in doomed}
    assert queue.sweep_expired() == SweepResult(expired=5, purged=0)
    for job_id in doomed:
        assert live_row(alias, job_id) is None
        dead = dead_row(alias, job_id)
        assert (dead["last_error"], dead["died_at"]) == ("expired", clock.now)
        assert dead["attempts"] == attempts[job_id]
    assert [queue.get_job(job_id).state for job_id in (later, never)] == ["pending", "pending"]
    assert count_live(alias) == 3
    assert queue.sweep_expired() == SweepResult(expired=0, purged=0)


def test_expired_while_waiting_for_a_retry(alias, clock, make_queue):
    """3.13 FR-078 No job is left behind that can never run: one whose run_at lies beyond its
    expiry is swept when it expires."""
    queue = make_queue()
    job_id = queue.enqueue(None, expires=10)
    queue.claim_one("w").retry(delay=1_000)
    clock.advance(10)
    assert queue.sweep_expired().expired == 1
    assert dead_row(alias, job_id)["last_error"] == "expired"


@pytest.mark.parametrize(("offset", "expired"), [(-1, 0), (-MICROSECOND, 0), (0, 1), (1, 1)])
@pytest.mark.parametrize("state", ["pending", "processing"])
def test_the_instant_of_expiry(clock, make_queue, state, offset, expired):
    """3.13 expires_at <= now is past."""
    queue = make_queue()
    queue.enqueue(None, expires=10)
    if state == "processing":
        queue.claim_one("w")
    clock.advance(10 + offset)
    assert queue.sweep_expired() == SweepResult(expired=expired, purged=0)


def test_the_holder_of_a_swept_job(alias, clock, make_queue):
    """3.13 Sweeping a held job ends its claim: the holder is refused."""
    queue = make_queue()
    job_id = queue.enqueue(None, expires=10)
    handle = queue.claim_one("w")
    clock.advance(10)
    assert queue.sweep_expired().expired == 1
    assert (handle.ack(), handle.heartbeat(60), handle.retry(), handle.fail()) == (False,) * 4
    assert dead_row(alias, job_id)["last_error"] == "expired"


def test_an_expired_job_may_still_be_settled(alias, clock, make_queue):
    """3.13 Until a sweep comes, expiry takes nothing from who holds the job."""
    queue = make_queue()
    queue.enqueue(None, expires=10)
    handle = queue.claim_one("w")
    clock.advance(10)
    assert handle.ack() is True
    assert queue.sweep_expired() == SweepResult(0, 0)


def test_only_its_own_queue(alias, clock, make_queue):
    """3.13 A sweep moves and deletes in its own queue only."""
    queue, other = make_queue("a", dead_letter_retention_s=1), make_queue("b")
    foreign_dead = bury(other)[0]
    foreign = other.enqueue(None, expires=5)
    clock.advance(10)
    assert queue.sweep_expired() == SweepResult(0, 0)
    assert live_row(alias, foreign) is not None
    assert dead_row(alias, foreign_dead) is not None


def test_retention(alias, clock, make_queue):
    """3.13 Dead jobs older than the retention are deleted, the younger ones stay."""
    queue = make_queue(dead_letter_retention_s=100)
    old = bury(queue, 3)
    clock.advance(50)
    young = bury(queue, 2)
    clock.advance(50)
    assert queue.sweep_expired() == SweepResult(expired=0, purged=3)
    assert [dead_row(alias, job_id) for job_id in old] == [None] * 3
    assert all(dead_row(alias, job_id) for job_id in young)


@pytest.mark.parametrize(("offset", "purged"), [(-1, 0), (-MICROSECOND, 0), (0, 1), (1, 1)])
def test_the_instant_of_the_purge(clock, make_queue, offset, purged):
    """3.13 died_at + retention <= now is purged."""
    queue = make_queue(dead_letter_retention_s=10)
    bury(queue)
    clock.advance(10 + offset)
    assert queue.sweep_expired() == SweepResult(expired=0, purged=purged)


def test_no_retention_keeps_for_ever(alias, clock, make_queue):
    """3.13 Without a retention no dead job is deleted."""
    queue = make_queue()
    bury(queue, 2)
    clock.advance(7_000_000_000)
    assert queue.sweep_expired() == SweepResult(0, 0)
    assert count_dead(alias) == 2


def test_retention_is_the_sweeping_handles(clock, make_queue):
    """3.13 2.1 The sweeping handle's retention rules, not the one known at enqueue."""
    strict, lenient, keeping = (
        make_queue(dead_letter_retention_s=retention) for retention in (1, 1_000, None)
    )
    bury(strict)
    clock.advance(500)
    assert keeping.sweep_expired().purged == 0
    assert lenient.sweep_expired().purged == 0
    assert strict.sweep_expired().purged == 1


def test_what_dies_now_is_not_purged_now(alias, clock, make_queue):
    """3.13 Retention counts from death: jobs that this very sweep moved are kept."""
    queue = make_queue(dead_letter_retention_s=1)
    bury(queue)
    job_id = queue.enqueue(None, expires=5)
    clock.advance(500)
    assert queue.sweep_expired() == SweepResult(expired=1, purged=1)
    assert dead_row(alias, job_id)["died_at"] == clock.now


def test_spent_jobs_are_the_claims_business(alias, clock, make_queue):
    """3.13 A sweep looks at expiry alone: a lapsed job with no attempts left stays."""
    queue = make_queue(visibility_timeout_s=10, max_attempts=1)
    job_id = queue.enqueue(None)
    queue.claim_one("w")
    clock.advance(10)
    assert queue.sweep_expired() == SweepResult(0, 0)
    assert live_row(alias, job_id) is not None


def test_a_sweep_joins_the_transaction(alias, clock, make_queue):
    """3.13 A rolled-back sweep moved and deleted nothing; a committed one did."""
    queue = make_queue(dead_letter_retention_s=1)
    bury(queue)
    queue.enqueue(None, expires=5)
    clock.advance(5)
    with rolled_back(alias):
        assert queue.sweep_expired() == SweepResult(1, 1)
    assert (count_live(alias), count_dead(alias)) == (1, 1)
    with transaction.atomic(using=alias):
        assert queue.sweep_expired() == SweepResult(1, 1)
    assert (count_live(alias), count_dead(alias)) == (0, 1)


def test_nothing_sweeps_by_itself(alias, clock, make_queue):
    """3.13 No other operation moves an expired job or deletes an old dead one."""
    queue = make_queue(dead_letter_retention_s=1)
    dead = bury(queue)[0]
    expired = queue.enqueue(None, expires=5)
    clock.advance(1_000)
    job_id = queue.enqueue(None)
    queue.enqueue_many([None, None])
    queue.get_job(expired)
    handle = queue.claim_batch("w", 10)[0]
    handle.heartbeat(10)
    handle.retry()
    queue.cancel(job_id)
    queue.ack_batch([expired, dead])
    assert live_row(alias, expired)["state"] == "pending"
    assert dead_row(alias, dead) is not None


def test_very_many(alias, clock, make_queue, sql_log):
    """FR-080 However many jobs are due, one sweep moves and deletes them all, in bounded
    batches; jobs of other queues, and the younger ones, are left alone."""
    queue, other = make_queue("a", dead_letter_retention_s=100), make_queue("b")
    n = 2_600
    for each in (queue, other):
        each.enqueue_many([None] * n, expires=1)
    clock.advance(1)
    assert (queue.sweep_expired(), other.sweep_expired()) == ((n, 0), (n, 0))
    clock.advance(100)
    queue.enqueue_many([None] * n, expires=1)
    young = queue.enqueue(None)
    clock.advance(1)
    before = len(sql_log)
    assert queue.sweep_expired() == SweepResult(expired=n, purged=n)
    assert len(sql_log) - before >= 6
    assert (count_live(alias), count_dead(alias)) == (1, 2 * n)
    assert queue.claim_one("w").job.id == young
