"""A stop in one process, step by step: 7.4. Real signals are in tests/concurrency."""

import queue as mailbox
import threading

import pytest

from alkstore_django import StopToken
from alkstore_django.engines.registry import engine_for
from tests.support.rows import count_live, live_row
from tests.testapp.models import Note

WAIT_S = 20


def test_no_new_claims(alias, make_queue, work):
    """7.4 After a stop what runs is finished and acked, and nothing else is claimed."""
    queue = make_queue()
    stop = StopToken()
    both = threading.Barrier(2, timeout=WAIT_S)

    @queue.handler
    def handle(job):
        both.wait()
        stop.stop()
        both.wait()

    ids = queue.enqueue_many([None] * 6)
    tally = work(queue, threads=2, drain=False, stop=stop)
    assert str(tally) == "acked=2 retried=0 died=0 given_back=0 lost=0"
    assert [live_row(alias, job_id)["attempts"] for job_id in ids[2:]] == [0] * 4


def test_a_stop_before_the_start(alias, make_queue, work):
    """7.4 A worker that is stopped before it begins claims nothing."""
    queue = make_queue()
    queue.handler(lambda job: None)
    queue.enqueue(None)
    stop = StopToken()
    stop.stop()
    assert str(work(queue, drain=False, stop=stop)).startswith("acked=0")
    assert count_live(alias) == 1


def test_a_stopping_worker_waits_and_does_not_spin(make_queue, new_worker):
    """7.4 While handlers have their grace, the loop waits from poll to poll, also after the
    first of them has passed."""
    queue = make_queue()
    done = threading.Event()
    queue.handler(lambda job: done.wait(WAIT_S))
    queue.enqueue(None)
    stop = StopToken()
    worker = new_worker(queue, stop=stop, drain=False, poll_interval_s=10)
    try:
        worker.turn()
        stop.stop()
        worker._filler._next_poll = 0.0
        assert worker.turn() > 1
    finally:
        done.set()
        worker._pool.stop()


def test_a_failure_while_stopping_is_recorded(alias, make_queue, work):
    """7.4 A handler that fails within the grace period is retried like any other."""
    queue = make_queue()
    stop = StopToken()

    @queue.handler
    def handle(job):
        stop.stop()
        raise ValueError("no")

    job_id = queue.enqueue(None)
    assert work(queue, drain=False, stop=stop).count("retried") == 1
    row = live_row(alias, job_id)
    assert (row["state"], row["attempts"]) == ("pending", 1)


def test_renewed_while_stopping(alias, clock, make_queue, work, monkeypatch):
    """7.4 Running jobs are still renewed during the grace period."""
    queue = make_queue(visibility_timeout_s=30)
    stop = StopToken()
    engine = engine_for(alias)
    renew, renewed_at = engine.renew, mailbox.SimpleQueue()

    def renew_and_tell(claims):
        at = engine.frozen_now_us
        held = renew(claims)
        renewed_at.put(at)
        return held

    monkeypatch.setattr(engine, "renew", renew_and_tell)

    @queue.handler
    def handle(job):
        stop.stop()
        for _ in range(3):
            clock.advance(20)
            while renewed_at.get(timeout=WAIT_S) != engine.frozen_now_us:
                continue

    queue.enqueue(None)
    tally = work(queue, drain=False, stop=stop, heartbeat_interval_s=0.01)
    assert tally.count("acked") == 1


@pytest.mark.parametrize("second", [False, True], ids=["grace-over", "second-stop"])
def test_given_back(alias, make_queue, work, events, second):
    """7.4 What does not end in time is pending at once, its attempt returned, its late end void."""
    queue = make_queue()
    stop, stop_now = StopToken(), StopToken()
    over = threading.Event()
    ended = threading.Event()

    @queue.handler
    def handle(job):
        stop.stop()
        if second:
            stop_now.stop()
        assert over.wait(WAIT_S)
        Note.objects.using(alias).create(text="late")
        ended.set()

    job_id = queue.enqueue(None)
    before = live_row(alias, job_id)
    grace = 100 if second else 0.05
    try:
        tally = work(queue, drain=False, stop=stop, stop_now=stop_now, shutdown_timeout_s=grace)
        assert str(tally) == "acked=0 retried=0 died=0 given_back=1 lost=0"
        assert events.ids("job_given_back") == [job_id]
        assert live_row(alias, job_id) == before
    finally:
        over.set()
    assert ended.wait(WAIT_S)
    assert live_row(alias, job_id) == before
    assert queue.claim_one("next").job.attempts == 1


def test_given_back_on_the_last_attempt(alias, make_queue, work):
    """7.4 A job that is given back on its last attempt still has it: a deploy buries nothing."""
    queue = make_queue(max_attempts=1)
    stop = StopToken()
    over = threading.Event()

    @queue.handler
    def handle(job):
        stop.stop()
        assert over.wait(WAIT_S)

    queue.enqueue(None)
    try:
        work(queue, drain=False, stop=stop, shutdown_timeout_s=0)
    finally:
        over.set()
    job = queue.claim_one("next").job
    assert (job.attempts, job.max_attempts) == (1, 1)


def test_an_old_handle_after_a_give_back(alias, make_queue):
    """7.4 3.5 The claim that was given back is void, though the next one has the same attempts."""
    queue = make_queue()
    job_id = queue.enqueue(None)
    old = queue.claim_one("same-name")
    assert engine_for(alias).give_back([old.claim]) == {job_id}
    new = queue.claim_one("same-name")
    assert (old.job.attempts, new.job.attempts) == (1, 1)
    assert [old.ack(), old.retry("x"), old.fail("x"), old.heartbeat(60)] == [False] * 4
    assert queue.ack_batch([old]) == 0
    assert engine_for(alias).give_back([old.claim]) == set()
    assert new.ack()
    assert live_row(alias, job_id) is None
