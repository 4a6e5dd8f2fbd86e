"""Cancelling: 3.11."""

import pytest
from django.db import transaction

from alkstore_django import InvalidOptions
from tests.support.rows import count_dead, count_live, dead_row, live_row
from tests.support.statements import no_sql
from tests.support.transactions import rolled_back


def pending(clock, queue):
    return queue.enqueue(None)


def delayed(clock, queue):
    return queue.enqueue(None, delay=3_600)


def held(clock, queue):
    job_id = queue.enqueue(None)
    queue.claim_one("w")
    return job_id


def lapsed(clock, queue):
    job_id = held(clock, queue)
    clock.advance(10)
    return job_id


def spent(clock, queue):
    job_id = queue.enqueue(None, max_attempts=1)
    queue.claim_one("w")
    clock.advance(10)
    return job_id


def expired(clock, queue):
    job_id = queue.enqueue(None, expires=5)
    clock.advance(5)
    return job_id


@pytest.mark.parametrize("make", [pending, delayed, held, lapsed, spent, expired])
def test_cancel_deletes(alias, clock, make_queue, make):
    """3.11 A pending or processing job is deleted, whatever its state in time; only once, and
    no other job with it."""
    queue = make_queue(visibility_timeout_s=10)
    other = queue.enqueue(None, priority=-1, delay=5_000)
    job_id = make(clock, queue)
    assert queue.cancel(job_id) is True
    assert (live_row(alias, job_id), dead_row(alias, job_id)) == (None, None)
    assert queue.cancel(job_id) is False
    assert live_row(alias, other) is not None


def test_the_holder_of_a_cancelled_job(alias, clock, make_queue):
    """3.11 FR-009 The holder's operations return False and bring nothing back to life."""
    queue = make_queue()
    job_id = queue.enqueue(None)
    handle = queue.claim_one("w")
    assert queue.cancel(job_id) is True
    assert handle.retry("x", delay=0) is False
    assert handle.fail("x") is False
    assert handle.heartbeat(9) is False
    assert handle.ack() is False
    assert queue.ack_batch([handle]) == 0
    assert (count_live(alias), count_dead(alias)) == (0, 0)


def test_cancel_never_touches_the_dead(alias, clock, make_queue):
    """3.11 A dead job is not cancelled."""
    queue = make_queue()
    job_id = queue.enqueue(None)
    queue.claim_one("w").fail()
    before = dead_row(alias, job_id)
    assert queue.cancel(job_id) is False
    assert dead_row(alias, job_id) == before


@pytest.mark.parametrize("job_id", [0, -1, 10**12, 2**63 - 1, 2**63, -(2**63) - 1, 2**200])
def test_cancel_of_no_job(alias, clock, make_queue, job_id):
    """3.11 1.5 An unknown id, and one out of range, is simply absent."""
    queue = make_queue()
    queue.enqueue(None)
    assert queue.cancel(job_id) is False
    assert count_live(alias) == 1


@pytest.mark.parametrize("job_id", ["1", 1.0, None, b"1", [1]])
def test_cancel_by_no_id(alias, clock, make_queue, job_id):
    """3.11 1.5 An id that is no int is InvalidOptions, before any SQL."""
    queue = make_queue()
    with no_sql(alias), pytest.raises(InvalidOptions):
        queue.cancel(job_id)


def test_cancel_looks_at_the_id_alone(alias, clock, make_queue):
    """3.11 1.5 A handle of any queue cancels by id."""
    job_id = make_queue("a").enqueue(None)
    assert make_queue("b").cancel(job_id) is True
    assert live_row(alias, job_id) is None


def test_cancel_joins_the_transaction(alias, clock, make_queue):
    """3.11 A rolled-back cancel leaves job and holder as they were; a committed one counts."""
    queue = make_queue()
    job_id = queue.enqueue(None)
    handle = queue.claim_one("w")
    before = live_row(alias, job_id)
    with rolled_back(alias):
        assert queue.cancel(job_id) is True
        assert handle.ack() is False
    assert live_row(alias, job_id) == before
    assert handle.heartbeat(60) is True
    with transaction.atomic(using=alias):
        assert queue.cancel(job_id) is True
    assert queue.get_job(job_id) is None
