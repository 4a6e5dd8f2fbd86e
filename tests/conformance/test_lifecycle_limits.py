"""What there is not: 3.14."""

import inspect
import threading

import pytest

from alkstore_django import JobHandle, Queue, Store
from tests.support.rows import count_dead, count_live, dead_row

REDRIVE = (
    "redrive",
    "requeue",
    "replay",
    "revive",
    "restore",
    "resurrect",
    "rerun",
    "release_dead",
)


def test_no_result_is_stored(alias, clock, make_queue):
    """3.14 An acked job leaves no trace, and an ack takes no result."""
    queue = make_queue()
    job_id = queue.enqueue(None)
    assert queue.claim_one("w").ack() is True
    assert (count_live(alias), count_dead(alias)) == (0, 0)
    assert queue.get_job(job_id) is None
    assert list(inspect.signature(JobHandle.ack).parameters) == ["self"]


@pytest.mark.parametrize("kind", [Queue, JobHandle, Store])
def test_no_redrive(kind):
    """3.14 There is no operation that brings the dead back."""
    names = [name for name in dir(kind) if not name.startswith("_")]
    assert [name for name in names if any(word in name for word in REDRIVE)] == []


def test_running_a_dead_job_again(alias, clock, make_queue):
    """3.14 To run a dead job again, read it and enqueue afresh: a job of its own, and the dead
    one stays."""
    queue = make_queue(max_attempts=1)
    dead_id = queue.enqueue({"order": 7}, priority=3)
    queue.claim_one("w").fail("why")
    before = dead_row(alias, dead_id)
    dead = queue.get_job(dead_id)
    fresh_id = queue.enqueue(dead.payload, priority=dead.priority, max_attempts=dead.max_attempts)
    assert fresh_id > dead_id
    job = queue.claim_one("w").job
    assert (job.id, job.payload, job.attempts) == (fresh_id, {"order": 7}, 1)
    assert dead_row(alias, dead_id) == before


def test_no_background_maintenance(alias, make_queue):
    """3.14 Using a queue starts nothing that goes on by itself."""
    before = set(threading.enumerate())
    queue = make_queue(visibility_timeout_s=1, dead_letter_retention_s=1)
    queue.enqueue_many([1, 2, 3], expires=60)
    first, second, third = queue.claim_batch("w", 3)
    assert (first.ack(), second.retry(delay=5), third.fail()) == (True, True, True)
    queue.sweep_expired()
    assert set(threading.enumerate()) == before
