"""Schedules that the code declares, and how they come into the database."""

from __future__ import annotations

from collections.abc import Iterator

from django.core.exceptions import ImproperlyConfigured

from ..commit_wake import wake_after_commit
from ..core.payloads import check_size
from ..core.schedules import Registered, Registration
from ..engines.base import Engine
from .leadership import LEASE_NAME

_declared: dict[tuple[str, str], Registration] = {}


def declare(using: str, registration: Registration) -> None:
    """Remember a declaration.

    Raises:
        ImproperlyConfigured: another one of that name was declared on the alias.
    """
    other = _declared.setdefault((using, registration.name), registration)
    if other != registration:
        raise ImproperlyConfigured(
            f"schedule {registration.name!r} is declared twice on {using!r}, and differently"
        )


def declared_on(using: str) -> list[Registration]:
    """Return what is declared on an alias, in the order of declaration."""
    return [found for (alias, _), found in _declared.items() if alias == using]


def register(engine: Engine, registration: Registration) -> Registered:
    """Store a schedule; if that changes anything, wake the runner after the commit."""
    done = engine.schedules.register(registration)
    if done is not Registered.LEFT:
        wake_after_commit(engine, LEASE_NAME)
    return done


def unregister(engine: Engine, name: str, *, only_declared: bool = False) -> bool:
    """Delete a schedule; return whether there was one."""
    is_gone = engine.schedules.unregister(name, only_declared=only_declared)
    if is_gone:
        wake_after_commit(engine, LEASE_NAME)
    return is_gone


def register_declared(engine: Engine) -> Iterator[tuple[str, Registered]]:
    """Store what is declared on the engine's alias; yield each name and what was done.

    Raises:
        InvalidPayload: a payload is larger than the setting allows; nothing was stored.
    """
    declared = declared_on(engine.using)
    for registration in declared:
        limit = engine.settings.max_payload_bytes
        check_size(registration.payload, queue=registration.stamps.queue, max_bytes=limit)
    for registration in declared:
        yield registration.name, register(engine, registration)


def prune(engine: Engine) -> Iterator[str]:
    """Delete the stored schedules that were declared once and are no more; yield their names."""
    declared = {registration.name for registration in declared_on(engine.using)}
    for name in engine.schedules.declared_names():
        if name not in declared and unregister(engine, name, only_declared=True):
            yield name
