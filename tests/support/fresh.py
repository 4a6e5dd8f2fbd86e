"""Databases that nobody has migrated yet, each for one test."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from django.conf import settings
from django.core.management import call_command
from django.db import connections
from django.test import override_settings

ALIAS = "fresh"


@contextmanager
def fresh_database(
    like: str, folder: Path, options: dict[str, Any] | None = None, **store: Any
) -> Iterator[str]:
    """Within the block, the alias ``fresh`` leads to an empty database, like that of ``like``.

    Args:
        options: connection options beside those of ``like``.
        store: what ``ALKSTORE`` says of the alias.
    """
    make = {"sqlite": _sqlite_file, "postgresql": _postgres_database}[connections[like].vendor]
    with make(like, folder) as name:
        described = connections.settings[like]
        connections.settings[ALIAS] = {
            **described,
            "NAME": name,
            "OPTIONS": {**described.get("OPTIONS", {}), **(options or {})},
        }
        try:
            with override_settings(ALKSTORE={**settings.ALKSTORE, ALIAS: store}):
                yield ALIAS
        finally:
            connections[ALIAS].close()
            del connections[ALIAS]
            del connections.settings[ALIAS]


def migrate(alias: str, target: str | None = None) -> None:
    """Run ``manage.py migrate alkstore_django [target]``."""
    arguments = ["alkstore_django", *([target] if target else [])]
    call_command("migrate", *arguments, database=alias, verbosity=0, interactive=False)


def engine_objects(alias: str) -> set[str]:
    """The tables and indexes that the package has in the database, in whatever schema."""
    statement = {
        "sqlite": "SELECT name FROM sqlite_master WHERE name LIKE '\\_\\_alkstore%' ESCAPE '\\'",
        "postgresql": (
            "SELECT nspname || '.' || relname"
            " FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace"
            " WHERE relkind IN ('r', 'i', 'S', 'v') AND nspname NOT LIKE 'pg\\_%'"
            " AND nspname <> 'information_schema' AND relname NOT LIKE 'django\\_%'"
        ),
    }[connections[alias].vendor]
    with connections[alias].cursor() as cursor:
        cursor.execute(statement)
        return {row[0] for row in cursor.fetchall()}


@contextmanager
def _sqlite_file(like: str, folder: Path) -> Iterator[str]:
    yield str(folder / "fresh.sqlite3")


@contextmanager
def _postgres_database(like: str, folder: Path) -> Iterator[str]:
    name = f"fresh_{secrets.token_hex(6)}"
    parameters = {**connections[like].get_connection_params(), "dbname": "postgres"}
    for key in ("cursor_factory", "context", "prepare_threshold"):
        parameters.pop(key, None)
    with psycopg.connect(**parameters, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name}")
        try:
            yield name
        finally:
            server.execute(f"DROP DATABASE {name} WITH (FORCE)")
