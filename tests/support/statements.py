"""Which statements were sent."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

from django.db import connections


class SqlLog(list[str]):
    """The statements that this thread sent on an alias through Django's cursors, in order."""

    def __call__(
        self,
        execute: Callable[..., Any],
        sql: Any,
        params: Any,
        many: bool,
        context: dict[str, Any],
    ) -> Any:
        """Note a statement and let it pass: the form of Django's execute wrappers."""
        self.append(str(sql))
        return execute(sql, params, many, context)


@contextmanager
def recorded_sql(alias: str) -> Iterator[SqlLog]:
    """Record within the block."""
    log = SqlLog()
    with connections[alias].execute_wrapper(log):
        yield log


@contextmanager
def no_sql(alias: str) -> Iterator[None]:
    """Fail if this thread sends anything on the alias's connection, or opens one, in the block.

    The drivers are watched, too: a statement that passes Django's cursors by is also seen.
    """
    connection = connections[alias]
    with recorded_sql(alias) as log, ExitStack() as stack:

        def connect() -> None:
            log.append("(connect)")
            type(connection).connect(connection)

        stack.enter_context(mock.patch.object(connection, "connect", connect))
        if connection.connection is not None:
            watch = {"postgresql": _watch_psycopg, "sqlite": _watch_sqlite}[connection.vendor]
            stack.enter_context(watch(connection.connection, log))
        yield
        assert not log, f"these statements were sent: {log}"


@contextmanager
def _watch_psycopg(raw: Any, log: SqlLog) -> Iterator[None]:
    """Every exchange with the server is waited for in this one method."""

    def wait(*args: Any, **kwargs: Any) -> Any:
        log.append("(exchange with the server)")
        return type(raw).wait(raw, *args, **kwargs)

    with mock.patch.object(raw, "wait", wait):
        yield


@contextmanager
def _watch_sqlite(raw: Any, log: SqlLog) -> Iterator[None]:
    raw.set_trace_callback(log.append)
    try:
        yield
    finally:
        raw.set_trace_callback(None)
