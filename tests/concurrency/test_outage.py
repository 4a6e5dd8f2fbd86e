"""The server goes away under a worker, and comes back: 7.4. PostgreSQL only: a file does not."""

import threading
import time

import pytest
from django.db import connections, transaction

from alkstore_django import signals
from alkstore_django.handlers import handlers_on
from alkstore_django.models import Job
from alkstore_django.worker.loop import Worker
from alkstore_django.worker.options import WorkerOptions
from tests.support import ground
from tests.support.rows import count_dead, count_live
from tests.support.waiting import eventually

pytestmark = pytest.mark.parametrize("alias", ["postgres"], indirect=True)

TERMINATE_OTHERS = (
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
)


@pytest.fixture(autouse=True)
def new_connection(alias):
    """The test's own connection may have been cut, too; what comes after it gets a new one."""
    yield
    connections[alias].close()


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_restart_under_a_draining_worker(alias, queues, start_worker, notes, mode):
    """7.4 The server restarted under a draining worker: it goes on, and nothing is lost.

    A handler that the restart interrupts has failed: its retry may be due after the drain.
    """
    ids = queues["ledger"].enqueue_many([0.01] * 300)
    with start_worker("--queue", "ledger", "--threads", "2", "--drain") as worker:
        eventually(lambda: len(notes("ledger")) > 20)
        connections[alias].close()
        ground.postgres().restart(mode)
        worker.wait(60)
        assert "Database lost" in worker.stderr
        assert "Database restored" in worker.stderr
    assert count_live(alias) <= 4
    with start_worker("--queue", "ledger") as worker:
        worker.wait_for_line("serves")
        eventually(lambda: count_live(alias) == 0)
        worker.terminate()
        worker.wait()
    assert notes("ledger") == sorted(f"ledger {job_id}" for job_id in ids)
    assert (count_live(alias), count_dead(alias)) == (0, 0)


def test_a_server_that_stays_away_for_a_while(alias, queues, start_worker, notes):
    """7.4 FR-046 An idle worker waits for the server without spinning, and hears wakes again after."""
    with start_worker("--queue", "plain", "--poll-interval", "60") as worker:
        worker.wait_for_line("serves")
        queues["plain"].enqueue(None)
        eventually(lambda: count_live(alias) == 0)
        connections[alias].close()
        server = ground.postgres()
        server.stop("fast")
        spent = cpu_seconds(worker.pid)
        time.sleep(3)
        assert cpu_seconds(worker.pid) - spent < 0.3
        server.start_again()
        eventually(lambda: "Wake restored" in worker.stderr, within_s=15)
        queues["plain"].enqueue(None)
        eventually(lambda: len(notes("plain")) == 2, within_s=10)
        worker.terminate()
        worker.wait()
        assert "Traceback" not in worker.stderr


def test_a_start_without_a_server(alias, queues, start_worker):
    """7.4 A worker that starts while the server is away waits for it, and heeds a stop meanwhile."""
    server = ground.postgres()
    connections[alias].close()
    server.stop("fast")
    try:
        with (
            start_worker("--queue", "plain") as stopped,
            start_worker("--queue", "plain") as worker,
        ):
            eventually(lambda: "Database lost" in stopped.stderr)
            stopped.terminate()
            stopped.wait(20)
            eventually(lambda: "Database lost" in worker.stderr)
            server.start_again()
            queues["plain"].enqueue(None)
            eventually(lambda: count_live(alias) == 0)
            worker.terminate()
            worker.wait()
    finally:
        connections[alias].close()
        server.restart("fast")


def test_a_stop_while_the_server_is_away(alias, queues, start_worker):
    """7.4 A stop ends the worker with 0 though its database is away; what it ran lapses."""
    server = ground.postgres()
    job_id = queues["stubborn"].enqueue(None)
    with start_worker("--queue", "stubborn", "--shutdown-timeout", "0.5") as worker:
        worker.wait_for_line("begun")
        connections[alias].close()
        server.stop("fast")
        try:
            worker.terminate()
            worker.wait(20)
            assert "Traceback" not in worker.stderr
        finally:
            server.start_again()
    assert queues["stubborn"].get_job(job_id).attempts == 1


