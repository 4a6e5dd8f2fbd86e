"""Shops to test with, each with a database of its own."""

import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.example.shops import PROJECT, Data, PostgresShop, Shop, SqliteShop, server_url

sys.path.insert(0, str(PROJECT))


@pytest.fixture
def data(tmp_path: Path) -> Data:
    """Files with two orders, three lines, two customers and two products."""
    return Data(tmp_path / "data")


@pytest.fixture
def sqlite_shop(tmp_path: Path) -> Shop:
    return SqliteShop(tmp_path / "var")


@pytest.fixture
def postgres_shop(tmp_path: Path) -> Iterator[Shop]:
    name = f"shop_{uuid.uuid4().hex}"
    with psycopg.connect(server_url("postgres"), autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name}")
        yield PostgresShop(tmp_path / "var", server_url(name))
        server.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(params=["sqlite", "postgres"])
def shop(request: pytest.FixtureRequest) -> Shop:
    """A new shop on each engine."""
    return request.getfixturevalue(f"{request.param}_shop")
