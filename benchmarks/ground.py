"""The ground that the benchmarks stand on: fresh databases, migrated, and gone at the end."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import django
from django.core.management import call_command
from django.db import connections

from .environ import POSTGRES_SCHEMA, POSTGRES_VARIABLE, SQLITE_VARIABLE
from .postgres_server import running_server
from .raw.base import RawStore

ENGINES = ("sqlite", "postgres")
MAKE_NOTE = {
    "sqlite": "CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT NOT NULL) STRICT",
    "postgres": "CREATE TABLE note (id bigserial PRIMARY KEY, text text NOT NULL)",
}


@contextlib.contextmanager
def prepared(engines: tuple[str, ...]) -> Iterator[None]:
    """Make the databases of these engines and set Django up on them.

    The environment that says where they are is inherited by the processes that are measured.
    """
    with contextlib.ExitStack() as cleanup:
        folder = Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="alkstore-bench-")))
        folder.chmod(0o711)  # root's server runs as somebody else
        if "sqlite" in engines:
            os.environ[SQLITE_VARIABLE] = str(folder / "package.sqlite3")
        if "postgres" in engines:
            os.environ[POSTGRES_VARIABLE] = cleanup.enter_context(_postgres(folder / "postgres"))
        os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.settings"
        django.setup()
        cleanup.callback(connections.close_all)
        for alias in engines:
            call_command("migrate", database=alias, verbosity=0)
            with connections[alias].cursor() as cursor:
                cursor.execute(MAKE_NOTE[alias])
            with contextlib.closing(raw_store(alias)) as raw:
                raw.create()
        yield


@contextlib.contextmanager
def _postgres(folder: Path) -> Iterator[str]:
    """Yield the URL of a server: the one of DATABASE_URL, else one of our own.

    Only the schemas of the benchmarks' own are touched; they are dropped before and after.
    """
    import psycopg

    def drop_schemas(url: str) -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            for schema in (POSTGRES_SCHEMA, f"{POSTGRES_SCHEMA}_raw"):
                connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")

    with contextlib.ExitStack() as cleanup:
        url = os.environ.get("DATABASE_URL")
        if url:
            drop_schemas(url)
            cleanup.callback(drop_schemas, url)
        else:
            folder.mkdir()
            url = cleanup.enter_context(running_server(folder))
        with psycopg.connect(url) as connection:
            connection.execute(f"CREATE SCHEMA {POSTGRES_SCHEMA}")
        yield url


def raw_store(alias: str) -> RawStore:
    """Return a new raw store of an engine, on a connection of its own."""
    if alias == "postgres":
        from .raw.postgres import RawPostgres

        return RawPostgres()
    from .raw.sqlite import RawSQLite

    return RawSQLite()
