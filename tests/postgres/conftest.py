"""What only PostgreSQL has: notifications, and how many there are."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from django.db import connections
from psycopg import sql

from alkstore_django.engines.postgres.wake import channel_name
from alkstore_django.engines.registry import engine_for

PATIENCE_S = 30


@pytest.fixture(params=["postgres"])
def alias(alias):
    """Only this engine's alias."""
    return alias


def direct_connection(alias: str = "postgres") -> psycopg.Connection:
    """A session of the test's own, in autocommit, past Django."""
    parameters = dict(connections[alias].get_connection_params())
    for key in ("cursor_factory", "context", "prepare_threshold"):
        parameters.pop(key, None)
    return psycopg.connect(**parameters, autocommit=True)


class Ear:
    """A session that hears the notifications of some queues."""

    def __init__(self, connection: psycopg.Connection, channels: dict[str, str]) -> None:
        self._connection = connection
        self._channels = channels
        self._round = 0

    def heard(self) -> list[str]:
        """The queues of all notifications that were committed until now, in order.

        A notification of our own, sent last, arrives last: what was sent before it is there.
        """
        self._round += 1
        self._connection.execute("SELECT pg_notify('end of round', %s)", [str(self._round)])
        heard: list[str] = []
        for notification in self._connection.notifies(timeout=PATIENCE_S):
            if notification.channel != "end of round":
                heard.append(self._channels[notification.channel])
            elif notification.payload == str(self._round):
                return heard
        raise AssertionError("the notifications do not end")


@contextmanager
def ear(*queues: str, alias: str = "postgres", schema: str = "alkstore") -> Iterator[Ear]:
    """Listen to queues within the block."""
    channels = {channel_name(schema, queue): queue for queue in queues}
    with direct_connection(alias) as connection:
        for channel in [*channels, "end of round"]:
            connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
        yield Ear(connection, channels)


@pytest.fixture
def untouched_tables(alias):
    """Empty tables for one test: no rows, pages or statistics of others, and no autovacuum, which
    would take statistics at a moment of its own."""
    engine = engine_for(alias)

    def set_autovacuum(state: str) -> None:
        with connections[alias].cursor() as cursor:
            for table in ("job", "dead_job"):
                cursor.execute(f"ALTER TABLE alkstore.{table} SET (autovacuum_enabled = {state})")
                cursor.execute(
                    f"DELETE FROM pg_statistic WHERE starelid = 'alkstore.{table}'::regclass"
                )

    set_autovacuum("off")
    engine.empty()
    yield
    engine.empty()
    set_autovacuum("on")
