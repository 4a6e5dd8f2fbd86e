"""Renewal of deadlines and limits of time: 7.1."""

import queue as mailbox
import threading

import pytest

from alkstore_django import signals
from alkstore_django.engines.registry import engine_for
from tests.support.rows import live_row

WAIT_S = 20


@pytest.fixture
def renewals(alias, monkeypatch):
    """Each renewal as it was done: (the frozen instant, the ids still held)."""
    engine = engine_for(alias)
    renew = engine.renew
    done = mailbox.SimpleQueue()

    def renew_and_tell(claims):
        at = engine.frozen_now_us
        held = renew(claims)
        done.put((at, held))
        return held

    monkeypatch.setattr(engine, "renew", renew_and_tell)
    return done


def wait_for_renewal(renewals, clock):
    """Wait for a renewal that began after the clock was last moved."""
    while True:
        at, held = renewals.get(timeout=WAIT_S)
        if at == round(clock.now * 1_000_000):
            return held


def test_a_running_job_is_renewed(alias, clock, make_queue, work, renewals):
    """7.1 A job runs on for many times its visibility timeout, and is still its worker's."""
    queue = make_queue(visibility_timeout_s=30)

    @queue.handler
    def handle(job):
        for _ in range(6):
            clock.advance(20)
            assert wait_for_renewal(renewals, clock) == {job.id}
            assert live_row(alias, job.id)["deadline"] == clock.now + 30
        assert queue.claim_one("thief") is None

    queue.enqueue(None)
    assert str(work(queue, heartbeat_interval_s=0.01)) == (
        "acked=1 retried=0 died=0 given_back=0 lost=0"
    )


def test_all_running_jobs_are_renewed(clock, make_queue, work, renewals):
    """7.1 The jobs of all threads are renewed, by one statement for those that are due."""
    queue = make_queue(visibility_timeout_s=30)
    all_run = threading.Barrier(3, timeout=WAIT_S)

    @queue.handler
    def handle(job):
        if all_run.wait() == 0:
            clock.advance(20)
            while wait_for_renewal(renewals, clock) != set(ids):
                continue
            clock.advance(20)
        all_run.wait()

    ids = queue.enqueue_many([None] * 3)
    assert work(queue, threads=3, heartbeat_interval_s=0.01).count("acked") == 3


def test_renewal_switched_off(alias, clock, make_queue, work, renewals, events):
    """7.1 heartbeat=False lets a long run lapse: its late end changes nothing, it runs again."""
    queue = make_queue(visibility_timeout_s=30)
    runs = []

    @queue.handler(heartbeat=False)
    def handle(job):
        runs.append(job.attempts)
        if job.attempts == 1:
            clock.advance(30)

    job_id = queue.enqueue(None)
    tally = work(queue, heartbeat_interval_s=0.01)
    assert runs == [1, 2]
    assert events.ids("claim_lost") == [job_id]
    assert str(tally) == "acked=1 retried=0 died=0 given_back=0 lost=1"
    assert renewals.empty()


def test_a_lost_claim_is_renewed_no_more(alias, clock, make_queue, work, renewals, events):
    """7.1 FR-001 The renewal of a reclaimed job is refused and leaves the new claim alone."""
    queue = make_queue(visibility_timeout_s=30)
    stolen = []

    @queue.handler
    def handle(job):
        clock.advance(31)
        stolen.append(queue.claim_one(job.worker_id))  # of the same name: the fence is the claim
        clock.advance(1)
        while job.id in wait_for_renewal(renewals, clock):
            continue

    queue.enqueue(None)
    tally = work(queue, heartbeat_interval_s=0.05)
    assert str(tally) == "acked=0 retried=0 died=0 given_back=0 lost=1"
    assert stolen[0].job.attempts == 2
    assert live_row(alias, stolen[0].job.id)["deadline"] == clock.now - 1 + 30
    assert stolen[0].ack()


def test_a_limit_of_time(alias, make_queue, work, events):
    """7.1 timeout_s ends the claim: retried by the curve, and the late result changes nothing."""
    queue = make_queue(backoff_base_s=600)
    retried = threading.Event()

    def note_retry(sender, **sent):
        retried.set()

    signals.job_retried.connect(note_retry)

    @queue.handler(timeout_s=0.05)
    def handle(job):
        assert retried.wait(WAIT_S)

    job_id = queue.enqueue(None)
    try:
        tally = work(queue)
    finally:
        signals.job_retried.disconnect(note_retry)
    assert str(tally) == "acked=0 retried=1 died=0 given_back=0 lost=0"
    row = live_row(alias, job_id)
    assert (row["state"], row["attempts"]) == ("pending", 1)
    assert row["run_at"] - row["enqueued_at"] >= 300
    assert "timed out" in events.of("job_retried")[0]["error"]


def test_a_limit_of_time_on_the_last_attempt(alias, make_queue, work):
    """7.1 3.8 A job that times out for the last time is dead, and says why."""
    queue = make_queue(max_attempts=1)
    died = threading.Event()

    def note_death(sender, **sent):
        died.set()

    signals.job_died.connect(note_death)

    @queue.handler(timeout_s=0.05)
    def handle(job):
        assert died.wait(WAIT_S)
        raise ValueError("too late to count")

    job_id = queue.enqueue(None)
    try:
        work(queue)
    finally:
        signals.job_died.disconnect(note_death)
    assert queue.get_job(job_id).last_error.startswith("timed out after 0.05")


def test_no_limit_was_reached(make_queue, work):
    """7.1 A handler that ends within its timeout_s is acked."""
    queue = make_queue()
    queue.handler(lambda job: None, timeout_s=WAIT_S)
    queue.enqueue(None)
    assert work(queue).count("acked") == 1


def test_a_timed_out_handler_does_not_end_the_drain(make_queue, work):
    """7.1 --drain returns once nothing is ready: a handler whose time is over still has the thread,
    and what it keeps waiting is handled after it."""
    queue = make_queue(backoff_base_s=600)
    timed_out = threading.Event()
    handled = []

    def note_retry(sender, **sent):
        timed_out.set()

    signals.job_retried.connect(note_retry)

    @queue.handler(timeout_s=0.05)
    def handle(job):
        if job.payload == "slow":
            with queue.listen() as listener:
                assert timed_out.wait(WAIT_S)
                listener.wait(0.3)  # several turns of the loop go by
        else:
            handled.append(job.payload)

    queue.enqueue("slow", priority=1)
    queue.enqueue("next")
    try:
        work(queue, poll_interval_s=0.01)
    finally:
        signals.job_retried.disconnect(note_retry)
    assert handled == ["next"]
