"""Statements past Django's cursor and through it: the same to every caller. 1.1, 1.3, issue 3."""

import threading
from contextlib import ExitStack, contextmanager, nullcontext

import pytest
from django.db import (
    DatabaseError,
    DataError,
    IntegrityError,
    OperationalError,
    ProgrammingError,
    connections,
    transaction,
)
from django.db.transaction import TransactionManagementError
from django.test import SimpleTestCase, override_settings
from django.test.utils import CaptureQueriesContext

from alkstore_django.engines.registry import engine_for
from tests.support.rows import TABLES, count_live
from tests.support.statements import recorded_sql
from tests.support.transactions import rolled_back


@contextmanager
def wrapped(alias):
    with recorded_sql(alias) as log:
        yield
    assert log, "no statement passed through Django's cursor"


@contextmanager
def captured(alias):
    with CaptureQueriesContext(connections[alias]) as log:
        yield
    assert log.captured_queries


@contextmanager
def direct(alias):
    """Django's cursors are not to be asked for."""
    connection = connections[alias]
    connection.ensure_connection()
    make = type(connection).create_cursor

    def refuse(self, name=None):
        raise AssertionError("this went through Django's cursor")

    type(connection).create_cursor = refuse
    try:
        yield
    finally:
        type(connection).create_cursor = make


PATHS = {"direct": direct, "wrapped": wrapped, "captured": captured}
both_paths = pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)


@both_paths
def test_rows_and_counts(alias, clock, make_queue, path):
    """3.1 to 3.12 Issue 3: what comes back is the same, whichever way the statement went."""
    queue = make_queue()
    engine = engine_for(alias)
    first, *_ = queue.enqueue_many([{"a": "é%"}, b"x".hex(), None])
    with path(alias):
        now = engine.clock_us()
        rows = engine.claim("jobs", worker_id="w%s", n=2, token=7)
        held = engine.renew([row.claim for row in rows])
        row = engine.get_job(first)
        counts = [engine.cancel(first), engine.cancel(first), engine.ack_ids([rows[1].id, 0])]
        nothing = engine.claim("nobody's", worker_id="w", n=1, token=8)
    assert now == clock.now * 1_000_000
    assert [each.id for each in rows] == [first, first + 1]
    assert held == {first, first + 1}
    assert row == rows[0]
    assert (row.worker_id, row.payload, type(row.payload)) == (
        "w%s", '{"a":"é%"}'.encode(), bytes,
    )  # fmt: skip
    assert counts == [True, False, 1]
    assert nothing == []


BREAKING = {
    IntegrityError: "UPDATE {job} SET priority = NULL",
    "syntax": "SELEC 1",
    "no table": "SELECT * FROM no_such_table",
    "check": "UPDATE {job} SET state = 'nonsense'",
}


@both_paths
@pytest.mark.parametrize("statement", BREAKING.values(), ids=map(str, BREAKING))
def test_errors_are_djangos(alias, make_queue, path, statement):
    """1.3 Issue 3: Django's own classes, the driver's error behind them, and the next one works."""
    make_queue().enqueue(None)
    engine = engine_for(alias)
    statement = statement.format(job=TABLES[connections[alias].vendor]["job"])
    with path(alias), pytest.raises(DatabaseError) as caught:
        engine.rows(statement)
    kinds = (IntegrityError, OperationalError, ProgrammingError, DataError)
    assert type(caught.value) in kinds
    assert type(caught.value.__cause__).__module__.split(".")[0] in {"psycopg", "sqlite3"}
    if "SET" in statement:
        assert type(caught.value) is IntegrityError
    assert count_live(alias) == 1
    assert engine.clock_us() > 0


def test_both_paths_raise_the_same(alias, make_queue):
    """1.3 Issue 3: the very same class for the very same mistake."""
    make_queue().enqueue(None)
    for text in BREAKING.values():
        statement = text.format(job=TABLES[connections[alias].vendor]["job"])
        raised = set()
        for path in PATHS.values():
            with path(alias), pytest.raises(DatabaseError) as caught:
                engine_for(alias).rows(statement)
            raised.add((type(caught.value), type(caught.value.__cause__), str(caught.value)))
        assert len(raised) == 1, raised


def test_a_connection_that_is_away(alias):
    """1.3 7.4 Issue 3: a broken connection is told of by the same class, and noted as broken."""
    connection = connections[alias]
    engine = engine_for(alias)
    raised = set()
    for watching in (nullcontext(), recorded_sql(alias)):
        engine.clock_us()
        connection.connection.close()
        with watching, pytest.raises(DatabaseError) as caught:
            engine.clock_us()
        raised.add(type(caught.value))
        assert connection.errors_occurred
        connection.close()
    assert len(raised) == 1
    assert engine.clock_us() > 0


