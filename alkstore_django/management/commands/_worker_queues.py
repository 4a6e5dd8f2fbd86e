"""Which queues ``alkstore_worker`` serves, by the values of ``--queue``."""

from __future__ import annotations

import difflib
from collections.abc import Collection

from django.core.management.base import CommandError

from ...handlers import Handler, declared_names, handlers_on

MAX_LIMIT = 1000


def chosen_handlers(using: str, texts: list[str] | None) -> tuple[list[Handler], dict[str, int]]:
    """Return the handlers to serve and the limits of those that have one.

    Raises:
        CommandError: it names the queue that is unknown, has no handler, or has a wrong limit.
    """
    known = handlers_on(using)
    if texts is None:
        if not known:
            raise CommandError(
                f"No queue on {using!r} has a handler. Declare one in an app's queues.py: "
                "@queue.handler above a function of one job."
            )
        return list(known.values()), {}
    declared = declared_names(using)
    chosen: dict[str, int | None] = {}
    for text in texts:
        name, limit = split_limit(text, known.keys() | declared)
        if name not in known:
            raise CommandError(_complaint(using, name, known, declared))
        if None not in (limit, earlier := chosen.get(name)) and limit != earlier:
            raise CommandError(f"Queue {name!r} has two limits: {earlier} and {limit}.")
        chosen[name] = earlier if limit is None else limit
    limits = {name: limit for name, limit in chosen.items() if limit is not None}
    return [known[name] for name in chosen], limits


def split_limit(text: str, known: Collection[str]) -> tuple[str, int | None]:
    """Return the name and the limit that a value of ``--queue`` means.

    A name may contain colons: what is a known queue as a whole has no limit. Else what comes
    after the last colon is the limit, if it is a whole number.

    Raises:
        CommandError: the limit is out of bounds.
    """
    name, colon, digits = text.rpartition(":")
    if text in known or not (colon and name and digits.isascii() and digits.isdigit()):
        return text, None
    if not 1 <= int(digits[:10]) <= MAX_LIMIT:
        raise CommandError(
            f"The limit of queue {name!r} must be a whole number from 1 to {MAX_LIMIT}, "
            f"got {digits}."
        )
    return name, int(digits)


def _complaint(using: str, name: str, known: Collection[str], declared: Collection[str]) -> str:
    if name in declared:
        return f"Queue {name!r} has no handler: put @queue.handler above a function of one job."
    close = difflib.get_close_matches(name, known, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    served = ", ".join(sorted(known)) or "none"
    return f"Queue {name!r} is unknown on {using!r}.{hint} Queues with a handler: {served}."
