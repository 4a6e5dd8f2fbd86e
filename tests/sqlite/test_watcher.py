"""The wake on SQLite: 6.3."""

import threading

import pytest
from django.core.management import call_command
from django.db import OperationalError, connections, transaction

from alkstore_django import Queue
from alkstore_django.engines.registry import engine_for
from alkstore_django.signals import wake_lost
from tests.sqlite.conftest import direct_connection
from tests.support.fresh import fresh_database, migrate
from tests.support.statements import no_sql

PATIENCE_S = 30
NOTHING_S = 0.15


def quiet(listener):
    while listener.wait(NOTHING_S):
        pass


def test_any_commit_may_wake(alias, make_queue):
    """6.3 The watcher sees the commits of connections that know nothing of us."""
    with make_queue().listen() as listener:
        quiet(listener)
        with direct_connection() as connection:
            connection.execute("INSERT INTO testapp_note (text) VALUES ('x')")
        assert listener.wait(PATIENCE_S) is True


def test_an_uncommitted_write_wakes_nobody(alias, make_queue):
    """3.1 6.3 Not before the commit, and not for a rollback."""
    with make_queue().listen() as listener, direct_connection() as connection:
        quiet(listener)
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO testapp_note (text) VALUES ('x')")
        assert listener.wait(NOTHING_S) is False
        connection.execute("ROLLBACK")
        assert listener.wait(NOTHING_S) is False


def test_the_processs_own_enqueue_wakes(alias, make_queue):
    """6.3 FR-133 On the waiter's own connection, outside and inside a transaction."""
    queue = make_queue()
    with queue.listen() as listener:
        quiet(listener)
        queue.enqueue({})
        assert listener.wait(PATIENCE_S) is True
        quiet(listener)
        with transaction.atomic(using=alias):
            queue.enqueue({})
        assert listener.wait(PATIENCE_S) is True


def test_a_database_in_memory_has_the_processs_own_signal(
    django_db_setup, django_db_blocker, monkeypatch
):
    """6.3 A local signal for the process's own writes, where no file can be watched."""
    described = {**connections.settings["sqlite"], "NAME": ":memory:"}
    monkeypatch.setitem(connections.settings, "memory", described)
    with django_db_blocker.unblock():
        try:
            migrate("memory")
            queue = Queue("jobs", using="memory")
            with queue.listen() as listener:
                assert listener.wait(NOTHING_S) is False
                queue.enqueue({})
                assert listener.wait(PATIENCE_S) is True
        finally:
            connections["memory"].connection.close()  # Django keeps one in memory open
            del connections["memory"]


def test_an_open_read_transaction_does_not_hide_commits(alias, make_queue):
    """6.3 FR-133 The watcher's connection is never in the caller's transaction."""
    with make_queue().listen() as listener:
        quiet(listener)
        with connections[alias].cursor() as cursor:
            cursor.execute("BEGIN DEFERRED")
            cursor.execute("SELECT count(*) FROM __alkstore_job")
            cursor.fetchall()
            try:
                with direct_connection() as connection:
                    connection.execute("INSERT INTO testapp_note (text) VALUES ('x')")
                assert listener.wait(PATIENCE_S) is True
            finally:
                cursor.execute("ROLLBACK")


def test_one_watcher_serves_all(alias, make_queue):
    """6.3 One watcher per process and database file, fanned out; gone with the last waiter."""
    before = threading.active_count()
    with make_queue("one").listen() as one, make_queue("two").listen() as two:
        assert threading.active_count() == before + 1
        quiet(one), quiet(two)
        with direct_connection() as connection:
            connection.execute("INSERT INTO testapp_note (text) VALUES ('x')")
        assert one.wait(PATIENCE_S) is True and two.wait(PATIENCE_S) is True
    assert threading.active_count() == before


def test_waiting_sends_nothing_on_the_callers_connection(alias, make_queue):
    """6.3 FR-131 Polling is by data_version, on a connection of its own."""
    with make_queue().listen() as listener, no_sql(alias):
        quiet(listener)