def test_an_ack_whose_connection_was_cut(alias, make_queue, caplog):
    """FR-032 An ack that fails with its connection is tried again on a new one: one run, no loss."""
    queue = make_queue("cut", visibility_timeout_s=30)
    runs = []

    @queue.handler
    def handle(job):
        runs.append(job.id)
        with connections[alias].cursor() as cursor:
            cursor.execute(TERMINATE_OTHERS)

    ids = queue.enqueue_many([None] * 3)
    options = WorkerOptions(threads=1, drain=True)
    tally = Worker(Job.objects.db_manager(alias), [handlers_on(alias)["cut"]], options).run()
    assert sorted(runs) == ids
    assert tally.count("acked") == 3
    assert count_live(alias) == 0
    assert "Database lost" in caplog.text


def test_a_server_that_refuses_writes(alias, queues, start_worker, notes):
    """FR-035 A database that turned read-only is waited for; jobs are handled when it is writable."""
    name = connections[alias].settings_dict["NAME"]

    def set_read_only(value):
        with connections[alias].cursor() as cursor:
            cursor.execute("SET default_transaction_read_only = off")
            cursor.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = {value}')
            cursor.execute(TERMINATE_OTHERS)
        connections[alias].close()

    queues["plain"].enqueue_many([None] * 5)
    set_read_only("on")
    try:
        with start_worker("--queue", "plain") as worker:
            eventually(lambda: "Database lost" in worker.stderr)
            assert notes("plain") == []
            set_read_only("off")
            eventually(lambda: count_live(alias) == 0, within_s=15)
            worker.terminate()
            worker.wait()
            assert "Traceback" not in worker.stderr
    finally:
        set_read_only("off")
    assert len(notes("plain")) == 5


def test_a_statement_that_is_cancelled(alias, queues, start_worker, notes):
    """7.4 A statement of the worker's that an administrator cancels, or a time limit ends, is tried
    again; it is no reason to exit."""
    waiting = (
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
        " AND wait_event_type = 'Lock' AND query LIKE '%%alkstore:%%'"
    )

    def cancel(cursor):
        cursor.execute("SELECT pg_stat_clear_snapshot()")
        cursor.execute(f"SELECT count(pg_cancel_backend(pid)) FROM ({waiting}) AS found")
        return cursor.fetchone()[0]

    with start_worker("--queue", "plain", "--poll-interval", "0.1") as worker:
        worker.wait_for_line("serves")
        with transaction.atomic(using=alias), connections[alias].cursor() as cursor:
            cursor.execute("LOCK TABLE alkstore.job IN ACCESS EXCLUSIVE MODE")
            eventually(lambda: cancel(cursor))
        queues["plain"].enqueue(None)
        eventually(lambda: count_live(alias) == 0 or worker.popen.poll() is not None)
        assert worker.popen.poll() is None, worker.stderr
        worker.terminate()
        worker.wait()
        assert "Traceback" not in worker.stderr


def test_a_receiver_of_a_lost_wake_that_raises(alias, make_queue, caplog):
    """7.7 6.2 What a receiver of wake_lost raises does not end the listening."""
    restored = threading.Event()

    def broken(sender, **sent):
        raise RuntimeError("a broken receiver")

    def note(sender, **sent):
        restored.set()

    queue = make_queue()
    signals.wake_lost.connect(broken)
    signals.wake_restored.connect(note)
    try:
        with queue.listen() as listener:
            with connections[alias].cursor() as cursor:
                cursor.execute(TERMINATE_OTHERS)
            assert restored.wait(20)
            assert listener.wait(20)  # it rings once for what it may have missed
            queue.enqueue(None)
            assert listener.wait(1)
    finally:
        signals.wake_lost.disconnect(broken)
        signals.wake_restored.disconnect(note)


def cpu_seconds(pid):
    """Return the processor time that a process has used."""
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100
