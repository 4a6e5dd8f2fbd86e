"""How an engine's statements are written, and how they are sent.

A ``sql.py`` is made of templates; ``Statements`` fills in the identifiers of one engine.
``StatementRunner`` sends them on the calling thread's Django connection.
"""

from __future__ import annotations

import contextlib
import string
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from importlib import resources
from types import ModuleType
from typing import Any

from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from ..conf import StoreSettings
from ..core.records import JobRow

TABLES = ("job", "dead_job", "schedule", "lease", "inbox")


class StatementRunner(ABC):
    """The part of an engine that knows connections and cursors, and no rule."""

    def __init__(self, using: str, settings: StoreSettings, sql: ModuleType) -> None:
        self.using = using
        self.settings = settings
        self.frozen_now_us: int | None = None
        self._hot = threading.local()
        self.identifiers = {name: self.table(name) for name in TABLES}
        self.sql = Statements(sql, self.identifiers)

    @abstractmethod
    def table(self, name: str) -> str:
        """Return the quoted name of an engine-owned table, a percent sign doubled."""

    def clock_us(self) -> int:
        """Return the database's present instant in epoch microseconds."""
        return int(self.rows(self.sql.CLOCK)[0][0])

    @property
    def connection(self) -> BaseDatabaseWrapper:
        """The Django connection of the alias in this thread."""
        return connections[self.using]

    def rows(self, statement: str, **values: Any) -> list[tuple[Any, ...]]:
        """Run a statement with the clock among its parameters; return all of its rows."""
        with self._executed(statement, values) as cursor:
            rows: list[tuple[Any, ...]] = cursor.fetchall()
            return rows

    def count(self, statement: str, **values: Any) -> int:
        """Run a statement with the clock among its parameters; return the rows it changed."""
        with self._executed(statement, values) as cursor:
            return int(cursor.rowcount)

    @contextlib.contextmanager
    def _executed(self, statement: str, values: dict[str, Any]) -> Iterator[Any]:
        """Run a statement and yield its cursor.

        Past Django's cursor, which is a good part of the cost of a short statement, unless
        somebody watches or logs statements, or forbids them: then through it. In the caller's
        transaction either way, and with Django's errors.
        """
        connection = self.connection
        values["now_us"] = self.frozen_now_us
        if _is_watched(connection):
            with connection.cursor() as cursor:
                cursor.execute(statement, values)
                yield cursor
            return
        connection.validate_thread_sharing()
        connection.ensure_connection()
        connection.validate_no_broken_transaction()
        with connection.wrap_database_errors, self._direct_cursor(connection) as cursor:
            self._execute(cursor, statement, values)
            yield cursor

    @abstractmethod
    def _direct_cursor(self, connection: BaseDatabaseWrapper) -> AbstractContextManager[Any]:
        """Return a cursor of the driver's own on the open connection."""

    @abstractmethod
    def _execute(self, cursor: Any, statement: str, values: dict[str, Any]) -> None:
        """Run a statement, with ``%(name)s`` for parameters, on such a cursor."""

    @contextlib.contextmanager
    def hot_path(self) -> Iterator[None]:
        """Let the engine prepare what this thread runs again and again; for a worker's threads."""
        self._hot.on = True
        try:
            yield
        finally:
            self._hot.on = False

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Run several statements as one: a transaction, or a savepoint of the caller's."""
        with transaction.atomic(using=self.using):
            yield


class EnginePart(ABC):
    """A part of an engine with statements of its own; it speaks through the engine.

    What its statements do alone is written once, in the contract; an engine's own class adds
    how it takes many values.
    """

    statements: ModuleType
    """The module of the engine's own statements."""

    def __init__(self, engine: StatementRunner) -> None:
        self.engine = engine
        self.sql = Statements(self.statements, engine.identifiers)


def _is_watched(connection: BaseDatabaseWrapper) -> bool:
    """Return whether somebody wraps or logs statements, or has put another ``cursor`` in place."""
    own_cursor = getattr(connection.cursor, "__func__", None) is type(connection).cursor
    return bool(connection.execute_wrappers or connection.queries_logged or not own_cursor)


def claimed_rows(
    rows: Iterable[Sequence[Any]], queue: str, worker_id: str, token: int
) -> list[JobRow]:
    """Complete the ``CLAIMED_COLUMNS`` of a claim, in claim order: RETURNING promises none."""
    claimed = []
    for job_id, *options, claimed_at, deadline, codec, payload in rows:
        stamps = (worker_id, claimed_at, deadline, token)
        row = (job_id, queue, "processing", *options, *stamps, codec, payload, None, None, None)
        claimed.append(JobRow._make(row))
    claimed.sort(key=_claim_order)
    return claimed


def _claim_order(row: JobRow) -> tuple[int, int, int]:
    return -row.priority, row.run_at, row.id


def read_schema_script(package: str, name: str, identifiers: Mapping[str, str]) -> str:
    """Return the frozen DDL file ``schema/<name>.sql`` of an engine, identifiers filled in."""
    text = resources.files(package).joinpath("schema", f"{name}.sql").read_text(encoding="utf-8")
    return string.Template(text).substitute(identifiers)


class Statements:
    """The statements of one ``sql.py`` with the identifiers of one engine filled in."""

    def __init__(self, module: ModuleType, identifiers: Mapping[str, str]) -> None:
        def rendered(text: str) -> str:
            return string.Template(text).substitute(identifiers)

        for name, text in vars(module).items():
            if name.isupper():
                pair = isinstance(text, tuple)
                setattr(self, name, tuple(map(rendered, text)) if pair else rendered(text))

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"no statement is named {name}")
