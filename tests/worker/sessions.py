"""What handlers do to their database sessions, and how to look at sessions from outside.

Whatever differs between the databases has one function per engine here, so that a test of
the worker never asks which one it has.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from django.db import connections
from django.db.backends.signals import connection_created

Result = TypeVar("Result")

PARTING_S = 10


def after_parting(ask: Callable[[], Result], expected: Result) -> Result:
    """Ask again until the answer is the expected one, for as long as a server may take to notice.

    A PostgreSQL session goes on for a moment after its client has closed the connection.
    """
    give_up_at = time.monotonic() + PARTING_S
    while (answer := ask()) != expected and time.monotonic() < give_up_at:
        continue
    return answer


def spoil_settings(alias: str) -> None:
    """Change this thread's session so that no later job could write through it."""
    _execute(
        alias,
        postgresql=["SET search_path = nowhere", "SET statement_timeout = '1ms'"],
        sqlite=["PRAGMA query_only = ON"],
    )


def make_read_only(alias: str) -> None:
    """Make this thread's session refuse writes."""
    statement = "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY"
    _execute(alias, postgresql=[statement], sqlite=["PRAGMA query_only = ON"])


def spoil_settings_in_disguise(alias: str) -> None:
    """The same with a comment in front, as tools that tag statements write it."""
    _execute(
        alias,
        postgresql=["/* view=shop */ SET search_path = nowhere"],
        sqlite=["/* view=shop */ PRAGMA query_only = ON"],
    )


def begin(alias: str) -> None:
    """Open a transaction behind Django's back, through Django's cursor."""
    _execute(alias, postgresql=["BEGIN"], sqlite=["BEGIN IMMEDIATE"])


def begin_in_disguise(alias: str) -> None:
    """The same with a comment in front."""
    begun = "/* view=shop */ BEGIN"
    _execute(alias, postgresql=[begun], sqlite=[f"{begun} IMMEDIATE"])


def begin_by_driver(alias: str) -> None:
    """Open a transaction behind Django's back, through the driver."""
    connection = connections[alias]
    connection.ensure_connection()
    cursor = connection.connection.cursor()
    cursor.execute(_by_engine(alias, postgresql="BEGIN", sqlite="BEGIN IMMEDIATE"))
    cursor.close()


def someone_waits_for_us(alias: str) -> bool:
    """Whether a transaction is open anywhere that another writer would have to mind.

    PostgreSQL: a session of this database is idle in transaction. SQLite: the write lock is
    taken.
    """
    return bool(_by_engine(alias, postgresql=_idle_in_transaction, sqlite=_write_locked)(alias))


def open_sessions(alias: str) -> int:
    """How many connections to the alias's database are open, this thread's own aside.

    PostgreSQL: in all. SQLite: in this process.
    """
    return int(_by_engine(alias, postgresql=_sessions, sqlite=_open_files)(alias))


def _idle_in_transaction(alias: str) -> bool:
    with connections[alias].cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND pid <> pg_backend_pid() AND state LIKE 'idle in transaction%%'"
        )
        return bool(cursor.fetchone()[0])


def _write_locked(alias: str) -> bool:
    other = connections[alias].copy()
    other.settings_dict = {**other.settings_dict, "OPTIONS": {"timeout": 0}}
    try:
        with other.cursor() as cursor:
            cursor.execute("BEGIN IMMEDIATE")
            cursor.execute("ROLLBACK")
    except other.Database.OperationalError:
        return True
    finally:
        other.close()
    return False


def _sessions(alias: str) -> int:
    with connections[alias].cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        return int(cursor.fetchone()[0])


def _open_files(alias: str) -> int:
    connections[alias].close()  # else SQLite keeps the files of closed connections, for reuse
    file = os.path.realpath(str(connections[alias].settings_dict["NAME"]))
    return sum(
        os.path.realpath(f"/proc/self/fd/{fd}") == file for fd in os.listdir("/proc/self/fd")
    )


def _execute(alias: str, **statements: list[str]) -> None:
    with connections[alias].cursor() as cursor:
        for statement in _by_engine(alias, **statements):
            cursor.execute(statement)


def _by_engine(alias: str, **choices: Any) -> Any:
    return choices[connections[alias].vendor]


@contextmanager
def impatience(alias: str) -> Iterator[None]:
    """Within the block every session gives up soon when another is in its way: the test's own,
    and those that the worker's threads open."""

    def hurry(sender: Any, connection: Any, **_: Any) -> None:
        if connection.alias == alias:
            statement = _by_engine(
                alias,
                postgresql="SET lock_timeout = '50ms'",
                sqlite="PRAGMA busy_timeout = 50",
            )
            with connection.cursor() as cursor:
                cursor.execute(statement)

    connections[alias].close()
    connection_created.connect(hurry)
    try:
        yield
    finally:
        connection_created.disconnect(hurry)
        connections[alias].close()


class Obstacle:
    """Another session that keeps everybody from writing jobs until it is removed."""

    def __init__(self, alias: str) -> None:
        self._connection = connections[alias].copy()
        self._connection.inc_thread_sharing()
        statements = _by_engine(
            alias,
            postgresql=["BEGIN", "LOCK TABLE alkstore.job IN EXCLUSIVE MODE"],
            sqlite=["BEGIN IMMEDIATE"],
        )
        with self._connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def remove(self) -> None:
        """Let the others go on; a second call does nothing."""
        self._connection.close()
