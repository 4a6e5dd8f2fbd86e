"""Which database the shop uses: an entry for Django's DATABASES, from the environment."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured


def database(var_dir: Path, environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the DATABASES entry that ENGINE and DATABASE_URL ask for.

    Raises:
        ImproperlyConfigured: ENGINE is unknown, or DATABASE_URL cannot be understood.
    """
    engine = environ.get("ENGINE") or "sqlite"
    if engine == "sqlite":
        return sqlite(var_dir)
    if engine == "postgres":
        url = environ.get("DATABASE_URL")
        return from_url(url) if url else embedded(var_dir)
    raise ImproperlyConfigured(f"ENGINE must be 'sqlite' or 'postgres', got {engine!r}.")


def sqlite(var_dir: Path) -> dict[str, Any]:
    """One file, set up for several writers: WAL, the write lock taken at BEGIN, patience."""
    var_dir.mkdir(parents=True, exist_ok=True)
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": var_dir / "shop.sqlite3",
        "OPTIONS": {
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        },
    }


def embedded(var_dir: Path) -> dict[str, Any]:
    """The shop's own PostgreSQL server, running from now until the last process leaves it."""
    from project import embedded_postgres

    var_dir.mkdir(parents=True, exist_ok=True)
    server = embedded_postgres.join(var_dir / "postgres")
    return {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": str(server.socket_dir),
        "PORT": str(server.port),
        "NAME": server.database,
        "USER": server.user,
    }


def from_url(url: str) -> dict[str, Any]:
    """Read ``postgresql://user:password@host:port/name?option=value``, percent-decoded.

    The host may also be a folder of a Unix socket: ``?host=/run/postgresql``, or
    percent-encoded in the host's own place. Other options go to the driver as they are.
    """
    try:
        parts = urlsplit(url)
        options = dict(
            parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        )
    except ValueError as error:
        raise _bad_url(str(error)) from None
    if parts.scheme not in ("postgres", "postgresql"):
        raise _bad_url(f"its scheme must be postgresql, got {parts.scheme!r}")
    user, password, host, port = _authority(parts.netloc)
    entry = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": options.pop("dbname", "") or unquote(parts.path.removeprefix("/")),
        "USER": options.pop("user", "") or user,
        "PASSWORD": options.pop("password", "") or password,
        "HOST": options.pop("host", "") or host,
        "PORT": options.pop("port", "") or port,
        "OPTIONS": options,
    }
    if not entry["NAME"]:
        raise _bad_url("it names no database")
    if entry["PORT"] and not (entry["PORT"].isascii() and entry["PORT"].isdigit()):
        raise _bad_url(f"its port must be a number, got {entry['PORT']!r}")
    return entry


def _authority(netloc: str) -> tuple[str, str, str, str]:
    """Split ``user:password@host:port``; urlsplit's own split would lower a socket's path."""
    credentials, _, address = netloc.rpartition("@")
    user, _, password = credentials.partition(":")
    if address.startswith("["):
        host, _, port = address[1:].partition("]")
        port = port.removeprefix(":")
    else:
        host, _, port = address.partition(":")
    return unquote(user), unquote(password), unquote(host), port


def _bad_url(reason: str) -> ImproperlyConfigured:
    """The URL itself is left out: it may hold a password."""
    return ImproperlyConfigured(f"DATABASE_URL cannot be used: {reason}.")
