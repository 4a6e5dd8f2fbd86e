"""TERM, INT, and kill -9 of real workers: 7.4."""

import os
import random
import signal
import time

import pytest

from tests.support.rows import count_dead, count_live, live_row
from tests.support.waiting import eventually

ROUNDS = int(os.environ.get("ALKSTORE_TEST_SIGNAL_ROUNDS", "6"))
SERVING = "serves"


@pytest.mark.parametrize(
    ("queue", "payload"), [("plain", None), ("ledger", 0)], ids=["plain", "atomic"]
)
def test_a_signal_at_any_moment(alias, queues, start_worker, notes, queue, payload):
    """FR-028 7.4 Stopped at a random moment a worker exits with 0, and no job is lost or burnt.

    ALKSTORE_TEST_SIGNAL_ROUNDS says how many rounds each kind of handler gets.
    """
    ids = queues[queue].enqueue_many([payload] * 150)
    for turn in range(ROUNDS):
        left = count_live(alias)
        if left < 75:
            ids += queues[queue].enqueue_many([payload] * 75)
        number = random.choice([signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
        with start_worker("--queue", queue, "--threads", str(1 + turn % 4)) as worker:
            worker.wait_for_line(SERVING)
            time.sleep(random.uniform(0, 0.3))
            worker.popen.send_signal(number)
            worker.wait(30)
            assert "Traceback" not in worker.stderr
            assert "Worker stopped" in worker.stdout
    handled = notes(queue)
    assert len(handled) == len(set(handled)), "a job ran twice"
    assert len(handled) + count_live(alias) == len(ids)
    assert count_dead(alias) == 0
    for handle in queues[queue].claim_batch("after", len(ids)):
        assert handle.job.attempts == 1  # its first: no stop has burnt any


def test_running_handlers_may_finish(alias, queues, start_worker, notes):
    """7.4 A stop takes no new claims, and waits for what runs, renewed beyond its visibility timeout."""
    ids = queues["slow"].enqueue_many([3.5] * 3)
    with start_worker("--queue", "slow", "--threads", "2") as worker:
        eventually(lambda: len(notes("begun")) == 2)
        worker.terminate()
        worker.wait(30)
    assert len(notes("begun")) == len(notes("ended")) == 2
    assert live_row(alias, ids[2])["attempts"] == 0
    assert count_live(alias) == 1


def test_a_handler_longer_than_the_grace_period(alias, queues, start_worker):
    """7.4 What does not end in time is given back: pending at once, its attempt returned."""
    job_id = queues["stubborn"].enqueue(None)
    before = live_row(alias, job_id)
    with start_worker("--queue", "stubborn", "--shutdown-timeout", "0.5") as worker:
        worker.wait_for_line("begun")
        assert live_row(alias, job_id)["attempts"] == 1
        stopped_at = time.monotonic()
        worker.terminate()
        worker.wait(20)
        assert 0.5 <= time.monotonic() - stopped_at < 10
        assert "given_back=1" in worker.stdout
        assert "Traceback" not in worker.stderr
    assert live_row(alias, job_id) == before
    assert queues["stubborn"].claim_one("next").job.attempts == 1


def test_a_second_signal_ends_the_grace_period(alias, queues, start_worker):
    """7.4 The second TERM gives back at once, however long the grace period is."""
    job_id = queues["stubborn"].enqueue(None)
    before = live_row(alias, job_id)
    with start_worker("--queue", "stubborn", "--shutdown-timeout", "100") as worker:
        worker.wait_for_line("begun")
        worker.terminate()
        time.sleep(0.5)
        assert worker.popen.poll() is None
        assert live_row(alias, job_id)["state"] == "processing"
        worker.terminate()
        worker.wait(20)
    assert live_row(alias, job_id) == before


def test_signals_in_quick_succession(alias, queues, start_worker):
    """7.4 Signals that come on top of each other stop the worker once, with exit code 0."""
    queues["stubborn"].enqueue_many([None] * 4)
    with start_worker("--queue", "stubborn") as worker:
        worker.wait_for_line("begun")
        for number in [signal.SIGTERM, signal.SIGINT, signal.SIGTERM, signal.SIGHUP] * 3:
            if worker.popen.poll() is None:
                worker.popen.send_signal(number)
        worker.wait(20)
        assert "Traceback" not in worker.stderr
    assert [handle.job.attempts for handle in queues["stubborn"].claim_batch("w", 9)] == [1] * 4


def test_a_signal_while_idle(start_worker):
    """7.4 An idle worker heeds a stop within a second, whatever its poll interval."""
    with start_worker("--poll-interval", "60") as worker:
        worker.wait_for_line(SERVING)
        time.sleep(0.5)
        stopped_at = time.monotonic()
        worker.terminate()
        worker.wait_for_line("Worker stopped")
        assert time.monotonic() - stopped_at < 1
        worker.wait()


def test_ignored_signals_stay_ignored(alias, queues, start_worker):
    """7.4 Under nohup, which ignores HUP, a hang-up does not stop the worker."""
    heeded = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with start_worker("--queue", "plain") as worker:
            worker.wait_for_line(SERVING)
            worker.popen.send_signal(signal.SIGHUP)
            queues["plain"].enqueue(None)
            eventually(lambda: count_live(alias) == 0)
            worker.terminate()
            worker.wait()
    finally:
        signal.signal(signal.SIGHUP, heeded)


def test_killed_in_the_middle(alias, queues, start_worker, notes):
    """7.4 FR-025 The jobs of a worker that was killed are finished by another after the deadline."""
    ids = queues["trip"].enqueue_many(["live"] * 5 + ["die"] + ["live"] * 5)
    with start_worker("--queue", "trip", "--threads", "1") as worker:
        worker.wait(code=-signal.SIGKILL)
    assert live_row(alias, ids[5])["state"] == "processing"
    with start_worker("--queue", "trip", "--threads", "1") as worker:
        eventually(lambda: count_live(alias) == 0)
        worker.terminate()
        worker.wait()
    attempts = sorted(notes("attempt"), key=lambda text: (int(text.split()[2]), text))
    once = [f"attempt 1 {job_id}" for job_id in ids]
    assert attempts == sorted(
        [*once, f"attempt 2 {ids[5]}"], key=lambda text: (int(text.split()[2]), text)
    )
    assert count_dead(alias) == 0


def test_exactly_once_under_kill(alias, queues, start_worker, notes):
    """7.2 The effects of atomic handlers happen exactly once, however often workers are killed."""
    ids = queues["ledger"].enqueue_many([0.004] * 300)
    for _ in range(5):
        with start_worker("--queue", "ledger", "--threads", "3") as worker:
            worker.wait_for_line(SERVING)
            time.sleep(random.uniform(0.05, 0.5))
            worker.kill()
    with start_worker("--queue", "ledger", "--threads", "3") as worker:
        eventually(lambda: count_live(alias) == 0, within_s=60)
        worker.terminate()
        worker.wait()
    assert notes("ledger") == sorted(f"ledger {job_id}" for job_id in ids)
    assert count_dead(alias) == 0


def test_a_late_result_of_an_atomic_handler(alias, queues, start_worker, notes):
    """7.1 7.2 An atomic handler that outlives timeout_s leaves nothing: its late result is refused."""
    job_id = queues["late"].enqueue(None)
    with start_worker("--queue", "late") as worker:
        eventually(lambda: live_row(alias, job_id)["state"] == "processing")
        eventually(lambda: (live_row(alias, job_id) or {}).get("state") != "processing")
        worker.terminate()
        worker.wait()
        assert "retried=1" in worker.stdout
    assert live_row(alias, job_id)["attempts"] == 1
    assert notes("late") == []
