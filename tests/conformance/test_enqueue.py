"""Enqueueing: 3.1, 3.2, and the ids of 1.5."""

import threading

import pytest
from django.db import connections, transaction

from alkstore_django import InvalidOptions, InvalidPayload, Store
from tests.support.rows import count_dead, count_live, dead_row, live_row
from tests.support.statements import no_sql
from tests.support.transactions import rolled_back

PATIENCE_S = 30


@pytest.fixture(params=["enqueue", "enqueue_many", "enqueue_tx"])
def enqueue_one(request, alias, make_queue):
    """One job, stored inside a transaction by each way in; returns its id."""
    if request.param == "enqueue":
        return make_queue().enqueue
    if request.param == "enqueue_many":
        return lambda payload: make_queue().enqueue_many([payload])[0]
    return lambda payload: Store(alias).enqueue_tx("jobs", payload)


def in_another_session(alias, function):
    """Call in a thread, and so on a connection, of its own."""
    results = []

    def run():
        try:
            results.append(function())
        finally:
            connections[alias].close()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(PATIENCE_S)
    assert not thread.is_alive(), "the other session hangs"
    return results[0]


# -- what is stored -----------------------------------------------------------------------------


def test_a_job_is_stored_pending(alias, clock, make_queue):
    """3.1 Returns the id; the row is pending, unclaimed, with no attempt spent."""
    job_id = make_queue("mail").enqueue({"to": "a"}, priority=7, expires=60)
    assert type(job_id) is int and job_id > 0
    row = live_row(alias, job_id)
    assert bytes(row.pop("payload")) == b'{"to":"a"}'
    assert row == {
        "id": job_id,
        "queue": "mail",
        "state": "pending",
        "priority": 7,
        "run_at": clock.now,
        "expires_at": clock.now + 60,
        "attempts": 0,
        "max_attempts": 3,
        "visibility_timeout_s": 300,
        "backoff_base_s": 5,
        "enqueued_at": clock.now,
        "worker_id": None,
        "claimed_at": None,
        "deadline": None,
        "claim_token": None,
        "codec": "json",
        "key": None,
    }


def test_many_jobs_are_stored_as_single_ones_are(alias, clock, make_queue):
    """3.2 The same options for all, the same rows as by single enqueues."""
    queue = make_queue()
    options = {"delay": 5.5, "priority": -3, "max_attempts": 2, "expires": 99}
    single = live_row(alias, queue.enqueue([1], **options))
    many = live_row(alias, queue.enqueue_many([[1]], **options)[0])
    assert {**many, "id": single["id"], "payload": b""} == {**single, "payload": b""}
    assert bytes(many["payload"]) == bytes(single["payload"])


