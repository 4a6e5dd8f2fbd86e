"""Names: 1.3."""

import pytest
from django.db import transaction

from alkstore_django import InvalidName, Queue, Store
from tests.core.hostile import BAD_NAMES, BAD_TEXT, GOOD_NAMES, cases
from tests.support.rows import count_dead, count_live, live_row
from tests.support.statements import no_sql


@pytest.mark.parametrize("name", cases(BAD_NAMES))
def test_a_bad_queue_name_is_refused_at_construction(alias, name):
    """1.3 FR-066 InvalidName before any SQL, by whatever way the queue is made."""
    store = Store(alias)
    with no_sql(alias):
        for construct in (lambda: Queue(name, using=alias), lambda: store.queue(name)):
            with pytest.raises(InvalidName):
                construct()


@pytest.mark.parametrize("name", cases(BAD_NAMES))
def test_a_bad_queue_name_is_refused_by_the_store(alias, name):
    """1.3 enqueue_tx and get_job_tx obey the same rule, and leave the transaction usable."""
    store = Store(alias)
    with transaction.atomic(using=alias):
        with no_sql(alias):
            with pytest.raises(InvalidName):
                store.enqueue_tx(name, {})
            with pytest.raises(InvalidName):
                store.get_job_tx(name, 1)
        kept = store.enqueue_tx("jobs", {})
    assert live_row(alias, kept) is not None
    assert count_live(alias) == 1


@pytest.mark.parametrize("worker_id", cases(BAD_TEXT))
def test_a_bad_worker_id_is_refused(alias, make_queue, worker_id):
    """1.3 3.3 InvalidName before any SQL, and no attempt is spent."""
    queue = make_queue()
    job_id = queue.enqueue({})
    with no_sql(alias):
        with pytest.raises(InvalidName):
            queue.claim_one(worker_id)
        with pytest.raises(InvalidName):
            queue.claim_batch(worker_id, 5)
    row = live_row(alias, job_id)
    assert (row["state"], row["attempts"], row["worker_id"]) == ("pending", 0, None)


@pytest.mark.parametrize("worker_id", cases({**GOOD_NAMES, "reserved": "__alkstore_worker"}))
def test_every_other_worker_id_is_stamped_as_it_is(alias, make_queue, worker_id):
    """1.3 3.4 The rule for names holds, the reserved prefix is allowed."""
    queue = make_queue()
    job_id = queue.enqueue({})
    assert queue.claim_one(worker_id).job.worker_id == worker_id
    assert live_row(alias, job_id)["worker_id"] == worker_id


@pytest.mark.parametrize("name", cases(GOOD_NAMES))
def test_every_legal_name_serves(alias, make_queue, name):
    """1.3 FR-066 Quoting never breaks: enqueue, claim, read, retry, bury, sweep."""
    queue = make_queue(name)
    job_id, other_id = queue.enqueue_many([{"n": 1}, {"n": 2}])
    assert live_row(alias, job_id)["queue"] == name
    handle, other = queue.claim_batch("worker", 2)
    assert (handle.job.id, handle.job.queue) == (job_id, name)
    assert handle.retry("again", delay=0)
    assert other.fail("done with it")
    assert queue.get_job(other_id).queue == name
    assert Store(alias).get_job_tx(name, job_id).id == job_id
    assert queue.sweep_expired() == (0, 0)
    assert queue.cancel(job_id)
    assert (count_live(alias), count_dead(alias)) == (0, 1)


@pytest.mark.parametrize(
    ("name", "other"), [("UPPER", "upper"), ("a", "a "), ("é", "e\u0301"), ("%", "%%"), ("q", "Q")]
)
def test_names_are_told_apart_by_code_points(make_queue, name, other):
    """1.3 FR-066 No folding of case, blanks or composed letters."""
    job_id = make_queue(name).enqueue({})
    assert make_queue(other).claim_batch("worker", 5) == []
    assert [handle.job.id for handle in make_queue(name).claim_batch("worker", 5)] == [job_id]


def test_constructing_a_queue_runs_no_sql_and_stores_nothing(alias):
    """1.3 Constructing a Queue runs no SQL and registers nothing in the database."""
    with no_sql(alias):
        Queue("never used", using=alias, visibility_timeout_s=1)
        Store(alias).queue("nor this one")
    assert count_live(alias) == count_dead(alias) == 0
