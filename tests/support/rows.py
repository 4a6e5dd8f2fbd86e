"""Rows as they are stored, read by plain SQL that does not pass through the package.

The reads go through the driver's own cursor, in the transaction that is open, and no
statement log sees them.
"""

from collections.abc import Sequence
from typing import Any

from django.db import connections

TABLES = {
    "postgresql": {
        "job": '"alkstore"."job"',
        "dead_job": '"alkstore"."dead_job"',
        "schedule": '"alkstore"."schedule"',
    },
    "sqlite": {
        "job": '"__alkstore_job"',
        "dead_job": '"__alkstore_dead_job"',
        "schedule": '"__alkstore_schedule"',
    },
}
NOTES = '"testapp_note"'
MARKS = {"postgresql": "%s", "sqlite": "?"}


def live_row(alias: str, job_id: int) -> dict[str, Any] | None:
    """Return the raw columns of a pending or processing job."""
    return _row(alias, "job", job_id)


def dead_row(alias: str, job_id: int) -> dict[str, Any] | None:
    """Return the raw columns of a job in dead storage."""
    return _row(alias, "dead_job", job_id)


def count_live(alias: str) -> int:
    """Return how many jobs are pending or processing, in all queues."""
    return _count(alias, "job")


def count_dead(alias: str) -> int:
    """Return how many jobs are in dead storage, of all queues."""
    return _count(alias, "dead_job")


def _row(alias: str, name: str, job_id: int) -> dict[str, Any] | None:
    vendor = connections[alias].vendor
    statement = f"SELECT * FROM {TABLES[vendor][name]} WHERE id = {MARKS[vendor]}"
    columns, rows = _read(alias, statement, [job_id])
    return dict(zip(columns, rows[0], strict=True)) if rows else None


def _count(alias: str, name: str) -> int:
    statement = f"SELECT count(*) FROM {TABLES[connections[alias].vendor][name]}"
    return int(_read(alias, statement, [])[1][0][0])


def _read(
    alias: str, statement: str, values: Sequence[Any]
) -> tuple[list[str], list[tuple[Any, ...]]]:
    connection = connections[alias]
    connection.ensure_connection()
    cursor = connection.connection.cursor()
    try:
        cursor.execute(statement, values)
        return [column[0] for column in cursor.description], cursor.fetchall()
    finally:
        cursor.close()
