"""The tables on SQLite: 1.1, 1.5."""

import sqlite3

import pytest
from django.db import connections

from tests.sqlite.conftest import direct_connection


def test_ids_are_not_reused_after_vacuum_and_reopening(alias, make_queue):
    """1.5 FR-003 AUTOINCREMENT: also when the table is empty and the file was rewritten."""
    queue = make_queue()
    first = queue.enqueue({})
    assert queue.claim_one("worker").ack()
    connections[alias].close()
    with direct_connection() as connection:
        connection.execute("VACUUM")
    assert queue.enqueue({}) > first


def test_ids_go_on_beyond_32_bits(alias, make_queue):
    """1.5 FR-069 64 bits in every statement."""
    queue = make_queue()
    queue.enqueue({})
    with direct_connection() as connection:
        where = "WHERE name = '__alkstore_job'"
        (before,) = connection.execute(f"SELECT seq FROM sqlite_sequence {where}").fetchone()
        connection.execute(f"UPDATE sqlite_sequence SET seq = 3000000000 {where}")
        try:
            ids = [queue.enqueue({}), *queue.enqueue_many([{}, {}])]
            assert ids == [3_000_000_001, 3_000_000_002, 3_000_000_003]
            handles = queue.claim_batch("worker", 4)[1:]
            assert queue.ack_batch([handles[0], ids[1]]) == 2
            assert handles[2].fail() and queue.get_job(ids[2]).state == "dead"
        finally:
            connection.execute(f"UPDATE sqlite_sequence SET seq = {before} {where}")


@pytest.mark.parametrize("table", ["__alkstore_job", "__alkstore_dead_job"])
def test_the_tables_are_strict(alias, table):
    """1.1 STRICT: a column takes no value of another type."""
    with direct_connection() as connection:
        (strict,) = connection.execute(
            "SELECT strict FROM pragma_table_list WHERE name = ?", [table]
        ).fetchone()
    assert strict == 1


@pytest.mark.parametrize(
    ("column", "value"), [("priority", "high"), ("run_at", 1.5), ("payload", "text")]
)
def test_a_value_of_another_type_is_refused(alias, make_queue, column, value):
    """1.1 STRICT, seen from the outside."""
    job_id = make_queue().enqueue({})
    with direct_connection() as connection, pytest.raises(sqlite3.IntegrityError):
        connection.execute(f"UPDATE __alkstore_job SET {column} = ? WHERE id = ?", [value, job_id])


def test_every_object_carries_the_prefix(alias):
    """1.1 Engine-owned tables and indexes are __alkstore_*; queues are rows, not tables."""
    with direct_connection() as connection:
        names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    ours = {name for name in names if "alkstore" in name}
    assert {name for name in ours if not name.startswith(("__alkstore_", "sqlite_"))} == set()
    assert {"__alkstore_job", "__alkstore_dead_job"} <= ours
