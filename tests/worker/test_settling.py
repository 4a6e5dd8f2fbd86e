"""Acks in batches, beside the claims, and never held up by another's row: 3.7, 7.1, issue 3."""

import threading

import pytest
from django.db import connections

from alkstore_django import signals
from alkstore_django.engines.registry import engine_for
from alkstore_django.worker import gathering
from alkstore_django.worker.running import RunningJob, RunningJobs
from tests.support.rows import count_live, live_row
from tests.support.tampering import held_elsewhere

WAIT_S = 20


@pytest.mark.parametrize("alias", ["postgres"], indirect=True)
def test_a_row_that_another_holds(alias, make_queue, new_worker, monkeypatch):
    """3.7 7.1 The ack of a locked row is put off; those of the others are not, and it comes."""
    monkeypatch.setattr(gathering, "BUSY_PAUSE_S", 0.02)
    queue = make_queue()
    begun = threading.Barrier(3, timeout=WAIT_S)
    go, acked = threading.Event(), threading.Event()

    def note_ack(sender, **sent):
        acked.set()

    signals.job_acked.connect(note_ack)

    @queue.handler
    def handle(job):
        begun.wait()
        assert go.wait(WAIT_S)

    held, *others = queue.enqueue_many([None] * 2)
    worker = new_worker(queue, threads=2)

    def run():
        worker.run()
        connections[alias].close()

    runner = threading.Thread(target=run)
    runner.start()
    begun.wait()
    with held_elsewhere(alias, held):
        go.set()
        assert acked.wait(WAIT_S)
        assert [live_row(alias, job_id) for job_id in others] == [None]
        assert live_row(alias, held)["state"] == "processing"
        assert runner.is_alive()
    runner.join(WAIT_S)
    signals.job_acked.disconnect(note_ack)
    assert str(worker.tally) == "acked=2 retried=0 died=0 given_back=0 lost=0"
    assert count_live(alias) == 0


def test_many_by_one_statement(alias, make_queue, work, monkeypatch):
    """Issue 3: what ends within the gathering time is acked by one statement."""
    monkeypatch.setattr(gathering, "GATHER_S", WAIT_S)  # or as soon as half of them have ended
    queue = make_queue()
    queue.handler(lambda job: None)
    queue.enqueue_many([None] * 32)
    batches = []
    ack_free = type(engine_for(alias)).ack_free

    def counted(self, claims):
        batches.append(len(claims))
        return ack_free(self, claims)

    monkeypatch.setattr(type(engine_for(alias)), "ack_free", counted)
    assert work(queue, threads=16).count("acked") == 32
    assert sum(batches) == 32
    assert len(batches) <= 8


def test_one_alone_waits_for_nobody(alias, make_queue, work, monkeypatch):
    """Issue 3: an idle worker acks at once, however long it would gather otherwise."""
    monkeypatch.setattr(gathering, "GATHER_S", 1_000.0)
    queue = make_queue()
    queue.handler(lambda job: None)
    queue.enqueue(None)
    assert work(queue, threads=4).count("acked") == 1


def test_a_claim_is_taken_once():
    """7.1 Whoever takes an open claim out settles it; nobody else can."""
    table = RunningJobs()
    running = RunningJob.__new__(RunningJob)
    table.add([running])
    assert (len(table), table.snapshot()) == (1, [running])
    assert [table.take(running), table.take(running)] == [True, False]
    assert not table.snapshot()
