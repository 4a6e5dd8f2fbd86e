"""Wakes between processes: 6.1 to 6.4."""

import time

from django.db import transaction

from alkstore_django.engines.registry import engine_for
from tests.support.processes import started_python
from tests.support.rows import count_live
from tests.support.transactions import rolled_back
from tests.support.waiting import eventually

LISTENER = """
import time
from alkstore_django import Queue
queue = Queue("plain", using={alias!r})
with queue.listen() as listener:
    print("listening", flush=True)
    while True:
        woken = listener.wait(60)
        print("woken" if woken else "timed out", time.time(), flush=True)
"""
QUIET_S = 0.4


def assert_no_line(child, seconds):
    time.sleep(seconds)
    assert "woken" not in child.stdout, child.stdout


def test_a_listener_in_another_process(alias, queues):
    """6.4 A waiting listen() of another process is woken within milliseconds of the commit."""
    queue = queues["plain"]
    delays = []
    with started_python(LISTENER.format(alias=alias)) as listener:
        listener.wait_for_line("listening")
        for _ in range(10):
            time.sleep(0.05)
            with transaction.atomic(using=alias):
                queue.enqueue(None)
            committed_at = time.time()
            delays.append(float(listener.wait_for_line("woken", 10).split()[1]) - committed_at)
    delays.sort()
    assert delays[-1] < 1, delays
    assert delays[len(delays) // 2] < 0.1, delays


def test_what_is_rolled_back_wakes_nobody(alias, queues):
    """6.2 3.1 A rolled-back savepoint leaves nothing and wakes nobody; a committed one does both.

    On SQLite any commit may wake anyone: there the commit around it is left out.
    """
    queue = queues["plain"]
    with started_python(LISTENER.format(alias=alias)) as listener:
        listener.wait_for_line("listening")
        with rolled_back(alias):
            queue.enqueue(None)
        if engine_for(alias).supports_parallel_writers:
            with transaction.atomic(using=alias), rolled_back(alias):
                queue.enqueue(None)
        assert_no_line(listener, QUIET_S)
        assert count_live(alias) == 0
        with transaction.atomic(using=alias):
            with rolled_back(alias):
                queue.enqueue("undone")
            with transaction.atomic(using=alias):
                queue.enqueue("done")
            assert_no_line(listener, QUIET_S)
        listener.wait_for_line("woken", 1)
    assert count_live(alias) == 1


def test_a_worker_on_its_wake_alone(alias, queues, start_worker, notes):
    """6.1 7.1 A worker in another process handles a job on its wake, the re-poll a minute away."""
    with start_worker("--queue", "plain", "--poll-interval", "60") as worker:
        worker.wait_for_line("serves")
        time.sleep(1)
        for turn in range(1, 6):
            enqueued_at = time.monotonic()
            queues["plain"].enqueue(None)
            eventually(lambda turn=turn: len(notes("plain")) == turn, within_s=5)
            assert time.monotonic() - enqueued_at < 1
        worker.terminate()
        worker.wait()


def test_found_without_any_wake(alias, queues, start_worker):
    """6.1 FR-050 A job that no wake told of is found by the re-poll."""
    with start_worker("--queue", "plain", "--poll-interval", "0.5") as worker:
        worker.wait_for_line("serves")
        time.sleep(1)
        queues["plain"].enqueue(None, delay=1)  # nobody is told of it, now or later
        eventually(lambda: count_live(alias) == 0, within_s=4)
        worker.terminate()
        worker.wait()


def test_jobs_enqueued_before_the_start(alias, queues, start_worker):
    """FR-019 A worker handles old jobs within two seconds of its start, the re-poll a minute away."""
    queues["plain"].enqueue_many([None] * 3)
    with start_worker("--queue", "plain", "--poll-interval", "60") as worker:
        worker.wait_for_line("serves")
        eventually(lambda: count_live(alias) == 0, within_s=2)
        worker.terminate()
        worker.wait()


FORKING = """
import os, signal
from alkstore_django import Queue
queue = Queue("plain", using={alias!r})
with queue.listen() as listener:
    queue.enqueue("before")
    listener.wait(10)
    child = os.fork()
    signal.alarm(30)  # who waits for an answer that the other has read dies of it
    for turn in range(100):
        queue.enqueue([turn, child == 0])
    if child == 0:
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status == 0, status
    while listener.wait(0.2):
        pass
    queue.enqueue("after")
    assert listener.wait(10), "the parent's listener is deaf"
print("done", os.getpid())
"""


def test_a_fork_after_use(alias, queues):
    """FR-104 After a fork parent and child both enqueue: no error, no row lost, listener unharmed."""
    with started_python(FORKING.format(alias=alias)) as parent:
        parent.wait()
        assert "Error" not in parent.stderr
    handles = queues["plain"].claim_batch("w", 500)
    payloads = [handle.job.payload for handle in handles]
    assert sorted(p for p in payloads if isinstance(p, list)) == sorted(
        [turn, child] for turn in range(100) for child in (False, True)
    )
    assert len(payloads) == 202
