"""The thread that sends what a window held back, on its own: 6.2, issue 3, "Wake"."""

import threading

import pytest

from alkstore_django.engines.postgres.notify import Notifier

WAIT_S = 20


class Outbox:
    """Takes what is sent, and fails as told; ``closed`` counts the connections given back."""

    def __init__(self):
        self.sent = []
        self.closed = threading.Semaphore(0)
        self.fails_with = None
        self.own_thread = threading.get_ident()
        self.by_thread = threading.Semaphore(0)

    def send(self, queue):
        self.sent.append(queue)
        if threading.get_ident() != self.own_thread:
            self.by_thread.release()
            if self.fails_with is not None:
                raise self.fails_with

    def close(self):
        self.closed.release()


@pytest.fixture
def outbox():
    """Where the notifier sends to."""
    return Outbox()


@pytest.fixture
def notifier(outbox):
    """A notifier; its thread is gone when the test is over."""
    made = Notifier(outbox.send, lambda: outbox)
    yield made
    if made._thread is not None:
        made._thread.join(WAIT_S)


def test_the_first_at_once_the_rest_as_one(notifier, outbox):
    """6.2 Issue 3: ten within a window are two: one now, one at its end."""
    for _ in range(10):
        notifier.notify("jobs")
    assert outbox.by_thread.acquire(timeout=WAIT_S)
    assert outbox.sent == ["jobs"] * 2


def test_its_connection_is_closed_with_the_burst(notifier, outbox):
    """6.2 FR-106 The thread ends a moment after the burst, and closes its connection."""
    notifier.notify("jobs")
    notifier.notify("jobs")
    assert outbox.closed.acquire(timeout=WAIT_S)
    assert notifier._thread is None


def test_a_lone_commit_starts_no_thread(notifier, outbox):
    """6.2 Issue 3: who enqueues now and then pays for no thread and no second connection."""
    notifier.notify("jobs")
    notifier.notify("other")
    assert outbox.sent == ["jobs", "other"]
    assert notifier._thread is None


def test_flush_sends_what_is_held_back_once(notifier, outbox):
    """6.2 Issue 3: the end of the process sends what is left, and the thread not again."""
    for _ in range(3):
        notifier.notify("jobs")
    notifier.flush()
    notifier.flush()
    assert outbox.sent == ["jobs"] * 2
    assert outbox.closed.acquire(timeout=WAIT_S)
    assert outbox.sent == ["jobs"] * 2


def test_a_failure_in_the_thread_ends_no_later_wake(notifier, outbox):
    """6.2 Issue 3: whatever goes wrong once, what the next window holds back is sent again."""
    outbox.fails_with = RuntimeError("forbidden here")
    notifier.notify("jobs")
    notifier.notify("jobs")
    assert outbox.closed.acquire(timeout=WAIT_S)
    outbox.fails_with = None
    assert outbox.by_thread.acquire(timeout=WAIT_S)
    notifier.notify("later")
    notifier.notify("later")
    assert outbox.by_thread.acquire(timeout=2)
    assert outbox.sent[-2:] == ["later"] * 2
