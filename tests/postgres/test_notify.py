"""NOTIFY: 6.2 and 3.1."""

import queue
import threading

import pytest
from django.db import OperationalError, connections, transaction
from django.test import override_settings
from hypothesis import given, settings
from hypothesis import strategies as st

from alkstore_django.engines.postgres import notify
from alkstore_django.engines.postgres.wake import channel_name
from alkstore_django.engines.registry import engine_for
from tests.core.hostile import GOOD_NAMES
from tests.postgres.conftest import direct_connection, ear
from tests.support.rows import count_live
from tests.support.transactions import rolled_back

PATIENCE_S = 30
pytestmark = pytest.mark.usefixtures("no_window")
NAMES = st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1, max_size=200)
SCHEMAS = NAMES.filter(lambda name: len(name.encode()) <= 63)


@settings(deadline=None)
@given(SCHEMAS, NAMES)
def test_a_channels_name_fits_whatever_the_queue_is_called(schema, queue):
    """6.2 FR-066 1 to 63 bytes for every legal name; the same on both sides."""
    channel = channel_name(schema, queue)
    assert 1 <= len(channel.encode()) <= 63
    assert channel == channel_name(schema, queue)


@settings(deadline=None)
@given(SCHEMAS, st.lists(NAMES, min_size=2, max_size=2, unique=True))
def test_two_queues_have_two_channels(schema, queues):
    """6.2 FR-066 No two names of one schema share a channel."""
    assert len({channel_name(schema, queue) for queue in queues}) == 2


def test_names_at_the_border_have_channels_of_their_own():
    """6.2 FR-066 Around 63 bytes, where a longer name would be cut; and against forged hashes."""
    names = ["q" * n for n in range(1, 201)] + ["é" * n for n in range(1, 201)]
    names += [*GOOD_NAMES.values()]
    names += [channel_name("alkstore", name)[-60:] for name in names]
    names = list(dict.fromkeys(names))
    assert len({channel_name("alkstore", name) for name in names}) == len(names)


@pytest.fixture
def no_window(monkeypatch):
    """Hold no notification back; how that goes is in tests/concurrency/test_notify_window.py."""
    monkeypatch.setattr(notify, "WINDOW_S", 0.0)


# -- how many, and when ---------------------------------------------------------------------------


def test_one_notification_per_queue_and_transaction(alias, make_queue):
    """6.2 FR-048 However many jobs, savepoints and calls there are."""
    jobs, mail = make_queue("jobs"), make_queue("mail")
    with ear("jobs", "mail") as heard_by:
        with transaction.atomic(using=alias):
            for _ in range(10):
                jobs.enqueue({})
            with transaction.atomic(using=alias):
                jobs.enqueue_many([{}] * 20)
                mail.enqueue({})
            with rolled_back(alias):
                jobs.enqueue({})
            mail.enqueue({})
            with transaction.atomic(using=alias):
                mail.enqueue({})
        assert sorted(heard_by.heard()) == ["jobs", "mail"]


def test_an_enqueue_outside_a_transaction_notifies_once(make_queue):
    """6.2 One each; enqueue_many one for all."""
    queue = make_queue()
    with ear("jobs") as heard_by:
        queue.enqueue({})
        assert heard_by.heard() == ["jobs"]
        queue.enqueue_many([{}] * 50)
        assert heard_by.heard() == ["jobs"]


def test_nothing_is_notified_before_the_commit(alias, make_queue):
    """3.1 6.2 FR-089 A wake follows the commit."""
    queue = make_queue()
    with ear("jobs") as heard_by:
        with transaction.atomic(using=alias):
            queue.enqueue({})
            assert heard_by.heard() == []
        assert heard_by.heard() == ["jobs"]


def test_a_rollback_notifies_nobody(alias, make_queue):
    """3.1 FR-089 Neither of a transaction nor of a savepoint."""
    queue = make_queue()
    with ear("jobs") as heard_by:
        with rolled_back(alias):
            queue.enqueue({})
        with transaction.atomic(using=alias), rolled_back(alias):
            queue.enqueue({})
            with transaction.atomic(using=alias):
                queue.enqueue({})
        assert heard_by.heard() == []


