"""Settings of the benchmarks, from the environment that ``ground.py`` sets."""

import os
from typing import Any

from .environ import POSTGRES_SCHEMA, POSTGRES_VARIABLE, SQLITE_VARIABLE

SECRET_KEY = "benchmarks"  # noqa: S105
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = ["alkstore_django"]


def _sqlite(file: str) -> dict[str, Any]:
    """The database as the package's documents recommend it."""
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": file,
        "OPTIONS": {
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        },
    }


def _postgres(url: str) -> dict[str, Any]:
    """The database of a URL, with all that is created kept in a schema of the benchmarks' own."""
    from psycopg.conninfo import conninfo_to_dict

    parts = conninfo_to_dict(url)
    options = f"{parts.pop('options', '')} -c search_path={POSTGRES_SCHEMA}".strip()
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.pop("dbname", ""),
        "USER": parts.pop("user", ""),
        "PASSWORD": parts.pop("password", ""),
        "HOST": parts.pop("host", ""),
        "PORT": parts.pop("port", ""),
        "OPTIONS": {**parts, "options": options},
    }


DATABASES: dict[str, dict[str, Any]] = {"default": {}}
ALKSTORE: dict[str, dict[str, Any]] = {}

if file := os.environ.get(SQLITE_VARIABLE):
    DATABASES["sqlite"] = _sqlite(file)
    ALKSTORE["sqlite"] = {}
if url := os.environ.get(POSTGRES_VARIABLE):
    DATABASES["postgres"] = _postgres(url)
    ALKSTORE["postgres"] = {"SCHEMA": POSTGRES_SCHEMA}
