"""System checks, ids ``alkstore.E0xx`` and ``alkstore.W0xx``.

Only those tagged ``database`` run SQL.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError, connections
from django.db.migrations.recorder import MigrationRecorder

from .conf import setting_faults, store_aliases
from .engines.registry import engine_for, supports

TAG = "alkstore"
LEAST_SQLITE = (3, 38, 0)
LEAST_BUSY_TIMEOUT_S = 5


@register(TAG)
def check_settings(app_configs: Sequence[AppConfig] | None, **_: Any) -> list[CheckMessage]:
    """E001: ``settings.ALKSTORE`` holds something that the package does not know."""
    return [
        Error(f"settings.{fault.place} {fault.text}.", hint=fault.hint or None, id="alkstore.E001")
        for fault in setting_faults()
    ]


@register(TAG)
def check_engines(app_configs: Sequence[AppConfig] | None, **_: Any) -> list[CheckMessage]:
    """E002 to E004, W001 to W003: the databases that carry a store can do so, and well."""
    messages: list[CheckMessage] = []
    for alias in store_aliases():
        if alias in settings.DATABASES:
            messages += _engine_messages(alias)
    return messages


@register(Tags.database, TAG)
def check_tables(
    app_configs: Sequence[AppConfig] | None, databases: Sequence[str] | None = None, **_: Any
) -> list[CheckMessage]:
    """W004: the engine's tables are missing. W005: no worker can run. W006: no answer."""
    messages: list[CheckMessage] = []
    for alias in databases or ():
        if alias in store_aliases() and alias in settings.DATABASES and supports(alias):
            messages += _database_messages(alias)
    return messages


def _engine_messages(alias: str) -> Iterator[CheckMessage]:
    try:
        connection = connections[alias]
    except ImproperlyConfigured as error:
        text = f"The database alias {alias!r} cannot be used: {error}"
        yield Error(text, id="alkstore.E002")
        return
    if not supports(alias):
        text = f"The database alias {alias!r} is neither PostgreSQL nor SQLite."
        hint = "Name the alias that carries the jobs in settings.ALKSTORE."
        yield Error(text, hint=hint, id="alkstore.E002")
    elif connection.settings_dict["ENGINE"].endswith("sqlite3"):
        yield from _sqlite_messages(alias, connection.settings_dict.get("OPTIONS", {}))
    elif not _has_psycopg_3():
        text = "The PostgreSQL engine needs psycopg 3."
        yield Error(text, hint='pip install "alkstore-django[postgres]"', id="alkstore.E003")


def _sqlite_messages(alias: str, options: dict[str, Any]) -> Iterator[CheckMessage]:
    if sqlite3.sqlite_version_info < LEAST_SQLITE:
        text = f"SQLite {sqlite3.sqlite_version} is too old; the engine needs 3.38."
        yield Error(text, id="alkstore.E004")
    where = f"settings.DATABASES[{alias!r}]['OPTIONS']"
    init_command = str(options.get("init_command") or "")
    if not re.search(r"journal_mode\s*(=|\()\s*['\"]?wal", init_command, re.IGNORECASE):
        text = f"SQLite alias {alias!r} is not set to write-ahead logging."
        pragmas = "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
        hint = f"Set {where}['init_command'] = '{pragmas}'."
        yield Warning(text, hint=hint, id="alkstore.W001")
    if str(options.get("transaction_mode") or "").upper() not in {"IMMEDIATE", "EXCLUSIVE"}:
        text = f"SQLite alias {alias!r} does not begin its transactions IMMEDIATE."
        hint = f"Set {where}['transaction_mode'] = 'IMMEDIATE': deferred ones fail when busy."
        yield Warning(text, hint=hint, id="alkstore.W002")
    timeout = options.get("timeout", LEAST_BUSY_TIMEOUT_S)
    if not isinstance(timeout, int | float) or timeout < LEAST_BUSY_TIMEOUT_S:
        text = f"SQLite alias {alias!r} waits less than {LEAST_BUSY_TIMEOUT_S} s for a lock."
        hint = f"Set {where}['timeout'] = 20."
        yield Warning(text, hint=hint, id="alkstore.W003")


def _database_messages(alias: str) -> Iterator[CheckMessage]:
    try:
        engine = engine_for(alias)
        if _is_for_tests(alias) or not MigrationRecorder(connections[alias]).has_table():
            return  # nothing was migrated here yet: that is for `migrate` to do, not to hear
        if not engine.has_tables():
            text = f"The tables of alkstore_django are missing on {alias!r}."
            hint = f"Run: manage.py migrate alkstore_django --database {alias}"
            yield Warning(text, hint=hint, id="alkstore.W004")
        if fault := engine.worker_fault():
            yield Warning(f"No worker can run on {alias!r}: {fault}.", id="alkstore.W005")
    except DatabaseError as error:
        text = f"The database {alias!r} could not be asked: {error}"
        yield Warning(text, id="alkstore.W006")


def _is_for_tests(alias: str) -> bool:
    """Return whether this is the in-memory database that Django makes for a test run."""
    return "memorydb_" in str(connections[alias].settings_dict["NAME"])


def _has_psycopg_3() -> bool:
    try:
        import psycopg  # noqa: F401
    except ImportError:
        return False
    return True
