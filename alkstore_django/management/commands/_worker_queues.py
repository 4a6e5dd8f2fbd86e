"""What ``alkstore_worker`` serves, by the values of ``--queue`` and ``--outbox``."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from django.core.management.base import CommandError

from ...core.names import backing_name, outbox_of
from ...handlers import Handler, declared_names, handlers_on

MAX_LIMIT = 1000


@dataclass(frozen=True)
class Kind:
    """How to speak of queues, or of outboxes."""

    noun: str
    plural: str
    handler: str
    remedy: str
    stored_name: Callable[[str], str]


QUEUE = Kind(
    "queue",
    "Queues",
    "handler",
    "put @queue.handler above a function of one job.",
    lambda name: name,
)
OUTBOX = Kind(
    "outbox",
    "Outboxes",
    "delivery",
    "put @outbox.deliver above a function of one event.",
    backing_name,
)


def chosen_handlers(
    using: str, queues: list[str] | None, outboxes: list[str] | None = None
) -> tuple[list[Handler], dict[str, int]]:
    """Return the handlers to serve and the limits of those that have one, by stored names.

    Raises:
        CommandError: it names the queue or the outbox that is unknown, has no handler, or has
            a wrong limit.
    """
    known = handlers_on(using)
    if queues is None and outboxes is None:
        if not known:
            raise CommandError(
                f"No queue on {using!r} has a handler. Declare one in an app's queues.py: "
                "@queue.handler above a function of one job, or @outbox.deliver above one of "
                "an event."
            )
        return list(known.values()), {}
    chosen: dict[str, int | None] = {}
    for kind, texts in ((QUEUE, queues), (OUTBOX, outboxes)):
        named = _chosen(kind, texts or [], using)
        chosen |= {kind.stored_name(name): limit for name, limit in named.items()}
    limits = {name: limit for name, limit in chosen.items() if limit is not None}
    return [known[name] for name in chosen], limits


def _chosen(kind: Kind, texts: list[str], using: str) -> dict[str, int | None]:
    """Return the names that are meant, each with its limit."""
    known = _own_names(kind, handlers_on(using))
    declared = _own_names(kind, declared_names(using))
    chosen: dict[str, int | None] = {}
    for text in texts:
        name, limit = split_limit(text, known | declared, kind.noun)
        if name not in known:
            raise CommandError(_complaint(kind, using, name, known, declared))
        if None not in (limit, earlier := chosen.get(name)) and limit != earlier:
            noun = kind.noun.capitalize()
            raise CommandError(f"{noun} {name!r} has two limits: {earlier} and {limit}.")
        chosen[name] = earlier if limit is None else limit
    return chosen


def _own_names(kind: Kind, stored: Collection[str] | Mapping[str, Handler]) -> set[str]:
    """Return the names that people know, of those that are of the kind."""
    outboxes = {name: outbox_of(name) for name in stored}
    if kind is OUTBOX:
        return {outbox for outbox in outboxes.values() if outbox is not None}
    return {name for name, outbox in outboxes.items() if outbox is None}


def split_limit(text: str, known: Collection[str], noun: str = "queue") -> tuple[str, int | None]:
    """Return the name and the limit that a value of ``--queue`` or ``--outbox`` means.

    A name may contain colons: what is known as a whole has no limit. Else what comes after the
    last colon is the limit, if it is a whole number.

    Raises:
        CommandError: the limit is out of bounds.
    """
    name, colon, digits = text.rpartition(":")
    if text in known or not (colon and name and digits.isascii() and digits.isdigit()):
        return text, None
    if not 1 <= int(digits[:10]) <= MAX_LIMIT:
        raise CommandError(
            f"The limit of {noun} {name!r} must be a whole number from 1 to {MAX_LIMIT}, "
            f"got {digits}."
        )
    return name, int(digits)


def _complaint(
    kind: Kind, using: str, name: str, known: Collection[str], declared: Collection[str]
) -> str:
    noun = kind.noun.capitalize()
    if name in declared:
        return f"{noun} {name!r} has no {kind.handler}: {kind.remedy}"
    close = difflib.get_close_matches(name, known, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    served = ", ".join(sorted(known)) or "none"
    return (
        f"{noun} {name!r} is unknown on {using!r}.{hint} {kind.plural} with a {kind.handler}: "
        f"{served}."
    )
