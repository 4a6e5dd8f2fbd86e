"""What is prepared, and where: FACTS.md 5, issue 3, "Losing the database"."""

import psycopg
import pytest
from django.db import DatabaseError, connections, transaction

from alkstore_django.engines.postgres.engine import PREPARE_AFTER
from alkstore_django.engines.registry import engine_for

pytestmark = pytest.mark.parametrize("alias", ["postgres"], indirect=True)


def prepared(alias):
    """The statements of ours that this thread's session has prepared, by the server's own list."""
    raw = connections[alias].connection
    rows = raw.execute("SELECT statement FROM pg_prepared_statements", prepare=False).fetchall()
    return sorted(
        row[0].split("alkstore:")[1].split(" ")[0] for row in rows if "alkstore:" in row[0]
    )


def past_the_driver(alias, statement):
    """Run a statement on this thread's session without the driver's taking notice of it."""
    result = connections[alias].connection.pgconn.exec_(statement.encode())
    assert result.status in (psycopg.pq.ExecStatus.COMMAND_OK, psycopg.pq.ExecStatus.TUPLES_OK)


@pytest.fixture(autouse=True)
def new_session(alias):
    """Neither the session nor its settings are handed on."""
    connections[alias].close()
    yield
    connections[alias].close()


def operate(queue, times=4 * PREPARE_AFTER):
    for _ in range(times):
        queue.enqueue(None)
        assert queue.claim_one("w").ack()


def test_nothing_on_an_ordinary_connection(alias, make_queue):
    """6.2 Issue 3: the connections of web requests stay as Django means them, for any pooler."""
    operate(make_queue())
    assert prepared(alias) == []
    assert connections[alias].connection.prepare_threshold is None


def test_the_hot_path_prepares(alias, make_queue):
    """Issue 3: a worker's thread has what it runs again and again parsed only once."""
    with engine_for(alias).hot_path():
        operate(make_queue())
        assert {"ack", "claim"} <= set(prepared(alias))


def test_a_worker_prepares_on_its_own_connections_alone(alias, make_queue, work):
    """Issue 3: the worker's statements are prepared, those of its handlers are not."""
    queue = make_queue()
    seen, thresholds = [], []

    @queue.handler
    def handle(job):
        queue.get_job(job.id)
        thresholds.append(connections[alias].connection.prepare_threshold)
        seen.extend(prepared(alias))

    queue.enqueue_many([None] * 30)
    assert work(queue).count("acked") == 30
    assert (seen, set(thresholds)) == ([], {None})
    assert "claim_ahead" in prepared(alias)  # this thread was the worker's own


@pytest.mark.parametrize("lose", ["DEALLOCATE ALL", "DISCARD ALL"])
def test_lost_prepared_statements(alias, make_queue, lose):
    """Issue 3: where a pooler hands the thread another session, it goes on, and prepares no more."""
    queue = make_queue()
    engine = engine_for(alias)
    with engine.hot_path():
        operate(queue)
        assert prepared(alias)
        past_the_driver(alias, lose)
        operate(queue)
        assert prepared(alias) == []
        assert connections[alias].connection.prepare_threshold is None


def test_a_name_that_is_taken(alias, make_queue):
    """Issue 3: a session that has our driver's names for others' statements does no harm either."""
    queue = make_queue()
    with engine_for(alias).hot_path():
        operate(queue, times=PREPARE_AFTER - 1)
        for number in range(60):
            past_the_driver(alias, f"PREPARE _pg3_{number} AS SELECT {number}")
        operate(queue)
        assert prepared(alias) == []


def test_lost_in_a_transaction(alias, make_queue):
    """1.3 Issue 3: the transaction is spoilt by then: the error comes out, and the next one works."""
    queue = make_queue()
    with engine_for(alias).hot_path():
        operate(queue)
        with pytest.raises(DatabaseError), transaction.atomic(using=alias):
            past_the_driver(alias, "DEALLOCATE ALL")
            queue.claim_one("w")
        operate(queue)


def test_a_worker_that_loses_them(alias, make_queue, work, events):
    """Issue 3: in the middle of a drain every session loses its statements: nothing else is lost."""
    queue = make_queue()
    queue.handler(lambda job: None)
    claim_ahead = engine_for(alias).claim_ahead
    calls = []

    def claim_and_lose(*args, **options):
        calls.append(None)
        if len(calls) == 20:
            assert prepared(alias)
            past_the_driver(alias, "DEALLOCATE ALL")
        return claim_ahead(*args, **options)

    engine_for(alias).claim_ahead = claim_and_lose
    try:
        queue.enqueue_many(list(range(60)))
        assert work(queue).count("acked") == 60
    finally:
        del engine_for(alias).claim_ahead
    assert len(calls) > 20
    assert events.of("store_lost") == []