def test_a_claim_that_finds_nothing_takes_no_write_lock(alias, make_queue):
    """FR-131 An idle worker issues no write statements: it is not held up by a writer."""
    queue = make_queue()
    with direct_connection() as connection:
        connection.execute("BEGIN IMMEDIATE")
        try:
            assert queue.claim_batch("worker", 5) == []
        finally:
            connection.execute("ROLLBACK")


@pytest.fixture
def two_files(django_db_setup, django_db_blocker, tmp_path):
    """The alias of a migrated file, and the path of another such file, one job in each."""
    with django_db_blocker.unblock(), fresh_database("sqlite", tmp_path) as alias:
        path = tmp_path / "fresh.sqlite3"
        migrate(alias)
        Queue("jobs", using=alias).enqueue("old")
        with direct_connection(alias) as connection:
            connection.execute("VACUUM INTO ?", [str(tmp_path / "newer.sqlite3")])
        yield alias, path, tmp_path / "newer.sqlite3"


def test_a_replaced_file_is_noticed_by_the_watcher(two_files):
    """6.3 FR-135 The waiter is woken by the change, and then by commits to the new file."""
    alias, path, newer = two_files
    with Queue("jobs", using=alias).listen() as listener:
        quiet(listener)
        connections[alias].close()
        newer.replace(path)
        assert listener.wait(PATIENCE_S) is True
        quiet(listener)
        with direct_connection(alias) as connection:
            connection.execute("UPDATE __alkstore_job SET priority = 7")
        assert listener.wait(PATIENCE_S) is True


def test_jobs_of_a_new_file_are_handled(two_files):
    """FR-135 A worker's thread that still has the old file open drops it and opens the new one."""
    alias, path, newer = two_files
    queue = Queue("jobs", using=alias)
    engine = engine_for(alias)
    assert queue.get_job(1).payload == "old"
    engine.drop_stale_connection()
    with direct_connection(alias) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    newer.replace(path)
    with direct_connection(alias) as connection:
        connection.execute("UPDATE __alkstore_job SET payload = CAST('\"new\"' AS BLOB)")
    engine.drop_stale_connection()
    assert queue.claim_one("worker").job.payload == "new"


def test_what_is_committed_upon_the_wake_of_a_replaced_file_wakes_again(two_files):
    """6.4 FR-135 FR-037 First the new file is watched, then the waiters are told to look."""
    alias, path, newer = two_files
    woken, woken_again = threading.Event(), threading.Event()

    def on_wake(queue):
        if woken.is_set():
            woken_again.set()
        elif replaced.is_set():
            woken.set()
            with direct_connection(alias) as connection:
                connection.execute("UPDATE __alkstore_job SET priority = 7")

    replaced = threading.Event()
    subscription = engine_for(alias).subscribe(["jobs"], on_wake=on_wake)
    try:
        connections[alias].close()
        newer.replace(path)
        replaced.set()
        assert woken.wait(PATIENCE_S)
        assert woken_again.wait(5)
    finally:
        subscription.close()


def test_a_removed_file_is_no_reason_to_make_an_empty_one(two_files):
    """FR-135 The watcher creates nothing, and wakes when the file is back."""
    alias, path, newer = two_files
    lost = threading.Event()

    def on_lost(**event):
        lost.set()

    wake_lost.connect(on_lost)
    try:
        with Queue("jobs", using=alias).listen() as listener:
            connections[alias].close()
            path.unlink()
            assert lost.wait(PATIENCE_S)
            quiet(listener)
            assert not path.exists()
            newer.replace(path)
            assert listener.wait(PATIENCE_S) is True
    finally:
        wake_lost.disconnect(on_lost)


def test_flush_goes_on_with_the_ids(alias, make_queue):
    """1.5 7.6 Emptied tables are no reason to begin again with 1."""
    queue = make_queue()
    last = queue.enqueue({})
    call_command("flush", database=alias, verbosity=0, interactive=False)
    assert queue.enqueue({}) > last


def test_a_file_that_is_not_there_is_told_at_once(two_files):
    """6.4 Listening that cannot be effective does not begin, and makes no file."""
    alias, path, _ = two_files
    connections[alias].close()
    path.unlink()
    with pytest.raises(OperationalError), Queue("jobs", using=alias).listen():
        pytest.fail("nobody listens")
    assert not path.exists()