@both_paths
def test_a_transaction_that_must_be_rolled_back(alias, make_queue, path):
    """1.3 Issue 3: after an error in an atomic block no statement of ours goes on in it."""
    queue = make_queue()
    with ExitStack() as stack:
        with rolled_back(alias):
            connection = connections[alias]
            connection.needs_rollback = True
            for operation in (
                lambda: queue.enqueue(None),
                lambda: queue.claim_one("w"),
                lambda: engine_for(alias).clock_us(),
            ):
                with pytest.raises(TransactionManagementError):
                    operation()
            connection.needs_rollback = False
        stack.enter_context(path(alias))
        queue.enqueue(None)
    assert count_live(alias) == 1


@both_paths
def test_in_the_callers_transaction(alias, make_queue, path):
    """1.1 3.1 Issue 3: a statement joins the open transaction or savepoint, and shares its fate."""
    queue = make_queue()
    with transaction.atomic(using=alias):
        with path(alias):
            engine_for(alias).clock_us()
            queue.enqueue("kept")
        with rolled_back(alias), path(alias):
            queue.enqueue("lost")
    with rolled_back(alias), path(alias):
        queue.enqueue("lost, too")
    assert count_live(alias) == 1


@both_paths
def test_without_autocommit(alias, make_queue, path):
    """1.1 Issue 3: under manual transaction management nothing is committed behind the caller."""
    connection = connections[alias]
    connection.ensure_connection()
    connection.set_autocommit(False)
    try:
        with path(alias):
            make_queue().enqueue(None)
        connection.rollback()
    finally:
        connection.set_autocommit(True)
    assert count_live(alias) == 0


def test_another_threads_connection(alias):
    """1.1 Issue 3: Django's rule that connections belong to their threads holds."""
    engine_for(alias).clock_us()
    connection = connections[alias]
    raised = []

    def use():
        mine = connections[alias]
        connections[alias] = connection
        try:
            engine_for(alias).clock_us()
        except DatabaseError as error:
            raised.append(str(error))
        finally:
            connections[alias] = mine

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert len(raised) == 1
    assert "thread" in raised[0]


# -- whoever watches -----------------------------------------------------------------------


def names(statements):
    """The statements of ours but for the wake, which another thread may send."""
    ours = [text.split("alkstore:")[1].split(" ")[0] for text in statements if "alkstore:" in text]
    return [name for name in ours if name != "notify"]


def operate(queue):
    queue.enqueue(None)
    handle = queue.claim_one("w")
    handle.heartbeat(60)
    handle.ack()


def test_every_statement_is_captured(alias, make_queue):
    """Issue 3: ``CaptureQueriesContext``, ``execute_wrapper`` and DEBUG's log see each statement."""
    queue = make_queue()
    operate(queue)
    with recorded_sql(alias) as wrapped_log:
        operate(queue)
    with CaptureQueriesContext(connections[alias]) as log:
        operate(queue)
    captured_log = [query["sql"] for query in log.captured_queries]
    connections[alias].queries_log.clear()
    with override_settings(DEBUG=True):
        operate(queue)
        debug_log = [query["sql"] for query in connections[alias].queries]
    connections[alias].queries_log.clear()
    expected = names(wrapped_log)
    assert {"enqueue_ready", "claim", "heartbeat", "ack"} <= set(expected)
    assert names(captured_log) == expected
    assert names(debug_log) == expected


def test_a_wrapper_may_refuse(alias, make_queue):
    """Issue 3: what a wrapper raises comes out of the operation, and nothing was sent."""
    queue = make_queue()

    class Refused(Exception):
        pass

    def refuse(execute, sql, params, many, context):
        raise Refused

    with connections[alias].execute_wrapper(refuse), pytest.raises(Refused):
        queue.enqueue(None)
    assert count_live(alias) == 0


@pytest.mark.parametrize("is_open", [True, False])
def test_a_database_that_a_test_case_forbids(alias, make_queue, is_open):
    """Issue 3: a SimpleTestCase that does not name the database keeps its rule for us, too."""
    queue = make_queue()
    if is_open:
        engine_for(alias).clock_us()
    else:
        connections[alias].close()

    class Case(SimpleTestCase):
        databases = frozenset()

        def test_it(self):
            queue.enqueue(None)

    result = Case("test_it").defaultTestResult()
    Case("test_it").run(result)  # sets nothing up by itself
    Case.setUpClass()
    try:
        Case("test_it").run(result)
    finally:
        Case.doClassCleanups()
    texts = [text for _, text in result.errors + result.failures]
    assert any("Database" in text and "not allowed" in text for text in texts), texts
    assert count_live(alias) == 1  # that of the run before the class was set up
