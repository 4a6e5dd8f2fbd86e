"""Acks that are gathered, and the ends of a worker: 3.7, 7.4, issue 3, "Throughput"."""

import itertools
import sys
import threading

import pytest

from alkstore_django import StopToken
from alkstore_django.worker import gathering
from alkstore_django.worker.running import RunningJob, RunningJobs
from tests.support.rows import count_live, live_row

WAIT_S = 20


@pytest.fixture
def gathers_long(monkeypatch):
    """Gather for as long as a test lasts, unless something ends it."""
    monkeypatch.setattr(gathering, "GATHER_S", 1_000.0)


@pytest.mark.parametrize("atomic", [False, True])
def test_a_stop_flushes_what_is_gathered(
    alias, make_queue, work, events, gathers_long, monkeypatch, atomic
):
    """7.4 Issue 3: a job that has ended when the grace is over is acked, not given back: no ack is
    held back while the worker could be stopped without it."""
    queue = make_queue()
    stop, stop_now = StopToken(), StopToken()
    over, begun = threading.Event(), threading.Barrier(6, timeout=WAIT_S)
    finish = gathering.Gatherer.finish

    def finish_and_stop(self, running, outcome):
        finish(self, running, outcome)
        if running.row.id == done:
            stop.stop()
            stop_now.stop()

    monkeypatch.setattr(gathering.Gatherer, "finish", finish_and_stop)
    quick = make_queue("quick")

    @queue.handler
    def hold(job):
        begun.wait()
        assert over.wait(WAIT_S)

    @quick.handler(atomic=atomic)
    def handle(job):
        begun.wait()

    held = queue.enqueue_many([None] * 5)
    done = quick.enqueue(None)
    try:
        tally = work(queue, quick, threads=6, drain=False, stop=stop, stop_now=stop_now)
    finally:
        over.set()
    assert tally.as_dict() == {"jobs": {"given_back": 5}, "quick": {"acked": 1}}
    assert live_row(alias, done) is None
    assert [live_row(alias, job_id)["attempts"] for job_id in held] == [0] * 5
    assert events.of("claim_lost") == []


def test_the_last_ones_are_settled_without_a_wait(make_queue, work, gathers_long):
    """Issue 3: once nothing runs any more, nothing is waited for: a drain ends."""
    queue = make_queue()
    queue.handler(lambda job: None)
    queue.enqueue_many([None] * 50)
    assert work(queue, threads=4).count("acked") == 50


def test_a_failure_is_settled_among_acks(alias, make_queue, work, gathers_long):
    """3.8 Issue 3: retries and deaths go with the acks, each by its own rule."""
    queue = make_queue(backoff_base_s=600, max_attempts=2)

    @queue.handler
    def handle(job):
        if job.payload % 3 == 0:
            raise ValueError("no")

    queue.enqueue_many(list(range(30)))
    assert work(queue, threads=8).as_dict() == {"jobs": {"acked": 20, "retried": 10}}
    assert count_live(alias) == 10


def test_a_refused_ack_is_told_once(alias, make_queue, work, events):
    """3.5 7.1 Another has cancelled the row: one claim_lost, by the ack or by the renewal."""
    queue = make_queue()

    @queue.handler
    def handle(job):
        queue.cancel(job.id)

    ids = queue.enqueue_many([None] * 20)
    tally = work(queue, threads=4, heartbeat_interval_s=0.001)
    assert tally.as_dict() == {"jobs": {"lost": 20}}
    assert sorted(events.ids("claim_lost")) == ids


def test_many_threads_take_each_claim_once():
    """7.1 Issue 3: of a handler's end, its timeout, a lost claim and a stop, one settles the job."""
    table = RunningJobs()
    claims = [RunningJob.__new__(RunningJob) for _ in range(3_000)]
    table.add(claims)
    start, taken = threading.Barrier(4, timeout=WAIT_S), [[] for _ in range(4)]

    def take(mine):
        start.wait()
        mine.extend(claim for claim in claims if table.take(claim))

    threads = [threading.Thread(target=take, args=[mine]) for mine in taken]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT_S)
    finally:
        sys.setswitchinterval(before)
    assert sorted(map(id, itertools.chain(*taken))) == sorted(map(id, claims))
    assert len(table) == 0