@pytest.mark.parametrize("lost_first", [True, False])
def test_a_committed_job_beside_a_rolled_back_one_is_notified(alias, make_queue, lost_first):
    """3.1 6.2 The savepoint that was rolled back takes only its own wake with it."""
    queue = make_queue()
    with ear("jobs") as heard_by:
        with transaction.atomic(using=alias):
            if lost_first:
                with rolled_back(alias):
                    queue.enqueue({})
            with transaction.atomic(using=alias):
                queue.enqueue({})
            if not lost_first:
                with rolled_back(alias):
                    queue.enqueue({})
        assert heard_by.heard() == ["jobs"]


def test_the_notification_is_no_part_of_the_business_transaction(alias, make_queue, sql_log):
    """6.2 FR-048 NOTIFY is sent right after the commit, in a transaction of its own."""
    in_transaction = []

    def watch(execute, sql, params, many, context):
        if "notify" in sql.lower():
            in_transaction.append(connections[alias].in_atomic_block)
        return execute(sql, params, many, context)

    with connections[alias].execute_wrapper(watch):
        with transaction.atomic(using=alias):
            make_queue().enqueue({})
            assert not any("notify" in statement.lower() for statement in sql_log)
        assert in_transaction == [False]


def test_a_notification_does_not_wait_for_its_flush(alias, make_queue):
    """6.2 Without waiting for its own flush; the session's setting is as it was before."""
    seen = []

    def watch(execute, sql, params, many, context):
        result = execute(sql, params, many, context)
        if "notify" in sql.lower():
            seen.append(sql)
        return result

    with connections[alias].execute_wrapper(watch):
        make_queue().enqueue({})
    assert "synchronous_commit" in seen[0]
    with connections[alias].cursor() as cursor:
        cursor.execute("SHOW synchronous_commit")
        assert cursor.fetchone() == ("on",)


def test_a_job_that_is_not_ready_yet_notifies_nobody(clock, make_queue):
    """3.1 None is sent for a job that is not ready yet; a mixed transaction sends one."""
    queue = make_queue()
    with ear("jobs") as heard_by:
        queue.enqueue({}, delay=60)
        queue.enqueue({}, run_at=clock.now + 60)
        queue.enqueue_many([{}, {}], delay=1)
        assert heard_by.heard() == []
        with transaction.atomic(using="postgres"):
            queue.enqueue({}, delay=60)
            queue.enqueue({})
        assert heard_by.heard() == ["jobs"]


def test_a_job_of_the_past_notifies(clock, make_queue):
    """2.2 3.1 A past run_at means ready now, and so does a delay of 0 on a whole second."""
    queue = make_queue()
    with ear("jobs") as heard_by:
        queue.enqueue({}, run_at=clock.now - 60)
        queue.enqueue({}, delay=0)
        assert heard_by.heard() == ["jobs", "jobs"]


def test_a_failure_to_notify_harms_nobody(alias, make_queue):
    """6.2 The commit stands, the caller is told nothing, the next transaction works."""
    queue = make_queue()

    def refuse(execute, sql, params, many, context):
        return execute("SELECT nonsense" if "notify" in sql.lower() else sql, params, many, context)

    with connections[alias].execute_wrapper(refuse):
        with transaction.atomic(using=alias):
            queue.enqueue({})
        queue.enqueue({})
        queue.enqueue_many([{}])
    assert count_live(alias) == 3
    assert len(queue.claim_batch("worker", 5)) == 3


def test_notify_can_be_switched_off(alias, make_queue, sql_log):
    """6.2 Poll only: nothing is sent, and the job is there for the re-poll."""
    queue = make_queue()
    with override_settings(ALKSTORE={alias: {"NOTIFY": False}}), ear("jobs") as heard_by:
        with transaction.atomic(using=alias):
            queue.enqueue({})
        queue.enqueue({})
        assert heard_by.heard() == []
    assert not any("notify" in statement.lower() for statement in sql_log)
    assert len(queue.claim_batch("worker", 5)) == 2


# -- listening ------------------------------------------------------------------------------------


