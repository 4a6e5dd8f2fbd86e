"""Everything behind a PgBouncer in transaction mode: FIELD's pgbouncer. PostgreSQL only."""

import os
import signal
import time
from contextlib import ExitStack

import pytest
from django.db import connections

from alkstore_django import schedule
from alkstore_django.engines.registry import engine_for
from tests.concurrency.another_route import environ
from tests.support.pgbouncer import pgbouncer
from tests.support.processes import started_python
from tests.support.rows import count_dead, count_live, live_rows
from tests.support.waiting import eventually

pytestmark = pytest.mark.parametrize("alias", ["postgres"], indirect=True)

POOL_SIZE = 2

SUITE = """
import sys
import django
django.setup()
from django.db import transaction
from alkstore_django import Queue
from alkstore_django.engines.registry import engine_for

name, hot = sys.argv[1:]
queue = Queue(name, using="postgres", max_attempts=3)


def suite():
    ids = [queue.enqueue({"n": n}) for n in range(11)]
    handles = queue.claim_batch("w", 20)
    assert [handle.job.id for handle in handles] == ids
    first, second, third, fourth, *rest = handles
    assert first.heartbeat(60) and first.ack() and not first.ack()
    assert second.retry("later", delay=600) and not second.ack()
    assert third.fail("no use") and queue.get_job(ids[2]).state == "dead"
    assert fourth.ack() and queue.get_job(ids[3]) is None
    assert queue.ack_batch(rest) == len(rest)
    assert queue.cancel(ids[1]) and not queue.cancel(ids[1])
    assert queue.claim_one("w") is None
    assert queue.sweep_expired().expired == 0


def in_transactions():
    with transaction.atomic(using="postgres"):
        kept = queue.enqueue("kept")
        queue.enqueue_many(["kept, too"] * 2)
    with transaction.atomic(using="postgres"):
        queue.enqueue("undone")
        transaction.set_rollback(True, using="postgres")
    with transaction.atomic(using="postgres"):
        handles = queue.claim_batch("w", 9)
        assert len(handles) == 3 and handles[0].job.id == kept
        assert queue.ack_batch(handles) == 3


print("ready", flush=True)
sys.stdin.readline()
for turn in range(10):
    if hot == "as a worker does":
        with engine_for("postgres").hot_path():
            suite()
    else:
        suite()
        in_transactions()
print("done", flush=True)
"""


def stop(worker):
    """End a worker, which has seen nothing of the pool's doings."""
    worker.terminate()
    worker.wait()
    assert "Traceback" not in worker.stderr, worker.stderr
    assert "Database lost" not in worker.stderr, worker.stderr


@pytest.mark.parametrize("how", ["as requests do", "as a worker does"])
def test_every_operation_from_many_processes(alias, how):
    """FR-040 Eight processes share two connections: every operation does what it does directly,
    also where statements are prepared."""
    with pgbouncer(pool_size=POOL_SIZE) as bouncer, ExitStack() as stack:
        env = environ(bouncer.route)
        children = [
            stack.enter_context(started_python(["-c", SUITE, f"suite-{number}", how], env=env))
            for number in range(8)
        ]
        for child in children:
            child.wait_for_line("ready")
        for child in children:
            child.say("go")
        for child in children:
            child.wait()
            assert not child.stderr, child.stderr
    assert (count_live(alias), count_dead(alias)) == (0, 8 * 10)


def test_a_worker_that_listens_directly(alias, queues, start_worker, notes):
    """FR-040 6.2 The pool for all but LISTEN, which has an alias past it: wakes come at once."""
    with pgbouncer(pool_size=POOL_SIZE) as bouncer:
        env = environ(bouncer.route, LISTEN={"ALIAS": "direct"})
        options = ("--queue", "plain", "--poll-interval", "60", "--threads", "4")
        with start_worker(*options, env=env) as worker:
            worker.wait_for_line("serves")
            time.sleep(1)
            for turn in range(1, 6):
                enqueued_at = time.monotonic()
                queues["plain"].enqueue(None)
                eventually(lambda turn=turn: len(notes("plain")) == turn, within_s=5)
                assert time.monotonic() - enqueued_at < 1
            stop(worker)


