"""Reading a job: 3.12."""

import datetime as dt

import pytest
from django.db import transaction

from alkstore_django import BYTES, InvalidOptions, JobState, Store
from tests.support.rows import dead_row, live_row
from tests.support.statements import no_sql

UTC = dt.UTC


def seen(job):
    """Every public value of a job."""
    return {
        name: getattr(job, name)
        for name in dir(job)
        if not name.startswith("_") and not callable(getattr(job, name))
    }


def at(epoch_s):
    return dt.datetime.fromtimestamp(epoch_s, UTC)


def common(clock, job_id, **changes):
    """What a job shows that ``fresh`` enqueued at the clock's first second."""
    return {
        "id": job_id,
        "queue": "jobs",
        "payload": {"a": 1},
        "payload_bytes": b'{"a":1}',
        "codec": "json",
        "priority": 4,
        "max_attempts": 7,
        "visibility_timeout_s": 61,
        "backoff_base_s": 2,
        "run_at": at(clock.now),
        "enqueued_at": at(clock.now),
        "expires_at": at(clock.now + 1_000),
        "attempts": 0,
        "worker_id": None,
        "claimed_at": None,
        "deadline": None,
        "last_error": None,
        "died_at": None,
    } | changes


def fresh(make_queue):
    queue = make_queue(visibility_timeout_s=60.5, max_attempts=3, backoff_base_s=1.5)
    return queue, queue.enqueue({"a": 1}, priority=4, max_attempts=7, expires=1_000)


def test_a_pending_job(clock, make_queue):
    """3.12 2.1 A pending job shows its options as resolved and no claim."""
    queue, job_id = fresh(make_queue)
    job = queue.get_job(job_id)
    expected = common(clock, job_id, state=JobState.PENDING)
    assert {name: value for name, value in seen(job).items() if name in expected} == expected


def test_a_processing_job(clock, make_queue):
    """3.12 A processing job shows its claim."""
    queue, job_id = fresh(make_queue)
    expected = common(
        clock,
        job_id,
        state=JobState.PROCESSING,
        attempts=1,
        worker_id="w",
        claimed_at=at(clock.now + 5),
        deadline=at(clock.now + 66),
    )
    clock.advance(5)
    queue.claim_one("w")
    job = queue.get_job(job_id)
    assert {name: value for name, value in seen(job).items() if name in expected} == expected


def test_a_retried_job(clock, make_queue):
    """3.12 A job that is pending again shows no claim and no error."""
    queue, job_id = fresh(make_queue)
    expected = common(clock, job_id, state=JobState.PENDING, attempts=1, run_at=at(clock.now + 30))
    queue.claim_one("w").retry("why", delay=30)
    job = queue.get_job(job_id)
    assert {name: value for name, value in seen(job).items() if name in expected} == expected


def test_a_dead_job(clock, make_queue):
    """3.12 A dead job keeps its last worker_id and claimed_at and shows why and when it died."""
    queue, job_id = fresh(make_queue)
    expected = common(
        clock,
        job_id,
        state=JobState.DEAD,
        attempts=1,
        worker_id="w",
        claimed_at=at(clock.now),
        last_error="why",
        died_at=at(clock.now + 9),
    )
    handle = queue.claim_one("w")
    clock.advance(9.5)
    handle.fail("why")
    job = queue.get_job(job_id)
    assert {name: value for name, value in seen(job).items() if name in expected} == expected


def test_defaults_as_resolved(clock, make_queue):
    """3.12 2.1 Options that nobody gave show the defaults."""
    queue = make_queue()
    job = queue.get_job(queue.enqueue(None))
    assert (job.visibility_timeout_s, job.max_attempts, job.backoff_base_s) == (300, 3, 5)
    assert (job.priority, job.expires_at) == (0, None)
    assert job.run_at == job.enqueued_at == at(clock.now)


def test_a_job_that_died_unclaimed(clock, make_queue):
    """3.12 A dead job that nobody ever claimed shows no worker."""
    queue = make_queue()
    job_id = queue.enqueue(None, expires=1)
    clock.advance(1)
    queue.sweep_expired()
    job = queue.get_job(job_id)
    assert (job.state, job.worker_id, job.claimed_at) == ("dead", None, None)


def test_types(clock, make_queue):
    """3.12 Instants are aware datetimes in UTC; the state is an enum that is a string; lengths
    and counts are ints."""
    queue, job_id = fresh(make_queue)
    handle = queue.claim_one("w")
    processing = queue.get_job(job_id)
    handle.fail()
    dead = queue.get_job(job_id)
    instants = (
        *(processing.run_at, processing.enqueued_at, processing.expires_at),
        *(processing.claimed_at, processing.deadline, dead.claimed_at, dead.died_at),
    )
    assert {type(instant) for instant in instants} == {dt.datetime}
    assert {instant.utcoffset() for instant in instants} == {dt.timedelta(0)}
    assert isinstance(dead.state, JobState)
    assert isinstance(dead.state, str)
    assert (dead.state, f"{dead.state}") == ("dead", "dead")
    numbers = (
        "id",
        "priority",
        "attempts",
        "max_attempts",
        "visibility_timeout_s",
        "backoff_base_s",
    )
    assert {type(getattr(dead, name)) for name in numbers} == {int}
    assert (type(dead.payload_bytes), type(dead.queue), type(dead.worker_id)) == (bytes, str, str)