@pytest.mark.parametrize("count", [1, 2, 501, 5_001])
def test_ids_come_in_the_order_given(alias, make_queue, count):
    """3.2 1.5 The n-th id belongs to the n-th payload, and ids grow."""
    queue = make_queue()
    ids = queue.enqueue_many(range(count))
    assert len(ids) == count == count_live(alias)
    assert ids == sorted(set(ids))
    for place in {0, count // 2, count - 1}:
        assert queue.get_job(ids[place]).payload == place


def test_many_jobs_take_a_few_statements(make_queue, sql_log):
    """3.2 Many jobs in a few statements."""
    make_queue().enqueue_many([{"n": n} for n in range(1_000)])
    assert len(sql_log) <= 8


def test_many_accepts_any_iterable(make_queue):
    """3.2 A generator is read once."""
    queue = make_queue()
    ids = queue.enqueue_many(n for n in range(3))
    assert [queue.get_job(job_id).payload for job_id in ids] == [0, 1, 2]


def test_no_payloads_are_no_work(alias, make_queue):
    """3.2 Nothing given, nothing stored, no SQL."""
    with no_sql(alias):
        assert make_queue().enqueue_many([]) == []


def test_one_bad_payload_refuses_them_all(alias, make_queue):
    """3.2 All or none, before any SQL."""
    with no_sql(alias), pytest.raises(InvalidPayload):
        make_queue().enqueue_many([{"n": 1}, {"n": {2}}, {"n": 3}])
    assert count_live(alias) == 0


def test_a_failing_source_of_payloads_stores_nothing(alias, make_queue):
    """3.2 All or none: what the caller's iterable raises is the caller's."""

    def source():
        yield {}
        raise LookupError("source is dry")

    with pytest.raises(LookupError):
        make_queue().enqueue_many(source())
    assert count_live(alias) == 0


def test_equal_payloads_are_separate_jobs(make_queue):
    """FR-129 No hidden de-duplication."""
    queue = make_queue()
    first, second = queue.enqueue({"key": 1}), queue.enqueue({"key": 1})
    assert first != second
    assert len(queue.claim_batch("worker", 5)) == 2


# -- transactions -------------------------------------------------------------------------------


def test_outside_a_transaction_it_commits_itself(alias, make_queue):
    """3.1 3.2 Another session sees the jobs at once."""
    queue = make_queue()
    queue.enqueue({}), queue.enqueue_many([{}, {}])
    assert in_another_session(alias, lambda: count_live(alias)) == 3


def test_it_commits_with_the_transaction(alias, business, enqueue_one):
    """3.1 FR-089 Job and business row appear together, and only after the commit."""
    with transaction.atomic(using=alias):
        business.objects.using(alias).create(text="order")
        job_id = enqueue_one({})
        seen = in_another_session(
            alias, lambda: (live_row(alias, job_id), business.objects.using(alias).count())
        )
        assert seen == (None, 0)
        assert live_row(alias, job_id) is not None
    seen = in_another_session(
        alias, lambda: (live_row(alias, job_id), business.objects.using(alias).count())
    )
    assert seen[0]["state"] == "pending" and seen[1] == 1


def test_another_session_can_neither_read_nor_claim_it_before_the_commit(alias, make_queue):
    """3.1 FR-089 No ghost jobs: get_job is None and the claim is empty until the commit."""
    queue = make_queue()

    def look(job_id):
        return queue.get_job(job_id), queue.claim_batch("other", 5)

    with transaction.atomic(using=alias):
        job_id = queue.enqueue({})
        assert in_another_session(alias, lambda: look(job_id)) == (None, [])
    job, handles = in_another_session(alias, lambda: look(job_id))
    assert job.id == job_id
    assert [handle.job.id for handle in handles] == [job_id]


def test_it_vanishes_with_the_transaction(alias, business, enqueue_one):
    """3.1 FR-089 FR-125 After a rollback neither the job nor the business row is there."""
    with pytest.raises(LookupError), transaction.atomic(using=alias):
        business.objects.using(alias).create(text="order")
        enqueue_one({})
        raise LookupError
    assert count_live(alias) == 0
    assert not business.objects.using(alias).exists()


def test_it_vanishes_with_its_savepoint_alone(alias, enqueue_one):
    """3.1 Savepoints included, nested ones too."""
    with transaction.atomic(using=alias):
        before = enqueue_one({})
        with rolled_back(alias):
            enqueue_one({})
            with transaction.atomic(using=alias):
                enqueue_one({})
        with transaction.atomic(using=alias):
            inner = enqueue_one({})
            with rolled_back(alias):
                enqueue_one({})
        after = enqueue_one({})
    assert count_live(alias) == 3
    assert all(live_row(alias, job_id) for job_id in (before, inner, after))


def test_it_vanishes_when_the_caller_marks_the_transaction(alias, enqueue_one):
    """3.1 FR-091 set_rollback is a rollback."""
    with transaction.atomic(using=alias):
        enqueue_one({})
        transaction.set_rollback(True, using=alias)
    assert count_live(alias) == 0


def test_it_works_in_a_durable_block(alias, enqueue_one):
    """3.1 FR-091 Our code never asks for a durable block of its own."""
    with transaction.atomic(using=alias, durable=True):
        job_id = enqueue_one({})
    assert live_row(alias, job_id) is not None


def test_a_refusal_leaves_the_transaction_usable(alias, business, make_queue):
    """2.4 FR-060 Checked before any SQL: the caller's transaction goes on."""
    queue = make_queue()
    with transaction.atomic(using=alias):
        for payload in ({"x": float("nan")}, {1: 2}, (1,)):
            with pytest.raises(InvalidPayload):
                queue.enqueue(payload)
        with pytest.raises(InvalidOptions):
            queue.enqueue({}, delay=-1)
        business.objects.using(alias).create(text="order")
    assert business.objects.using(alias).count() == 1
    assert count_live(alias) == 0


# -- ids ----------------------------------------------------------------------------------------


def test_ids_grow_in_the_order_of_enqueue(make_queue):
    """1.5 Growing over all queues, single and many mixed."""
    ids = [make_queue("a").enqueue({})]
    ids += make_queue("b").enqueue_many([{}, {}])
    ids += [make_queue("a").enqueue({}), make_queue("c").enqueue({}, priority=9, delay=60)]
    assert ids == sorted(set(ids))


@pytest.mark.parametrize("end", ["ack", "ack_batch", "cancel", "purge"])
def test_an_id_is_never_used_twice(alias, clock, make_queue, end):
    """1.5 FR-003 However the job of the highest id went away."""
    queue = make_queue(dead_letter_retention_s=1)
    old = queue.enqueue({})
    handle = queue.claim_one("worker")
    if end == "ack":
        assert handle.ack()
    elif end == "ack_batch":
        assert queue.ack_batch([old]) == 1
    elif end == "cancel":
        assert queue.cancel(old)
    else:
        assert handle.fail()
        clock.advance(1)
        assert queue.sweep_expired() == (0, 1)
    assert count_live(alias) == count_dead(alias) == 0
    new = queue.enqueue({})
    assert new > old
    assert handle.heartbeat(10) is False
    assert live_row(alias, new)["state"] == "pending"


def test_ids_are_unique_over_live_and_dead_rows(alias, make_queue):
    """1.5 FR-003 A dead job keeps its id, and no live one gets it."""
    queue = make_queue()
    dead = queue.enqueue({})
    queue.claim_one("worker").fail()
    live = queue.enqueue({})
    assert live > dead
    assert queue.get_job(dead).state == "dead" and dead_row(alias, dead)["id"] == dead
    assert live_row(alias, dead) is None


def test_an_operation_by_id_looks_at_the_id_alone(alias, make_queue):
    """1.5 Whatever queue the handle carries."""
    mine, other = make_queue("mine"), make_queue("other")
    first, second, third = mine.enqueue_many([1, 2, 3])
    assert other.get_job(first).queue == "mine"
    assert other.cancel(first) is True
    mine.claim_batch("worker", 2)
    assert other.ack_batch([second]) == 1
    assert Store(alias).get_job_tx("other", third) is None
    assert Store(alias).get_job_tx("mine", third).id == third