def listeners():
    """The process ids of the sessions that listen, as the server sees them."""
    with direct_connection() as connection:
        rows = connection.execute(
            "SELECT pid, state, xact_start FROM pg_stat_activity"
            " WHERE datname = current_database() AND query LIKE '%LISTEN%'"
            " AND pid <> pg_backend_pid()"
        ).fetchall()
    assert all(state == "idle" and started is None for _, state, started in rows)
    return [pid for pid, _, _ in rows]


def test_one_connection_listens_for_all(alias, make_queue):
    """6.2 One LISTEN connection per process, never per queue or thread; none when nobody does."""
    inside, leave = threading.Barrier(4), threading.Event()

    def listen(name):
        with make_queue(name).listen():
            inside.wait(PATIENCE_S)
            leave.wait(PATIENCE_S)

    threads = [threading.Thread(target=listen, args=[f"queue {n}"]) for n in range(3)]
    for thread in threads:
        thread.start()
    try:
        with make_queue("queue 0").listen():
            inside.wait(PATIENCE_S)
            assert len(listeners()) == 1
    finally:
        leave.set()
        for thread in threads:
            thread.join(PATIENCE_S)
    assert listeners() == []


def test_who_does_not_wait_for_the_connection_looks_once_more(alias):
    """6.2 6.4 A worker goes on before LISTEN is effective; what was committed until then it finds by
    the one pass after every connect, the first one, too."""
    woken = queue.SimpleQueue()
    engine = engine_for(alias)
    first = engine.subscribe(["jobs"], on_wake=woken.put, must_connect=False)
    assert woken.get(timeout=PATIENCE_S) is None
    second = engine.subscribe(["other"], on_wake=woken.put, must_connect=False)  # one connection
    assert woken.get(timeout=PATIENCE_S) is None
    for subscription in (first, second):
        subscription.close()
    assert woken.empty()


def test_a_lost_listener_comes_back_and_wakes(alias, make_queue):
    """6.2 Reconnecting, with one claim pass after every reconnect."""
    queue = make_queue()
    with queue.listen() as listener:
        while listener.wait(0):
            pass
        (pid,) = listeners()
        with direct_connection() as connection:
            connection.execute("SELECT pg_terminate_backend(%s, %s)", [pid, PATIENCE_S * 1_000])
        assert listener.wait(PATIENCE_S) is True  # what was sent meanwhile is lost: look again
        assert listeners() != [pid]
        while listener.wait(0.1):
            pass
        queue.enqueue({})
        assert listener.wait(PATIENCE_S) is True


def test_listening_in_a_transaction_is_effective_at_once(alias, make_queue):
    """6.4 FR-037 The LISTEN is committed, whatever the caller's transaction does."""
    queue = make_queue()

    def enqueue():
        queue.enqueue({})
        connections[alias].close()

    with transaction.atomic(using=alias), queue.listen() as listener:
        thread = threading.Thread(target=enqueue)
        thread.start()
        assert listener.wait(PATIENCE_S) is True
        thread.join(PATIENCE_S)


def test_the_listener_takes_its_own_route(alias, make_queue):
    """6.2 Its own alias where a pooler stands between; connection parameters on top of it."""
    route = {"ALIAS": "postgres", "OPTIONS": {"application_name": "my ear"}}
    queue = make_queue()
    with (
        override_settings(ALKSTORE={alias: {"LISTEN": route}}),
        queue.listen() as listener,
        direct_connection() as connection,
    ):
        rows = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'my ear'"
        )
        assert rows.fetchone() == (1,)
        queue.enqueue({})
        assert listener.wait(PATIENCE_S) is True


def test_a_wake_out_of_reach_is_told_at_once(alias, make_queue):
    """6.4 Listening that cannot be effective does not begin; enqueueing is not concerned."""
    route = {"OPTIONS": {"host": "/nonexistent"}}
    queue = make_queue()
    with override_settings(ALKSTORE={alias: {"LISTEN": route}}):
        with pytest.raises(OperationalError), queue.listen():
            pytest.fail("nobody listens")
        assert queue.enqueue({})
