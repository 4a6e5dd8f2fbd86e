"""Which engine serves an alias: the one place that reads ``connection.vendor``."""

from __future__ import annotations

import os
import threading
from importlib import import_module
from typing import Any

from django.core.checks import CheckMessage
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.db import connections

from ..conf import store_settings
from .base import Engine

_ENGINES = {
    "postgresql": ("alkstore_django.engines.postgres", "PostgresEngine"),
    "sqlite": ("alkstore_django.engines.sqlite", "SQLiteEngine"),
}

_lock = threading.Lock()
_made: dict[str, Engine] = {}
_inherited: list[Any] = []


def engine_for(using: str) -> Engine:
    """Return the engine of an alias, one per alias and process; runs no SQL.

    Raises:
        django.utils.connection.ConnectionDoesNotExist: DATABASES has no such alias.
        ImproperlyConfigured: no engine serves that database, or ALKSTORE is wrong.
    """
    engine = _made.get(using)
    if engine is None:
        with _lock:
            engine = _made.get(using) or _made.setdefault(using, _make(using))
    return engine


def supports(using: str) -> bool:
    """Return whether an engine serves the database of the alias."""
    return connections[using].vendor in _ENGINES


def check_messages(using: str) -> list[CheckMessage]:
    """Return what the engine's own system checks say of a supported alias; runs no SQL."""
    connection = connections[using]
    package, _ = _ENGINES[connection.vendor]
    return list(import_module(f"{package}.checks").messages(using, connection.settings_dict))


def _make(using: str) -> Engine:
    vendor = connections[using].vendor
    if vendor not in _ENGINES:
        raise ImproperlyConfigured(
            f"alkstore_django serves PostgreSQL and SQLite; the alias {using!r} is {vendor}"
        )
    package, name = _ENGINES[vendor]
    engine: Engine = getattr(import_module(f"{package}.engine"), name)(using, store_settings(using))
    return engine


def _leave_to_parent() -> None:
    """In a forked child: connect anew, and leave the parent's connections untouched.

    They are kept alive for ever, since closing one would say goodbye on the parent's socket.
    """
    for connection in connections.all(initialized_only=True):
        if connection.alias in _made and connection.connection is not None:
            _inherited.append(connection.connection)
            connection.connection = None
            del connections[connection.alias]


def _forget(*, setting: str, **_: Any) -> None:
    if setting in {"ALKSTORE", "DATABASES"}:
        _made.clear()


setting_changed.connect(_forget, dispatch_uid="alkstore_django.engines")
if hasattr(os, "register_at_fork"):  # not on Windows, which cannot fork
    os.register_at_fork(after_in_child=_leave_to_parent)
