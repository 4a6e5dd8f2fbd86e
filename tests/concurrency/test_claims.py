"""Many claimants at once: 3.3, 3.7, 3.11, 3.13."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from django.db import connections

from alkstore_django.engines.registry import engine_for
from alkstore_django.testing import frozen_time
from tests.support.processes import started_python
from tests.support.rows import count_dead, count_live

CLAIMANT = """
import sys
from alkstore_django import Queue
queue = Queue("jobs", using={alias!r})
print("ready", flush=True)
sys.stdin.readline()
while True:
    handles = queue.claim_batch({worker!r}, {n})
    if not handles:
        break
    for handle in handles:
        print("claimed", handle.job.id, flush=True)
        assert {acks} == handle.ack() or not {acks}
print("done", flush=True)
"""


def claimed_by_each(alias, *, processes, n=1, acks=True):
    """Let processes claim at the same moment until nothing is ready; return their claims."""
    with ExitStack() as stack:
        children = [
            stack.enter_context(
                started_python(CLAIMANT.format(alias=alias, worker=f"w{number}", n=n, acks=acks))
            )
            for number in range(processes)
        ]
        for child in children:
            child.wait_for_line("ready")
        for child in children:
            child.say("go")
        for child in children:
            child.wait()
        return [
            [int(line.split()[1]) for line in child.stdout.splitlines() if "claimed" in line]
            for child in children
        ]


@pytest.mark.parametrize(("processes", "n"), [(6, 1), (3, 7)])
def test_processes_drain_without_a_double_claim(alias, make_queue, processes, n):
    """3.3 6 processes times 40 jobs: each job is claimed by exactly one of them."""
    queue = make_queue()
    ids = queue.enqueue_many(list(range(processes * 40)))
    claims = claimed_by_each(alias, processes=processes, n=n)
    assert sorted(sum(claims, [])) == ids
    assert count_live(alias) == 0


def test_lapsed_jobs_are_reclaimed_by_one(alias, make_queue):
    """3.3 3.4 Lapsed jobs, too, go to exactly one claimant each, and cost one attempt."""
    queue = make_queue(visibility_timeout_s=1, max_attempts=2)
    with frozen_time(alias, now(alias) - 60):
        ids = queue.enqueue_many([None] * 60)
        assert len(queue.claim_batch("gone", 60)) == 60
    ids += queue.enqueue_many([None] * 60)
    claims = claimed_by_each(alias, processes=4, n=5)
    assert sorted(sum(claims, [])) == ids
    assert (count_live(alias), count_dead(alias)) == (0, 0)


def now(alias):
    """Return the database's present second."""
    return engine_for(alias).clock_us() // 1_000_000


def in_threads(alias, *actions):
    """Run the actions in threads of their own, begun at one moment; return what they returned."""
    start = threading.Barrier(len(actions), timeout=20)

    def act(action):
        connections[alias].ensure_connection()
        try:
            start.wait()
            return action()
        finally:
            connections[alias].close()

    with ThreadPoolExecutor(len(actions)) as pool:
        return [future.result(60) for future in [pool.submit(act, action) for action in actions]]


def test_one_row_and_many_claimants(alias, make_queue):
    """3.3 One ready job and eight claimants: one of them gets it, round after round."""
    queue = make_queue()
    for _ in range(25):
        job_id = queue.enqueue(None)
        handles = in_threads(alias, *[lambda n=n: queue.claim_one(f"w{n}") for n in range(8)])
        [handle] = [handle for handle in handles if handle is not None]
        assert (handle.job.id, handle.job.attempts) == (job_id, 1)
        assert handle.ack()


def test_a_claim_and_its_undoing(alias, clock, make_queue):
    """3.5 3.11 3.13 Of ack, fail, retry, cancel and sweep at one moment exactly one has the job."""
    rounds = 40
    counts = {"ack": 0, "fail": 0, "retry": 0, "cancel": 0, "sweep": 0}
    queue = make_queue()
    for _ in range(rounds):
        job_id = queue.enqueue(None, expires=1)
        handle = queue.claim_one("w")
        clock.advance(1)  # now a sweep may have it, too
        done = in_threads(
            alias,
            handle.ack,
            lambda handle=handle: handle.fail("failed"),
            lambda handle=handle: handle.retry("again", delay=600),
            lambda job_id=job_id: queue.cancel(job_id),
            lambda: queue.sweep_expired().expired == 1,
        )
        won = [name for name, has_won in zip(counts, done, strict=True) if has_won]
        # A job that was put back is still there for a cancel or a sweep that comes after.
        assert len(won) == 1 or (
            len(won) == 2 and "retry" in won and set(won) & {"cancel", "sweep"}
        )
        for name in won:
            counts[name] += 1
        job = queue.get_job(job_id)
        expected = {"ack": None, "cancel": None, "fail": "failed", "sweep": "expired"}
        final = next((name for name in won if name != "retry"), "retry")
        if final == "retry":
            assert job.state == "pending"
            assert queue.cancel(job_id)
        else:
            assert (job and job.last_error) == expected[final]
    assert sum(counts.values()) >= rounds
    assert count_live(alias) == 0
    assert count_dead(alias) == counts["fail"] + counts["sweep"]


def test_batches_in_opposite_order(alias, make_queue):
    """3.7 Batches of the same jobs in opposite order do not deadlock; each job is acked once."""
    queue = make_queue()
    for _ in range(10):
        queue.enqueue_many([None] * 50)
        handles = queue.claim_batch("w", 50)
        ids = [handle.job.id for handle in handles]
        counts = in_threads(
            alias,
            lambda handles=handles: queue.ack_batch(handles),
            lambda handles=handles: queue.ack_batch(handles[::-1]),
            lambda ids=ids: queue.ack_batch(ids[::-1]),
            lambda ids=ids: queue.ack_batch(ids),
        )
        assert sum(counts) == 50
    assert count_live(alias) == 0


def test_sweeps_at_the_same_time(alias, make_queue):
    """3.13 Sweeps may run anywhere at the same time: together they move each job once."""
    queue = make_queue()
    with frozen_time(alias, now(alias) - 60):
        queue.enqueue_many([None] * 2_000, expires=1)
    results = in_threads(alias, *[queue.sweep_expired] * 4)
    left = queue.sweep_expired().expired  # what one passed over while another held it
    assert sum(result.expired for result in results) + left == 2_000
    assert (count_live(alias), count_dead(alias)) == (0, 2_000)


def test_enqueues_over_several_queues_do_not_deadlock(alias, make_queue):
    """FR-098 Transactions that enqueue to several queues in any order do not deadlock."""
    from django.db import transaction

    names = ["a", "b", "c"]

    def enqueue(turn):
        for _ in range(8):
            with transaction.atomic(using=alias):
                for name in names[turn % 3 :] + names[: turn % 3]:
                    make_queue(name).enqueue(None)

    in_threads(alias, *[lambda turn=turn: enqueue(turn) for turn in range(6)])
    assert count_live(alias) == 6 * 8 * 3


def test_acked_in_another_thread(alias, make_queue):
    """FR-106 A handle may be acked in another thread than the one that claimed."""
    queue = make_queue()
    queue.enqueue(None)
    handle = queue.claim_one("w")
    assert in_threads(alias, handle.ack, lambda: None)[0] is True
