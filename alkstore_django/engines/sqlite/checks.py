"""What system checks say of an alias on SQLite, before any SQL."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping
from typing import Any

from django.core.checks import CheckMessage, Error, Warning

LEAST_VERSION = (3, 38, 0)
LEAST_BUSY_TIMEOUT_S = 5


def messages(alias: str, settings: Mapping[str, Any]) -> Iterator[CheckMessage]:
    """E004, W001 to W003: the library's version, and the options of the connection."""
    if sqlite3.sqlite_version_info < LEAST_VERSION:
        text = f"SQLite {sqlite3.sqlite_version} is too old; the engine needs 3.38."
        yield Error(text, id="alkstore.E004")
    options = settings.get("OPTIONS", {})
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
