"""Exactly-once effects whatever happens to the workers: 7.1, 7.2, 7.4, issue 3."""

import random
import signal
import time
from collections import Counter

import pytest
from django.db import connections

from alkstore_django.engines.registry import engine_for
from tests.concurrency.havoc import Havoc
from tests.support.rows import count_dead, count_live
from tests.support.waiting import eventually

SEED = 20261129
RAGE_S = 15


@pytest.fixture(autouse=True)
def new_connection(alias):
    """A server that was restarted has cut the test's connection."""
    yield
    connections[alias].close()


def drained(alias, start_worker, queue):
    """Let a worker without troubles do what is left, as it lapses."""
    with start_worker("--queue", queue, "--threads", "4") as worker:
        worker.wait_for_line("serves")
        eventually(lambda: count_live(alias) == 0, within_s=60)
        worker.terminate()
        worker.wait()


def test_every_effect_exactly_once(alias, queues, start_worker, notes):
    """7.2 7.4 Issue 3: workers are killed, paused beyond their deadlines, sent away, cut off and
    left without a server: each job's effect is there once, none is missing, none is left."""
    nap = 0.03 if engine_for(alias).supports_parallel_writers else 0.003
    ids = queues["ledger"].enqueue_many([nap] * 2_000)
    havoc = Havoc(alias, start_worker, "ledger", 3, random.Random(SEED))
    havoc.rage(RAGE_S)
    assert havoc.done["kill"] and havoc.done["pause"]
    drained(alias, start_worker, "ledger")
    assert notes("ledger") == sorted(f"ledger {job_id}" for job_id in ids)
    assert (count_live(alias), count_dead(alias)) == (0, 0)


def test_plain_effects_at_least_once(alias, queues, start_worker, notes):
    """7.1 7.4 Issue 3: without atomic=True every job has run, some perhaps more than once."""
    ids = queues["trip"].enqueue_many([None] * 1_500, max_attempts=50)
    Havoc(alias, start_worker, "trip", 2, random.Random(SEED)).rage(RAGE_S / 2)
    drained(alias, start_worker, "trip")
    assert {int(text.split()[-1]) for text in notes("attempt")} == set(ids)
    assert (count_live(alias), count_dead(alias)) == (0, 0)


@pytest.mark.parametrize("fence", [True, False], ids=["fenced", "fence-out"])
@pytest.mark.parametrize("alias", ["postgres"], indirect=True)
def test_a_worker_that_wakes_up_too_late(alias, queues, start_worker, notes, fence):
    """3.5 7.2 Issue 3: a worker that was stopped beyond its deadline commits nothing twice. With
    the fence taken out the ledger tells: each paused job is there twice."""
    env = {} if fence else {"WITHOUT_FENCE": "1"}
    ids = queues["ledger"].enqueue_many([1.0] * 4)
    options = ("--queue", "ledger", "--threads", "4")
    with start_worker(*options, env=env) as paused:
        eventually(lambda: count_processing(alias) == 4)
        time.sleep(0.3)  # the handlers have begun
        paused.popen.send_signal(signal.SIGSTOP)
        with start_worker(*options, env=env) as other:
            eventually(lambda: len(notes("ledger")) == 4, within_s=30)
            paused.popen.send_signal(signal.SIGCONT)
            time.sleep(2)
            for worker in (paused, other):
                worker.terminate()
                worker.wait()
    times = Counter(notes("ledger"))
    expected = 1 if fence else 2
    assert times == Counter({f"ledger {job_id}": expected for job_id in ids})
    assert ("claim lost" in paused.stderr) is fence
    assert count_live(alias) == 0


def count_processing(alias):
    """Return how many jobs are claimed."""
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT count(*) FROM alkstore.job WHERE state = 'processing'")
        return cursor.fetchone()[0]
