"""How instants, lengths and long texts are shown."""

from __future__ import annotations

import datetime as dt

from django.conf import settings
from django.utils import timezone
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString
from django.utils.timesince import timesince
from django.utils.translation import gettext as _

NOTHING = "-"
FORMAT = "%Y-%m-%d %H:%M:%S"


def moment(value: dt.datetime | None) -> str:
    """Return an instant in the current time zone; the tool tip has it in UTC."""
    if value is None:
        return NOTHING
    in_utc = (
        f"{value:{FORMAT}} UTC"
        if timezone.is_naive(value)
        else f"{value.astimezone(dt.UTC):{FORMAT}} UTC"
    )
    text = f"{_local(value):{FORMAT}}"
    return format_html('<time class="alkstore-time" title="{}">{}</time>', in_utc, text)


def moment_in_full(value: dt.datetime | None) -> str:
    """Return an instant with its zone, and how long ago that was, or will be."""
    if value is None:
        return NOTHING
    local = _local(value)
    return f"{local:{FORMAT}} {local.tzname() or 'UTC'} ({_distance(value)})"


def length(seconds: int) -> str:
    """Return a length of whole seconds: ``300 s (5 min)``."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds} s ({seconds // size} {unit})"
    return f"{seconds} s"


def one_line(start: str, end: str, most: int) -> str:
    """Return the first line of a text that says something; of a traceback the last line.

    Args:
        start: how the text begins.
        end: how it ends.
        most: how many characters are shown.
    """
    lines = [line.strip() for line in start.splitlines() if line.strip()]
    line = lines[0] if lines else ""
    if line.startswith("Traceback (most recent call last)"):
        line = end.strip().splitlines()[-1].strip()
    return line if len(line) <= most else line[: most - 1] + "…"


def preformatted(text: str, *, budget: int) -> SafeString:
    """Return a text as it is, escaped, and cut where its HTML would grow beyond a size in bytes."""
    kept = within(text, budget)
    if kept == text:
        return format_html('<pre class="alkstore-text">{}</pre>', text)
    note = _("Cut: the first %(kept)s of %(all)s characters.") % {
        "kept": len(kept),
        "all": len(text),
    }
    return format_html(
        '<pre class="alkstore-text">{}</pre><p class="help alkstore-note">{}</p>', kept, note
    )


def within(text: str, budget: int) -> str:
    """Return as much of a text as fits when it is escaped and encoded."""
    end = 0
    for step in (4_096, 64, 1):
        while end < len(text) and (size := _html_size(text[end : end + step])) <= budget:
            end, budget = end + step, budget - size
    return text[:end]


def _html_size(text: str) -> int:
    return len(escape(text).encode("utf-8", "replace"))


def _distance(value: dt.datetime) -> str:
    """Return how long ago an instant was, or how far ahead it lies."""
    now = timezone.now() if settings.USE_TZ else dt.datetime.now(dt.UTC).replace(tzinfo=None)
    seconds = int(abs((now - value).total_seconds()))
    length = f"{seconds} s" if seconds < 60 else timesince(min(value, now), max(value, now))
    return (_("%(length)s ago") if value <= now else _("in %(length)s")) % {"length": length}


def _local(value: dt.datetime) -> dt.datetime:
    return value if timezone.is_naive(value) else timezone.localtime(value)
