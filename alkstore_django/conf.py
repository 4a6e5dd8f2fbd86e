"""The settings of the package: the one place that reads ``settings.ALKSTORE``.

::

    ALKSTORE = {
        "default": {                    # a database alias; every key is optional
            "SCHEMA": "alkstore",       # PostgreSQL: the schema of the engine's tables
            "POLL_INTERVAL_S": 1,       # how often a waiting claimant looks again, seconds
            "NOTIFY": True,             # PostgreSQL: send NOTIFY after commits that enqueue
            "LISTEN": {                 # PostgreSQL: the route of the LISTEN connection
                "ALIAS": None,          # another alias of DATABASES that bypasses a pooler
                "OPTIONS": {},          # connection parameters that replace the alias's own
            },
            "MAX_PAYLOAD_BYTES": 67_108_864,
            "LEASE_S": 15,              # how long a scheduler leads without renewing, seconds
        },
    }
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.db import DEFAULT_DB_ALIAS

# Where the engine's tables live in a SQLite file there are no schemas; the name is unused.
MAX_SCHEMA_BYTES = 63


@dataclass(frozen=True, slots=True)
class ListenSettings:
    """The route of the LISTEN connection; empty means the alias's own."""

    alias: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """The settings of the store on one alias, defaults filled in and checked."""

    schema: str = "alkstore"
    poll_interval_s: float = 1.0
    notify: bool = True
    listen: ListenSettings = field(default_factory=ListenSettings)
    max_payload_bytes: int = 64 * 1024 * 1024
    lease_s: float = 15.0


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing wrong with ``settings.ALKSTORE``, for errors and system checks."""

    place: str
    text: str
    hint: str


def default_alias() -> str:
    """Return the alias of module-level queues: the only one the setting names, else default."""
    aliases = list(_raw()) if isinstance(_raw(), Mapping) else []
    return aliases[0] if len(aliases) == 1 else DEFAULT_DB_ALIAS


def store_aliases() -> tuple[str, ...]:
    """Return the aliases that carry a store: those that the setting names, else the default."""
    raw = _raw()
    return tuple(raw) if isinstance(raw, Mapping) and raw else (DEFAULT_DB_ALIAS,)


@cache
def store_settings(using: str) -> StoreSettings:
    """Return the settings of the store on ``using``.

    Raises:
        ImproperlyConfigured: the setting is wrong; the text names every fault.
    """
    faults = list(setting_faults())
    if faults:
        lines = "; ".join(f"{fault.place} {fault.text}" for fault in faults)
        raise ImproperlyConfigured(f"settings.{lines}")
    options = _raw().get(using, {})
    listen = options.get("LISTEN", {})
    return StoreSettings(
        schema=options.get("SCHEMA", "alkstore"),
        poll_interval_s=float(options.get("POLL_INTERVAL_S", 1)),
        notify=options.get("NOTIFY", True),
        listen=ListenSettings(listen.get("ALIAS"), dict(listen.get("OPTIONS", {}))),
        max_payload_bytes=options.get("MAX_PAYLOAD_BYTES", 64 * 1024 * 1024),
        lease_s=float(options.get("LEASE_S", 15)),
    )


def setting_faults() -> Iterator[Fault]:
    """Yield all that is wrong with ``settings.ALKSTORE``; runs no SQL."""
    raw = _raw()
    if not isinstance(raw, Mapping):
        yield Fault("ALKSTORE", "must be a dict keyed by database alias", "")
        return
    for alias, options in raw.items():
        place = f"ALKSTORE[{alias!r}]"
        if alias not in settings.DATABASES:
            yield Fault(
                place, "names no alias of DATABASES", _did_you_mean(alias, settings.DATABASES)
            )
        if not isinstance(options, Mapping):
            yield Fault(place, "must be a dict of options", "")
            continue
        yield from _unknown_keys(place, options, _RULES)
        for key, rule in _RULES.items():
            if key in options and (text := rule(options[key])):
                yield Fault(f"{place}[{key!r}]", text, "")
        if isinstance(options.get("LISTEN"), Mapping):
            yield from _listen_faults(f"{place}['LISTEN']", options["LISTEN"])


def _listen_faults(place: str, listen: Mapping[str, Any]) -> Iterator[Fault]:
    yield from _unknown_keys(place, listen, ("ALIAS", "OPTIONS"))
    alias = listen.get("ALIAS")
    if alias is not None and alias not in settings.DATABASES:
        hint = _did_you_mean(alias, settings.DATABASES)
        yield Fault(f"{place}['ALIAS']", "names no alias of DATABASES", hint)
    if not isinstance(listen.get("OPTIONS", {}), Mapping):
        yield Fault(f"{place}['OPTIONS']", "must be a dict of connection parameters", "")


def _unknown_keys(place: str, options: Mapping[str, Any], known: Any) -> Iterator[Fault]:
    for key in options:
        if key not in known:
            yield Fault(
                f"{place}[{key!r}]", "is no option of the package", _did_you_mean(key, known)
            )


def _did_you_mean(word: object, known: Any) -> str:
    candidates = {str(name).upper(): str(name) for name in known}
    close = difflib.get_close_matches(str(word).upper(), candidates, n=1)
    if close:
        return f"Did you mean {candidates[close[0]]!r}?"
    return "Known here: " + ", ".join(sorted(str(name) for name in known)) + "."


def _schema_rule(value: object) -> str | None:
    if not isinstance(value, str) or not value or "\x00" in value:
        return "must be a schema name: a non-empty str without NUL"
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        return "must not contain a lone surrogate"
    return None if size <= MAX_SCHEMA_BYTES else f"must be at most {MAX_SCHEMA_BYTES} bytes long"


def _interval_rule(value: object) -> str | None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0 < value <= 3600:  # type: ignore[operator]
        return "must be a number of seconds, above 0 and at most 3600"
    return None


def _lease_rule(value: object) -> str | None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 1 <= value <= 3600:  # type: ignore[operator]
        return "must be a number of seconds from 1 to 3600"
    return None


def _bool_rule(value: object) -> str | None:
    return None if isinstance(value, bool) else "must be True or False"


def _listen_rule(value: object) -> str | None:
    return None if isinstance(value, Mapping) else "must be a dict with ALIAS or OPTIONS"


def _bytes_rule(value: object) -> str | None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or not 1 <= value <= 512 * 1024 * 1024:  # type: ignore[operator]
        return "must be a number of bytes from 1 to 536870912"
    return None


_RULES = {
    "SCHEMA": _schema_rule,
    "POLL_INTERVAL_S": _interval_rule,
    "NOTIFY": _bool_rule,
    "LISTEN": _listen_rule,
    "MAX_PAYLOAD_BYTES": _bytes_rule,
    "LEASE_S": _lease_rule,
}


def _raw() -> Any:
    return getattr(settings, "ALKSTORE", {})


def _forget(*, setting: str, **_: Any) -> None:
    if setting in {"ALKSTORE", "DATABASES"}:
        store_settings.cache_clear()


setting_changed.connect(_forget, dispatch_uid="alkstore_django.conf")
