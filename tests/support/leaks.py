"""What a test must not leave behind."""

import threading
from typing import Any

from django.db import connections
from psycopg.pq import TransactionStatus

from tests.support.rows import NOTES, TABLES

GRACE_S = 5
THREAD_PREFIX = "alkstore-"
MANY_ROWS = 1_000


def running_threads() -> list[str]:
    """Return the names of the package's threads that still run after a moment of grace.

    None is documented to outlive its use: the wake's threads live while somebody listens.
    """
    ours = [t for t in threading.enumerate() if t.name.startswith(THREAD_PREFIX)]
    for thread in ours:
        thread.join(GRACE_S)
    return [thread.name for thread in ours if thread.is_alive()]


def end_open_transaction(alias: str) -> bool:
    """End this thread's transaction on the alias; return whether one was open."""
    connection = connections[alias]
    raw = connection.connection
    if raw is None:
        was_open = connection.in_atomic_block
    else:
        was_open = connection.in_atomic_block or not connection.get_autocommit()
        was_open = was_open or _in_transaction(connection.vendor, raw)
    if was_open:
        if raw is not None:
            raw.close()
        del connections[alias]  # the next use makes a new wrapper, in a known state
    return was_open


def empty_tables(alias: str) -> None:
    """Delete all rows of the engine's tables and of the test app's, ids going on."""
    connection = connections[alias]
    if connection.connection is not None and not connection.is_usable():
        connection.close()  # the test has restarted the server
    tables = [*TABLES[connection.vendor].values(), NOTES]
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SET lock_timeout = '20s'")
        for table in tables:
            cursor.execute(f"DELETE FROM {table}")
            if connection.vendor == "postgresql" and cursor.rowcount > MANY_ROWS:
                cursor.execute(f"TRUNCATE {table}")  # leaves no dead rows to the next test
        if connection.vendor == "postgresql":
            cursor.execute("RESET lock_timeout")


def _in_transaction(vendor: str, raw: Any) -> bool:
    if vendor == "sqlite":
        return bool(raw.in_transaction)
    return not raw.closed and raw.info.transaction_status != TransactionStatus.IDLE
