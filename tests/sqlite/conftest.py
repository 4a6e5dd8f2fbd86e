"""Only SQLite."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db import connections


@pytest.fixture(params=["sqlite"])
def alias(alias):
    """Only this engine's alias."""
    return alias


@contextmanager
def direct_connection(alias: str = "sqlite") -> Iterator[sqlite3.Connection]:
    """A connection of the test's own, in autocommit, past Django."""
    name = connections[alias].get_connection_params()["database"]
    connection = sqlite3.connect(name, isolation_level=None, timeout=20)
    try:
        yield connection
    finally:
        connection.close()