def test_bytes_are_bytes(clock, make_queue):
    """3.12 2.4 A bytes payload is read as exactly these bytes, as payload and as payload_bytes."""
    queue = make_queue(codec=BYTES)
    job = queue.get_job(queue.enqueue(b"\x00\xff"))
    assert (job.payload, job.payload_bytes) == (b"\x00\xff", b"\x00\xff")
    assert type(job.payload) is bytes


@pytest.mark.parametrize("end", ["ack", "cancel", "purge"])
def test_an_absent_job(clock, make_queue, end):
    """3.12 Of a job that is gone nothing is found."""
    queue = make_queue(dead_letter_retention_s=1)
    job_id = queue.enqueue(None)
    handle = queue.claim_one("w")
    if end == "ack":
        handle.ack()
    elif end == "cancel":
        queue.cancel(job_id)
    else:
        handle.fail()
        clock.advance(1)
        queue.sweep_expired()
    assert queue.get_job(job_id) is None


@pytest.mark.parametrize("job_id", [0, -1, 10**12, 2**63 - 1, 2**63, -(2**63) - 1, 2**200])
def test_an_id_that_no_job_has(clock, make_queue, job_id):
    """3.12 1.5 FR-069 An id out of range is simply absent."""
    assert make_queue().get_job(job_id) is None


@pytest.mark.parametrize("job_id", ["1", "x", 1.0, None, b"1", [1]])
def test_no_id(alias, clock, make_queue, job_id):
    """3.12 1.5 An id that is no int is InvalidOptions, before any SQL."""
    queue = make_queue()
    with no_sql(alias), pytest.raises(InvalidOptions):
        queue.get_job(job_id)


def test_the_id_alone(clock, make_queue):
    """3.12 1.5 Any queue's handle reads any job; the job says which queue it belongs to."""
    queue, other = make_queue("a"), make_queue("b")
    live, dead = queue.enqueue(None), queue.enqueue(None, priority=1)
    queue.claim_one("w").fail()
    assert [other.get_job(job_id).queue for job_id in (live, dead)] == ["a", "a"]


def test_get_job_tx_filters_by_queue(alias, clock, make_queue):
    """1.5 Only get_job_tx looks at the queue's name too, for the dead as well."""
    queue = make_queue("a")
    live, dead = queue.enqueue(None), queue.enqueue(None, priority=1)
    queue.claim_one("w").fail()
    store = Store(using=alias)
    with transaction.atomic(using=alias):
        assert [store.get_job_tx("a", job_id).id for job_id in (live, dead)] == [live, dead]
        assert [store.get_job_tx("b", job_id) for job_id in (live, dead)] == [None, None]


def test_reading_changes_nothing(alias, clock, make_queue):
    """3.12 A read is pure: a lapsed, a spent, an expired and a dead job stay as they are."""
    queue = make_queue(visibility_timeout_s=10, dead_letter_retention_s=1)
    dead = queue.enqueue(None)
    queue.claim_one("w").fail()
    lapsed = queue.enqueue(None)
    spent = queue.enqueue(None, max_attempts=1)
    queue.claim_batch("w", 2)
    expired = queue.enqueue(None, expires=5)
    clock.advance(100)
    before = [(live_row(alias, i), dead_row(alias, i)) for i in (dead, lapsed, spent, expired)]
    states = [queue.get_job(job_id).state for job_id in (dead, lapsed, spent, expired)]
    assert states == ["dead", "processing", "processing", "pending"]
    assert before == [
        (live_row(alias, i), dead_row(alias, i)) for i in (dead, lapsed, spent, expired)
    ]


def test_a_read_is_one_statement(clock, make_queue, sql_log):
    """3.12 Reading a job, live, dead or absent, sends one statement."""
    queue = make_queue()
    live, dead = queue.enqueue(None), queue.enqueue(None, priority=1)
    queue.claim_one("w").fail()
    for job_id in (live, dead, dead + 1):
        before = len(sql_log)
        queue.get_job(job_id)
        assert len(sql_log) == before + 1


def test_a_job_is_a_value(clock, make_queue):
    """3.12 What was read stays as it was read, and cannot be changed."""
    queue, job_id = fresh(make_queue)
    job = queue.get_job(job_id)
    before = seen(job)
    queue.claim_one("w").fail()
    assert seen(job) == before
    assert job != queue.get_job(job_id)
    with pytest.raises(AttributeError):
        job.priority = 1
    with pytest.raises(AttributeError):
        job.other = 1


def test_ones_own_uncommitted_work_is_seen(alias, clock, make_queue):
    """3.12 Inside a transaction a read sees what the transaction did."""
    queue = make_queue()
    with transaction.atomic(using=alias):
        job_id = queue.enqueue(None)
        assert queue.get_job(job_id).state == "pending"
        handle = queue.claim_one("w")
        assert queue.get_job(job_id).state == "processing"
        handle.fail()
        assert queue.get_job(job_id).state == "dead"
