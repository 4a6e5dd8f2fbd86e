"""Every move of a row is one transaction (3.4, 3.8, 3.9, 3.13)."""

import pytest
from django.db import DatabaseError, transaction

from tests.support.rows import dead_row, live_row
from tests.support.tampering import dead_storage_refuses, jobs_refuse_to_go


def fail(clock, queue):
    handle = queue.claim_one("w")
    return lambda: handle.fail("x")


def retry_on_the_last_attempt(clock, queue):
    handle = queue.claim_one("w")
    return lambda: handle.retry("x")


def sweep_a_pending_job(clock, queue):
    clock.advance(20)
    return lambda: queue.sweep_expired().expired == 1


def sweep_a_held_job(clock, queue):
    queue.claim_one("w").heartbeat(60)
    clock.advance(20)
    return lambda: queue.sweep_expired().expired == 1


def claim_beside_a_spent_job(clock, queue):
    queue.claim_one("w")
    clock.advance(10)
    return lambda: queue.claim_one("w") is None


MOVES = [
    fail,
    retry_on_the_last_attempt,
    sweep_a_pending_job,
    sweep_a_held_job,
    claim_beside_a_spent_job,
]


@pytest.fixture(params=MOVES, ids=lambda move: move.__name__)
def move(request, clock, make_queue):
    """A job, and a call that moves it to the dead."""
    queue = make_queue(visibility_timeout_s=10, max_attempts=1)
    job_id = queue.enqueue({"a": 1}, expires=20)
    return job_id, request.param(clock, queue)


@pytest.mark.parametrize("fault", [dead_storage_refuses, jobs_refuse_to_go])
def test_a_move_that_fails(alias, move, fault):
    """FR-017 When either half of a move fails, the call raises and the row is as and where it
    was, and nowhere else; once the fault is gone the same call succeeds."""
    job_id, bury = move
    before = live_row(alias, job_id)
    with fault(alias):
        with pytest.raises(DatabaseError):
            bury()
        assert live_row(alias, job_id) == before
        assert dead_row(alias, job_id) is None
    assert bury() is True
    assert live_row(alias, job_id) is None
    assert dead_row(alias, job_id) is not None


@pytest.mark.parametrize("fault", [dead_storage_refuses, jobs_refuse_to_go])
def test_a_move_that_fails_in_a_savepoint(alias, move, fault, business):
    """FR-017 The caller who guards the call by a savepoint keeps the rest of the transaction."""
    job_id, bury = move
    before = live_row(alias, job_id)
    with fault(alias), transaction.atomic(using=alias):
        with pytest.raises(DatabaseError), transaction.atomic(using=alias):
            bury()
        business.objects.using(alias).create(text="kept")
    assert (live_row(alias, job_id), dead_row(alias, job_id)) == (before, None)
    assert business.objects.using(alias).count() == 1
    assert bury() is True


def test_a_claim_that_fails_claims_nothing(alias, clock, make_queue):
    """FR-017 When a claim cannot bury a spent job it raises and marks no other job."""
    queue = make_queue(visibility_timeout_s=10, max_attempts=1)
    queue.enqueue(None)
    queue.claim_one("w")
    clock.advance(10)
    ready = queue.enqueue(None)
    with dead_storage_refuses(alias), pytest.raises(DatabaseError):
        queue.claim_batch("w", 5)
    assert live_row(alias, ready)["state"] == "pending"
    assert [handle.job.id for handle in queue.claim_batch("w", 5)] == [ready]
