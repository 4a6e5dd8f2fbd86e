"""A handler can learn that its claim is over: ``job.lost``, 7.1, issue 3."""

import threading

import pytest

from alkstore_django import StopToken
from tests.support.tampering import change_live_row

WAIT_S = 20


def waits_for_loss(queue, seen, **options):
    """Register a handler that runs on until it learns of its loss."""

    @queue.handler(**options)
    def handle(job):
        for _ in range(int(WAIT_S / 0.01)):
            if job.lost:
                break
            threading.Event().wait(0.01)
        seen.append(job.lost)

    return handle


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
        for _ in range(int(WAIT_S / 0.01)):
            if job.lost:
                break
            threading.Event().wait(0.01)
        seen.append(job.lost)
        if how == "reclaimed":
            queue.cancel(job.id)

    queue.enqueue(None)
    tally = work(queue, heartbeat_interval_s=0.05)
    assert seen == [True]
    assert str(tally) == "acked=0 retried=0 died=0 given_back=0 lost=1"
    assert [sent["operation"] for sent in events.of("claim_lost")] == ["heartbeat"]


def test_after_its_time(make_queue, work):
    """7.1 timeout_s is over."""
    queue = make_queue(backoff_base_s=600)
    seen = []
    waits_for_loss(queue, seen, timeout_s=0.1)
    queue.enqueue(None)
    assert work(queue).count("retried") == 1
    assert seen == [True]


def test_after_it_was_given_back(make_queue, work):
    """7.4 The worker stops, and the grace is over."""
    queue = make_queue()
    stop = StopToken()
    seen = []
    waits_for_loss(queue, seen)

    queue.enqueue(None)
    threading.Timer(0.2, stop.stop).start()
    assert work(queue, drain=False, stop=stop, shutdown_timeout_s=0).count("given_back") == 1
    assert seen == [True]


def test_not_otherwise(make_queue, work):
    """7.1 A job whose claim is held says no, also after renewals."""
    queue = make_queue()
    seen = []

    @queue.handler
    def handle(job):
        threading.Event().wait(0.15)
        seen.append(job.lost)

    queue.enqueue(None)
    assert work(queue, heartbeat_interval_s=0.03).count("acked") == 1
    assert seen == [False]
