"""Schedules that the code declares, and how they come into the database."""

from __future__ import annotations

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


def register_declared(
    engine: Engine, *, pruning: bool = False
) -> tuple[list[tuple[str, Registered]], list[str]]:
    """Bring what is declared on the engine's alias into the database, in one transaction.

    Where nothing is to be changed, nothing is locked or written.

    Args:
        pruning: also delete those that were declared once and are declared no more.
    Returns:
        each declared name with what was done, and the names deleted; both sorted.
    Raises:
        InvalidPayload: a payload is larger than the setting allows; nothing was stored.
    """
    declared = sorted(
        declared_on(engine.using), key=lambda found: found.name
    )  # one order for all, so that none deadlocks
    limit = engine.settings.max_payload_bytes
    for registration in declared:
        check_size(registration.payload, queue=registration.stamps.queue, max_bytes=limit)
    names = {registration.name for registration in declared}
    done = dict.fromkeys(sorted(names), Registered.LEFT)
    ahead = [found for found in declared if not engine.schedules.is_registered(found)]
    gone = [name for name in engine.schedules.declared_names() if pruning and name not in names]
    if ahead or gone:
        with engine.together():
            done |= {found.name: register(engine, found) for found in ahead}
            gone = [name for name in gone if unregister(engine, name, only_declared=True)]
    return list(done.items()), gone
