"""The one rule for names (CONTRACT 1.3)."""

from __future__ import annotations

from ..exceptions import InvalidName

MAX_NAME_LENGTH = 200
RESERVED_PREFIX = "__alkstore_"


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
