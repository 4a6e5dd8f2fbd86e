"""A handler's database connections, kept from harming the next job (CONTRACT 7.3).

Each handler thread has Django connections of its own; the worker's statements never run on
them. After a job, a connection is closed if the job failed, left a transaction open,
switched autocommit, or changed its session (``SET``, ``PRAGMA``, ``LISTEN``, ...).
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any

from django.db import DatabaseError, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from ..engines.registry import engine_for, supports

_CHANGES_SESSION = re.compile(
    r"(?:\s|/\*.*?\*/|--[^\n]*\n)*(SET|RESET|DISCARD|LISTEN|UNLISTEN|PREPARE|DEALLOCATE|DECLARE|LOAD|PRAGMA|ATTACH|DETACH"
    r"|BEGIN|START|CREATE\s+TEMP)\b|.*\bset_config\s*\(|.*\bpg_(try_)?advisory_lock",
    re.IGNORECASE | re.DOTALL,
)


class HandlerSession:
    """The connections of one handler thread."""

    def __init__(self) -> None:
        self._changed: set[str] = set()
        self._abort_alias: str | None = None
        self._epoch = 0
        self._watched: list[BaseDatabaseWrapper] = []

    @property
    def is_in_use(self) -> bool:
        """Whether there is anything to tidy; may be asked in another thread."""
        return any(
            connection.connection is not None or connection.in_atomic_block
            for connection in self._watched
        )

    def is_stale(self, epoch: int) -> bool:
        """Return whether ``prepare`` has anything to do."""
        return epoch != self._epoch or not self._watched

    def prepare(self, epoch: int) -> None:
        """Make ready for a job. A new epoch means the database was lost: connect anew."""
        if epoch != self._epoch:
            self._epoch = epoch
            self.close()
        if not self._watched:
            self._start_watching()

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Watch the calling thread's own connections for a while, and leave them open."""
        self._start_watching()
        try:
            yield
        finally:
            for connection in connections.all(initialized_only=True):
                if self._watch in connection.execute_wrappers:
                    connection.execute_wrappers.remove(self._watch)

    def _start_watching(self) -> None:
        self._watched = [connections[alias] for alias in connections]
        for connection in self._watched:
            if self._watch not in connection.execute_wrappers:
                connection.execute_wrappers.append(self._watch)

    @contextlib.contextmanager
    def aborting_on_errors(self, using: str) -> Iterator[None]:
        """Let a database error abort the open transaction on every engine, as PostgreSQL does.

        So an error that the handler swallows is never committed over; inside an ``atomic``
        block of its own it costs that block only.
        """
        self._abort_alias = using
        try:
            yield
        finally:
            self._abort_alias = None

    def tidy(self, *, failed: bool) -> None:
        """Close what the job that just ended may have spoilt."""
        for connection in self._watched:
            if connection.connection is None and not connection.in_atomic_block:
                continue
            if failed or connection.alias in self._changed or _is_disturbed(connection):
                _discard(connection)
                self._watched = []  # the next job's are others
            elif connection.errors_occurred:
                connection.close_if_unusable_or_obsolete()
        self._changed.clear()

    def close(self) -> None:
        """Close every connection of this thread."""
        for connection in connections.all(initialized_only=True):
            _discard(connection)
        self._watched = []

    def _watch(
        self, execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: Any
    ) -> Any:
        connection: BaseDatabaseWrapper = context["connection"]
        if _CHANGES_SESSION.match(sql if isinstance(sql, str) else str(sql)):
            self._changed.add(connection.alias)
        try:
            return execute(sql, params, many, context)
        except DatabaseError:
            if connection.alias == self._abort_alias and connection.in_atomic_block:
                connection.needs_rollback = True
            raise


def _is_disturbed(connection: BaseDatabaseWrapper) -> bool:
    """Return whether a transaction is open, autocommit is not as configured, or the driver's
    own connection is closed or in a transaction that Django knows nothing of."""
    if connection.connection is None:
        return connection.in_atomic_block or connection.needs_rollback
    return (
        connection.in_atomic_block
        or connection.needs_rollback
        or connection.autocommit != connection.settings_dict["AUTOCOMMIT"]
        or (supports(connection.alias) and engine_for(connection.alias).is_disturbed(connection))
    )


def _discard(connection: BaseDatabaseWrapper) -> None:
    """Close a connection whatever state it is in, and forget its wrapper.

    A wrapper stays inside an ``atomic`` block that was never left, so it cannot serve again;
    the raw connection is closed first, so that a pool does not hand it on either.
    """
    raw = connection.connection
    if raw is not None:
        with contextlib.suppress(Exception):  # a broken connection may refuse to be closed
            raw.close()
        connection.in_atomic_block = False
        connection.savepoint_ids = []
        connection.run_on_commit = []
        connection.close()
    del connections[connection.alias]