@pytest.mark.parametrize(
    ("store", "options"),
    [({"LISTEN": {"ALIAS": "direct"}}, ()), ({"NOTIFY": False}, ("--poll-interval", "0.2"))],
    ids=["listens directly", "polls only"],
)
def test_workers_behind_the_pool(alias, queues, start_worker, notes, store, options):
    """FR-040 7.1 7.2 Worker processes of all kinds share two connections: each job is done, no
    effect is there twice, no error is seen, however the pool mixes up their sessions."""
    with pgbouncer(pool_size=POOL_SIZE) as bouncer, ExitStack() as stack:
        env = environ(bouncer.route, **store)
        workers = [
            stack.enter_context(start_worker(*kind, *options, env=env))
            for kind in [("--threads", "3"), ("--threads", "2", "--processes", "2"), ()]
        ]
        for worker in workers:
            worker.wait_for_line("serves")
        atomic, plain = [], []
        for _ in range(10):  # so that claims find little, and much
            atomic += queues["ledger"].enqueue_many([0] * 40)
            plain += queues["plain"].enqueue_many([None] * 40)
            retried = queues["trip"].enqueue("once more")
            time.sleep(0.2)
        eventually(lambda: count_live(alias) == 0, within_s=60)
        for worker in workers:
            stop(worker)
    assert notes("ledger") == sorted(f"ledger {job_id}" for job_id in atomic)
    assert notes("plain") == sorted(f"plain {job_id}" for job_id in plain)
    assert f"attempt 1 {retried}" in notes("attempt")
    assert count_dead(alias) == 0


def test_a_pool_that_cuts_its_clients_off(alias, queues, start_worker, notes):
    """FR-040 7.4 The pool throws all its clients out: the worker connects anew, nothing is lost."""
    with pgbouncer(pool_size=POOL_SIZE) as bouncer:
        env = environ(bouncer.route, LISTEN={"ALIAS": "direct"})
        with start_worker("--queue", "ledger", env=env) as worker:
            ids = queues["ledger"].enqueue_many([0.01] * 200)
            eventually(lambda: len(notes("ledger")) > 20)
            name = connections[alias].settings_dict["NAME"]
            with bouncer.connect("pgbouncer") as console:
                console.execute(f"KILL {name}")
                console.execute(f"RESUME {name}")
            eventually(lambda: count_live(alias) == 0)
            worker.terminate()
            worker.wait()
            assert "Database lost" in worker.stderr
    assert notes("ledger") == sorted(f"ledger {job_id}" for job_id in ids)


def test_two_schedulers_behind_the_pool(alias):
    """FR-042 4.4 The leader frozen beyond its lease: the other leads, and what the first one still
    asks for is refused; each boundary is fired once, though they share their sessions."""
    code = (
        "from django.core.management import execute_from_command_line as run\n"
        "run(['m', 'alkstore_schedules', '--database', 'postgres'])"
    )
    schedule("s", "@every 1s", "fired", None, using=alias)
    with pgbouncer(pool_size=POOL_SIZE) as bouncer:
        store = {"LEASE_S": 3, "POLL_INTERVAL_S": 0.2, "LISTEN": {"ALIAS": "direct"}}
        env = environ(bouncer.route, **store)
        with (
            started_python(["-c", code], env=env) as first,
            started_python(["-c", code], env=env) as second,
        ):
            eventually(lambda: any("Leading" in child.stdout for child in (first, second)))
            leader, other = sorted((first, second), key=lambda child: "Leading" not in child.stdout)
            other.wait_for_line("standing by")
            os.kill(leader.pid, signal.SIGSTOP)
            other.wait_for_line("Leading")
            os.kill(leader.pid, signal.SIGCONT)
            leader.wait(code=1)
            assert "leadership of '__alkstore_scheduler' was lost" in leader.stderr
            fired = count_live(alias)
            eventually(lambda: count_live(alias) > fired + 1)
            stop(other)
    (line,) = engine_for(alias).schedules.audit()
    boundaries = [row["run_at"] for row in live_rows(alias)]
    assert line.adds_up and len(boundaries) == len(set(boundaries)) == line.n_fired
