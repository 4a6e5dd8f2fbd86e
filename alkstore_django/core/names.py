"""The one rule for names (CONTRACT 1.3), and the names of outboxes (5.1)."""

from __future__ import annotations

from ..exceptions import InvalidName, InvalidOptions

MAX_NAME_LENGTH = 200
RESERVED_PREFIX = "__alkstore_"
OUTBOX_PREFIX = f"{RESERVED_PREFIX}outbox_"


def checked_name(kind: str, name: object) -> str:
    """Return ``name`` if it may name a ``kind``; else raise ``InvalidName``.

    A name is a ``str`` of 1 to 200 code points without NUL and lone surrogates, and does not
    start with the reserved prefix.
    """
    text = _checked_text(kind, name)
    if text.startswith(RESERVED_PREFIX):
        raise InvalidName(kind, name, f"must not start with the reserved {RESERVED_PREFIX!r}")
    return text


def checked_worker_id(worker_id: object) -> str:
    """Return ``worker_id`` if it obeys the rule for names; the reserved prefix is allowed."""
    return _checked_text("worker_id", worker_id)


def checked_key(key: object) -> str | None:
    """Return an event's key: ``None``, or a text of the rule, the reserved prefix allowed."""
    return None if key is None else _checked_label("key", key)


def checked_event_id(event_id: object) -> str:
    """Return what an inbox knows an event by: an int, or a text of the rule, as text."""
    if isinstance(event_id, int) and not isinstance(event_id, bool):
        event_id = _decimal(event_id)
    return _checked_label("event_id", event_id)


def _decimal(number: int) -> str:
    """The digits of a number, if there are not so many that Python refuses to write them."""
    return str(number) if number.bit_length() < 4_000 else "0" * (MAX_NAME_LENGTH + 1)


def _checked_label(field: str, value: object) -> str:
    try:
        return _checked_text(field, value)
    except InvalidName as error:
        raise InvalidOptions(field, error.rule, value) from None


def backing_name(outbox: str) -> str:
    """Return the name of the queue behind an outbox; no ``Queue`` can have it."""
    return f"{OUTBOX_PREFIX}{outbox}"


def outbox_of(queue: str) -> str | None:
    """Return the outbox that a queue is behind; ``None`` for one that is nothing but a queue."""
    return queue.removeprefix(OUTBOX_PREFIX) if queue.startswith(OUTBOX_PREFIX) else None


def shown_queue(queue: str) -> str:
    """Return what people call a queue: its name, or ``outbox NAME``."""
    outbox = outbox_of(queue)
    return queue if outbox is None else f"outbox {outbox}"


def described_queue(queue: str) -> str:
    """Return what a queue is and what people call it, for an error: ``outbox 'orders'``."""
    outbox = outbox_of(queue)
    return f"queue {queue!r}" if outbox is None else f"outbox {outbox!r}"


def _checked_text(kind: str, name: object) -> str:
    if not isinstance(name, str):
        raise InvalidName(kind, name, "must be a str")
    if not 1 <= len(name) <= MAX_NAME_LENGTH:
        rule = f"must be 1 to {MAX_NAME_LENGTH} characters long"
        raise InvalidName(kind, name, rule)
    if "\x00" in name:
        raise InvalidName(kind, name, "must not contain NUL")
    if not name.isascii() and any("\ud800" <= character <= "\udfff" for character in name):
        raise InvalidName(kind, name, "must not contain a lone surrogate")
    return name
