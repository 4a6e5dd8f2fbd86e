"""Other sessions in the way of a worker: 7.4, FR-096. Lost connections are in tests/concurrency."""

import queue as mailbox
import threading

import pytest
from django.db import transaction

from alkstore_django import FailJob, RetryJob, signals
from alkstore_django.engines.registry import engine_for
from tests.support.rows import count_live
from tests.worker import sessions

WAIT_S = 20


@pytest.fixture
def obstructed(alias):
    """Put a session in the way of the worker's statements; it leaves when the worker has met it."""
    made = []

    def obstruct():
        made.append(sessions.Obstacle(alias))

    def leave(sender, **sent):
        made[-1].remove()

    signals.store_lost.connect(leave)
    with sessions.impatience(alias):
        yield obstruct
    signals.store_lost.disconnect(leave)
    for obstacle in made:
        obstacle.remove()


def test_a_claim_that_gave_up_waiting(make_queue, work, events, obstructed):
    """7.4 A claim that a lock kept waiting too long is tried again: told once, and nothing lost."""
    queue = make_queue()
    queue.handler(lambda job: None)
    queue.enqueue_many([None] * 3)
    obstructed()
    assert str(work(queue)) == "acked=3 retried=0 died=0 given_back=0 lost=0"
    assert len(events.of("store_lost")) == len(events.of("store_restored")) == 1


@pytest.mark.parametrize("outcome", ["ack", "retry", "fail"])
def test_a_settlement_that_gave_up_waiting(alias, make_queue, work, events, obstructed, outcome):
    """7.4 FR-032 What became of a job is written down when the way is free again, and once."""
    queue = make_queue()

    @queue.handler
    def handle(job):
        obstructed()
        if outcome == "retry":
            raise RetryJob(delay=600)
        if outcome == "fail":
            raise FailJob("hopeless")

    job_id = queue.enqueue(None)
    tally = work(queue)
    expected = {"ack": "acked", "retry": "retried", "fail": "died"}[outcome]
    assert tally.as_dict() == {"jobs": {expected: 1}}
    assert len(events.of("store_lost")) == 1
    job = queue.get_job(job_id)
    assert (job and job.state) == {"ack": None, "retry": "pending", "fail": "dead"}[outcome]


@pytest.mark.parametrize("alias", ["postgres"], indirect=True)
def test_a_handler_that_holds_its_own_row(alias, clock, make_queue, work, monkeypatch):
    """FR-096 A handler's open transaction over its own job row holds up neither the renewal of the
    other jobs nor a sweep."""
    queue = make_queue(visibility_timeout_s=30)
    engine = engine_for(alias)
    renew, renewals = engine.renew, mailbox.SimpleQueue()

    def renew_and_tell(claims):
        at = engine.frozen_now_us
        held = renew(claims)
        renewals.put((at, held))
        return held

    monkeypatch.setattr(engine, "renew", renew_and_tell)
    both = threading.Barrier(2, timeout=WAIT_S)

    @queue.handler
    def handle(job):
        if job.payload == "holds":
            with transaction.atomic(using=alias):
                assert queue.ack_batch([job.id]) == 1
                both.wait()
                clock.advance(20)
                while renewals.get(timeout=WAIT_S) != (engine.frozen_now_us, set(ids)):
                    continue
                both.wait()
                both.wait()
        else:
            both.wait()
            both.wait()
            assert queue.sweep_expired().expired == 0
            assert queue.get_job(job.id).deadline.timestamp() == clock.now + 30
            both.wait()

    ids = queue.enqueue_many(["holds", "other"])
    tally = work(queue, threads=2, heartbeat_interval_s=0.01)
    assert tally.count("acked") >= 1
    assert tally.count("retried") == 0
    assert count_live(alias) == 0
