"""System checks, ids ``alkstore.E0xx`` and ``alkstore.W0xx``.

Only those tagged ``database`` run SQL.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError, connections
from django.db.migrations.recorder import MigrationRecorder

from .conf import setting_faults, store_aliases
from .engines.registry import check_messages, engine_for, supports

TAG = "alkstore"


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
        connections[alias]
    except ImproperlyConfigured as error:
        text = f"The database alias {alias!r} cannot be used: {error}"
        yield Error(text, id="alkstore.E002")
        return
    if not supports(alias):
        text = f"The database alias {alias!r} is neither PostgreSQL nor SQLite."
        hint = "Name the alias that carries the jobs in settings.ALKSTORE."
        yield Error(text, hint=hint, id="alkstore.E002")
    else:
        yield from check_messages(alias)


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
