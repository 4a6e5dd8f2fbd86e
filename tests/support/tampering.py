"""What no caller can do: change stored rows, and make the database misbehave.

Whatever differs between the databases has one function per engine here, so that a
conformance test never asks which one it has.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar
from unittest import mock

from django.db import connections

from alkstore_django.engines.registry import engine_for
from tests.support.rows import TABLES

Function = TypeVar("Function", bound=Callable[..., Any])

PLANS = ("hashjoin", "mergejoin", "hashagg", "sort", "material", "indexscan", "bitmapscan")


def change_live_row(alias: str, job_id: int, **columns: Any) -> None:
    """Write columns of a pending or processing job, past all rules."""
    assignments = ", ".join(f"{column} = %s" for column in columns)
    statement = f"UPDATE {_table(alias, 'job')} SET {assignments} WHERE id = %s"
    with connections[alias].cursor() as cursor:
        cursor.execute(statement, [*columns.values(), job_id])
        assert cursor.rowcount == 1


def change_schedule(alias: str, name: str, **columns: Any) -> None:
    """Write columns of a schedule, past all rules."""
    assignments = ", ".join(f"{column} = %s" for column in columns)
    statement = f"UPDATE {_table(alias, 'schedule')} SET {assignments} WHERE name = %s"
    with connections[alias].cursor() as cursor:
        cursor.execute(statement, [*columns.values(), name])
        assert cursor.rowcount == 1


def queue_refuses_jobs(alias: str, queue: str) -> AbstractContextManager[None]:
    """Within the block a trigger raises for each job that enters this queue."""
    refuse = _by_engine(alias, postgresql=_postgres_refuses, sqlite=_sqlite_refuses)
    return refuse(alias, "INSERT", _table(alias, "job"), f"NEW.queue = '{queue}'")


def dead_storage_refuses(alias: str) -> AbstractContextManager[None]:
    """Within the block a trigger raises for each row that enters dead storage."""
    return _refusing(alias, "INSERT", "dead_job")


def jobs_refuse_to_go(alias: str) -> AbstractContextManager[None]:
    """Within the block a trigger raises for each live row that is deleted."""
    return _refusing(alias, "DELETE", "job")


def the_dead_refuse_to_go(alias: str) -> AbstractContextManager[None]:
    """Within the block a trigger raises for each dead row that is deleted."""
    return _refusing(alias, "DELETE", "dead_job")


def live_storage_refuses(alias: str) -> AbstractContextManager[None]:
    """Within the block a trigger raises for each job that is stored."""
    return _refusing(alias, "INSERT", "job")


def worst_plans(alias: str) -> AbstractContextManager[None]:
    """Within the block the planner has only its worst plans left, where it can be told so."""
    return _by_engine(alias, postgresql=_postgres_worst_plans, sqlite=_sqlite_worst_plans)(alias)


def held_elsewhere(alias: str, job_id: int) -> AbstractContextManager[None]:
    """Within the block another session holds the row, as firmly as a row can be held.

    PostgreSQL: locked for update, as by an ack that is not committed yet; a statement of ours
    that waits for it fails. SQLite has no locks on rows, and an open read of it is all that a
    session can hold.
    """
    return _by_engine(alias, postgresql=_postgres_holds, sqlite=_sqlite_holds)(alias, job_id)


@contextmanager
def without_fence(alias: str) -> Iterator[None]:
    """Within the block, no statement of this process asks whose claim it is that it acts on."""
    statements = engine_for(alias).sql
    changed = {name: _unfenced(text) for name, text in vars(statements).items() if _is_fenced(text)}
    assert len(changed) >= 7, f"not the statements that the fence was in: {sorted(changed)}"
    with mock.patch.multiple(statements, **changed):
        yield


FENCES = (
    ("USING (id, claim_token)", "USING (id)"),
    (" AND claim_token = %(token)s", ""),
    ("AND job.claim_token = json_extract(given.value, '$[1]')", ""),
)


def _is_fenced(text: str | tuple[str, ...]) -> bool:
    return _unfenced(text) != text


def _unfenced(text: Any) -> Any:
    if isinstance(text, tuple):
        return tuple(map(_unfenced, text))
    for fence, gap in FENCES:
        text = text.replace(fence, gap)
    return text


def _refusing(alias: str, event: str, table: str) -> AbstractContextManager[None]:
    refuse = _by_engine(alias, postgresql=_postgres_refuses, sqlite=_sqlite_refuses)
    return refuse(alias, event, _table(alias, table))


def _by_engine(alias: str, **functions: Function) -> Function:
    return functions[connections[alias].vendor]


def _table(alias: str, name: str) -> str:
    return TABLES[connections[alias].vendor][name]


def _execute(alias: str, *statements: str) -> None:
    with connections[alias].cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


@contextmanager
def _postgres_refuses(alias: str, event: str, table: str, when: str = "true") -> Iterator[None]:
    _execute(
        alias,
        "CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql"
        " AS $$ BEGIN RAISE 'refused'; END $$",
        f"CREATE TRIGGER refuse BEFORE {event} ON {table}"
        f" FOR EACH ROW WHEN ({when}) EXECUTE FUNCTION public.refuse()",
    )
    try:
        yield
    finally:
        _execute(alias, "DROP FUNCTION public.refuse() CASCADE")


@contextmanager
def _sqlite_refuses(alias: str, event: str, table: str, when: str = "true") -> Iterator[None]:
    _execute(
        alias,
        f"CREATE TRIGGER refuse BEFORE {event} ON {table} WHEN {when}"
        " BEGIN SELECT RAISE(ABORT, 'refused'); END",
    )
    try:
        yield
    finally:
        _execute(alias, "DROP TRIGGER refuse")


@contextmanager
def _postgres_worst_plans(alias: str) -> Iterator[None]:
    _execute(alias, *(f"SET enable_{plan} = off" for plan in PLANS))
    try:
        yield
    finally:
        _execute(alias, *(f"RESET enable_{plan}" for plan in PLANS))


@contextmanager
def _sqlite_worst_plans(alias: str) -> Iterator[None]:
    """SQLite's planner has no such switches."""
    yield


@contextmanager
def _postgres_holds(alias: str, job_id: int) -> Iterator[None]:
    other = connections[alias].copy()
    _execute(alias, "SET lock_timeout = '2s'")
    try:
        other.set_autocommit(False)
        with other.cursor() as cursor:
            table = _table(alias, "job")
            cursor.execute(f"SELECT id FROM {table} WHERE id = %s FOR UPDATE", [job_id])
            yield
        other.rollback()
    finally:
        other.close()
        _execute(alias, "RESET lock_timeout")


@contextmanager
def _sqlite_holds(alias: str, job_id: int) -> Iterator[None]:
    other = connections[alias].copy()
    try:
        with other.cursor() as cursor:
            cursor.execute("BEGIN DEFERRED")
            cursor.execute(f"SELECT id FROM {_table(alias, 'job')} WHERE id = %s", [job_id])
            yield
            cursor.execute("ROLLBACK")
    finally:
        other.close()
