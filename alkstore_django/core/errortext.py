"""Error texts as they are kept (CONTRACT 3.9)."""

from __future__ import annotations

import re

MAX_ERROR_LENGTH = 32_768
CUT_MARK = "… [cut]"

MAX_ATTEMPTS_EXCEEDED = "max attempts exceeded"
FAILED = "failed"
EXPIRED = "expired"

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def kept_error(error: object, *, default: str) -> str:
    """Return the text to store: verbatim, but storable and of bounded length.

    Only ``None`` means ``default``. What is no ``str`` goes through ``str()``. NUL and lone
    surrogates become U+FFFD; a longer text is cut to 32,768 characters, the mark included.
    Never raises because of the text.
    """
    if error is None:
        return default
    text = _UNSTORABLE.sub("\ufffd", _as_text(error))
    if len(text) > MAX_ERROR_LENGTH:
        text = text[: MAX_ERROR_LENGTH - len(CUT_MARK)] + CUT_MARK
    return text


def describe_exception(error: BaseException) -> str:
    """Return ``ValueError: what it says``, the text of a job that a handler's error failed."""
    name, text = type(error).__qualname__, _as_text(error)
    return f"{name}: {text}" if text else name


def _as_text(error: object) -> str:
    if isinstance(error, str):
        return error
    try:
        return str(error)
    except Exception:
        return f"<unprintable {type(error).__name__}>"
