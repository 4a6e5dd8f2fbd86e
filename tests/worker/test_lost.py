"""A handler can learn that its claim is over: ``job.lost``, 7.1, issue 3."""

import threading
from contextlib import contextmanager

import pytest

from alkstore_django import StopToken, signals
from alkstore_django.engines.registry import engine_for
from tests.support.tampering import change_live_row

WAIT_S = 20


@contextmanager
def told(name):
    """Yield an event that is set when the signal of that name is sent."""
    event = threading.Event()

    def receive(sender, **sent):
        event.set()

    signal = getattr(signals, name)
    signal.connect(receive)
    try:
        yield event
    finally:
        signal.disconnect(receive)


@pytest.mark.parametrize("how", ["reclaimed", "cancelled"])
def test_after_a_refused_renewal(alias, make_queue, work, events, how):
    """3.5 7.1 The row was reclaimed, or cancelled: the next renewal is refused, and tells."""
    queue = make_queue()
    seen = []

    @queue.handler
    def handle(job):
        if how == "cancelled":
            queue.cancel(job.id)
        else:
            change_live_row(alias, job.id, claim_token=1)
        assert lost.wait(WAIT_S)
        seen.append(job.lost)
        queue.cancel(job.id)  # so that the drain ends

    queue.enqueue(None)
    with told("claim_lost") as lost:
        tally = work(queue, heartbeat_interval_s=0.05)
    assert seen == [True]
    assert str(tally) == "acked=0 retried=0 died=0 given_back=0 lost=1"
    assert [sent["operation"] for sent in events.of("claim_lost")] == ["heartbeat"]


def test_after_its_time(make_queue, work):
    """7.1 timeout_s is over."""
    queue = make_queue(backoff_base_s=600)
    seen = []

    @queue.handler(timeout_s=0.1)
    def handle(job):
        assert retried.wait(WAIT_S)
        seen.append(job.lost)

    queue.enqueue(None)
    with told("job_retried") as retried:
        assert work(queue).count("retried") == 1
    assert seen == [True]


def test_after_it_was_given_back(make_queue, work):
    """7.4 The worker stops, and the grace is over."""
    queue = make_queue()
    stop = StopToken()
    seen = []

    @queue.handler
    def handle(job):
        stop.stop()
        assert given_back.wait(WAIT_S)
        seen.append(job.lost)

    queue.enqueue(None)
    with told("job_given_back") as given_back:
        tally = work(queue, drain=False, stop=stop, shutdown_timeout_s=0)
    assert tally.count("given_back") == 1
    assert seen == [True]


def test_not_otherwise(alias, make_queue, work, monkeypatch):
    """7.1 A job whose claim is held says no, also after a renewal."""
    queue = make_queue()
    renewed = threading.Event()
    seen = []
    engine = engine_for(alias)
    renew = engine.renew

    def noted(claims):
        held = renew(claims)
        renewed.set()
        return held

    monkeypatch.setattr(engine, "renew", noted)

    @queue.handler
    def handle(job):
        assert renewed.wait(WAIT_S)
        seen.append(job.lost)

    queue.enqueue(None)
    assert work(queue, heartbeat_interval_s=0.03).count("acked") == 1
    assert seen == [False]
