"""The pipes between a supervisor and its processes, and who listens to them: 7.4."""

import os
import threading

import pytest

from alkstore_django import StopToken
from alkstore_django.worker.channel import STOP, STOP_NOW, ChildEnd, ParentEnd, Report, open_channel
from alkstore_django.worker.supervised import OrderListener

WAIT_S = 20


@pytest.fixture
def channel():
    """Both ends in one process."""
    parent, child = open_channel()
    yield parent, child
    for end in (parent, child):
        try:
            end.close()
        except OSError:
            assert end.__class__ in (ParentEnd, ChildEnd)  # the test has closed it


@pytest.fixture
def listen(channel):
    """Listen to the orders of the channel: ``listen(grace_s) -> (listener, stop, stop_now)``."""
    made = []

    def start(grace_s=1000):
        stop, stop_now = StopToken(), StopToken()
        made.append(OrderListener(channel[1].orders_fd, stop, stop_now, grace_s))
        return made[-1], stop, stop_now

    yield start
    for listener in made:
        listener.close()


def test_the_last_report_counts(channel):
    """7.1 The supervisor reads the latest of all reports, however many have come."""
    parent, child = channel
    assert parent.last_report() == Report()
    for n in range(3):
        child.report(Report({"jobs": {"acked": n}}, float(n)))
    assert parent.last_report() == Report({"jobs": {"acked": 2}}, 2.0)
    child.report_last(Report({"jobs": {"acked": 9}}, 9.0, "drained"))
    assert parent.last_report().end == "drained"
    assert parent.last_report().end == "drained"  # nothing new has come: it still stands


def test_a_full_pipe_never_blocks_the_worker(channel):
    """7.1 While nobody reads, reports are left out; the last one comes through when there is room."""
    parent, child = channel
    report = Report({f"queue {n}": {"acked": n} for n in range(200)}, 1.0)
    for _ in range(100):
        child.report(report)  # far more than a pipe holds
    child.report_last(Report(end="stopped"), within_s=0)
    assert parent.last_report() == report
    child.report_last(Report(end="drained"), within_s=0)
    assert parent.last_report().end == "drained"


def test_a_reader_that_is_gone(channel):
    """7.4 Reports to a dead supervisor hurt nobody, and orders to a dead process neither."""
    parent, child = channel
    parent.close()
    child.report(Report())
    child.report_last(Report(end="stopped"))
    other_parent, other_child = open_channel()
    other_child.close()
    other_parent.order(STOP)
    assert other_parent.last_report() == Report()
    other_parent.close()


def test_a_stray_write(channel):
    """7.4 What a handler wrote into the pipe by mistake ends nothing."""
    parent, child = channel
    child.report(Report(beat_at=5.0))
    parent.last_report()
    for stray in (b"hello\n", b'{"other": 1}\n', b"[1]\n", b"\xff\n"):
        os.write(child.reports_fd, stray)
        assert parent.last_report().beat_at == 5.0


def test_orders_become_stops(channel, listen):
    """7.4 One order stops, the other one ends the grace."""
    listener, stop, stop_now = listen()
    assert not listener.was_asked
    channel[0].order(STOP)
    assert stop.wait(WAIT_S)
    assert listener.was_asked and not stop_now.stopped
    channel[0].order(STOP)
    assert not stop_now.wait(0.05)
    channel[0].order(STOP_NOW)
    assert stop_now.wait(WAIT_S)


def test_the_death_of_the_supervisor_is_a_stop(channel, listen, caplog):
    """7.4 When the supervisor's end is closed, by whatever death, the process stops with grace."""
    _, stop, stop_now = listen()
    channel[0].close()
    assert stop.wait(WAIT_S)
    assert not stop_now.stopped
    assert caplog.text.count("Supervisor is gone") == 1


def test_the_grace_ends_by_the_clock(channel, listen):
    """7.4 When the grace period is over what runs is given back."""
    _, stop, stop_now = listen(grace_s=0)
    channel[0].order(STOP)
    assert stop_now.wait(WAIT_S) and stop.stopped


def test_own_signals_are_orders_too(listen):
    """7.4 A signal that reaches the process itself does what an order does."""
    listener, stop, stop_now = listen()
    listener.ask()
    assert stop.wait(WAIT_S) and not stop_now.stopped
    listener.ask_now()
    assert stop_now.wait(WAIT_S)


def test_nothing_is_heard_after_the_end(channel):
    """7.4 A signal after the end writes into no pipe, whose number may be another file's by then."""
    stop = StopToken()
    listener = OrderListener(channel[1].orders_fd, stop, StopToken(), 0)
    listener.close()
    listener.ask()
    listener.ask_now()
    assert not stop.stopped
    assert not [t for t in threading.enumerate() if t.name == "alkstore-orders"]
