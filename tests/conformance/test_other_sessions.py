"""Beside other sessions: rows that are held, and enqueues in every order (3.3, 3.13)."""

import itertools
import threading

import pytest
from django.db import connections, transaction

from tests.support.rows import count_live
from tests.support.tampering import held_elsewhere


def test_a_sweep_passes_over_held_rows(alias, clock, make_queue):
    """3.13 FR-096 A sweep waits for no row that another session holds: it does the rest, and
    the next sweep does that one."""
    queue = make_queue()
    held, free = queue.enqueue_many([None, None], expires=10)
    assert len(queue.claim_batch("w", 2)) == 2
    clock.advance(10)
    with held_elsewhere(alias, held):
        first = queue.sweep_expired()
        assert queue.get_job(free).state == "dead"
    assert first.expired + queue.sweep_expired().expired == 2
    assert queue.get_job(held).state == "dead"


@pytest.mark.parametrize("budget", [1, 2], ids=["spent", "attempts left"])
def test_a_claim_passes_over_held_rows(alias, clock, make_queue, budget):
    """3.3 FR-096 A claim waits for no row that another session holds, neither a lapsed one
    to reclaim nor a spent one to bury."""
    queue = make_queue(visibility_timeout_s=10, max_attempts=budget)
    held = queue.enqueue(None)
    assert queue.claim_one("w") is not None
    clock.advance(10)
    free = queue.enqueue(None)
    with held_elsewhere(alias, held):
        first = queue.claim_batch("w", 5)
    assert free in [handle.job.id for handle in first]
    claimed = [handle.job.id for handle in first + queue.claim_batch("w", 5)]
    assert sorted(claimed) == ([free] if budget == 1 else [held, free])


def test_enqueues_in_every_order(alias, clock, make_queue):
    """FR-098 Transactions that enqueue to the same queues in different orders never deadlock:
    no row is common to them."""
    queues = [make_queue(name) for name in ("a", "b", "c")]
    errors = []

    def enqueue(order):
        try:
            with transaction.atomic(using=alias):
                for place in order:
                    queues[place].enqueue(place)
        except Exception as error:
            errors.append(error)
        finally:
            connections[alias].close()

    orders = list(itertools.permutations(range(3))) * 3
    threads = [threading.Thread(target=enqueue, args=[order]) for order in orders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert count_live(alias) == 54
