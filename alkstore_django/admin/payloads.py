"""How a payload is shown: as JSON, as text, or in hexadecimal; never whole if it is large.

Only the beginning of it is ever read from the database.
"""

from __future__ import annotations

import codecs
import json
import re
from typing import Any

from django.db.models import QuerySet
from django.db.models.functions import Length, Substr
from django.utils.formats import number_format
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_variables

from .texts import preformatted

READ_AT_MOST = 64 * 1024
SHOWN_AT_MOST = 60_000
HEX_AT_MOST = 4 * 1024
HEX_WIDTH = 16

_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def with_beginning(rows: QuerySet[Any]) -> QuerySet[Any]:
    """Let the rows carry the beginning of their payload and its length, in its place."""
    beginning: QuerySet[Any] = rows.defer("payload").annotate(
        payload_start=Substr("payload", 1, READ_AT_MOST), payload_length=Length("payload")
    )
    return beginning


@sensitive_variables()
def payload_shown(row: Any) -> SafeString:
    """Return what a reader sees of the payload of a row that came ``with_beginning``."""
    # SQLite says NULL for the beginning of nothing.
    start, length = bytes(row.payload_start or b""), row.payload_length
    what, shown = _picture(start, is_whole=len(start) == length)
    note = _("%(length)s bytes, codec %(codec)s, shown as %(what)s") % {
        "length": number_format(length, force_grouping=True),
        "codec": row.codec,
        "what": what,
    }
    return format_html('<p class="alkstore-note">{}</p>', note) + shown


@sensitive_variables()
def _picture(start: bytes, *, is_whole: bool) -> tuple[str, SafeString]:
    """Return the name of the form that suits the bytes, and the bytes in that form."""
    if not start:
        return _("nothing"), SafeString("")
    text = _as_text(start, is_whole=is_whole)
    if text is None:
        return _("hexadecimal"), _hex(start)
    if is_whole and (pretty := _as_json(text)) is not None:
        return _("JSON"), preformatted(pretty, budget=SHOWN_AT_MOST)
    what = _("text") if is_whole else _("text, its beginning only")
    return what, preformatted(text, budget=SHOWN_AT_MOST)


@sensitive_variables()
def _as_text(start: bytes, *, is_whole: bool) -> str | None:
    """Return the bytes as text, if that is what they are; a character at the cut may be missing."""
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(start, final=is_whole)
    except UnicodeDecodeError:
        return None
    return None if _CONTROL.search(text) else text


@sensitive_variables()
def _as_json(text: str) -> str | None:
    """Return JSON indented, no more of it than is shown; ``None`` if it is none."""
    try:
        value = json.loads(text)
        pieces: list[str] = []
        size = 0
        for piece in json.JSONEncoder(indent=2, ensure_ascii=False).iterencode(value):
            pieces.append(piece)
            size += len(piece)
            if size > SHOWN_AT_MOST:
                break
        pretty = "".join(pieces)
        pretty.encode()
    except UnicodeEncodeError:  # a lone surrogate: only its escape can be shown
        return json.dumps(value)
    except (ValueError, RecursionError):
        return None
    return pretty


@sensitive_variables()
def _hex(start: bytes) -> SafeString:
    """Return lines of offset, bytes, and what of them is ASCII."""
    shown = start[:HEX_AT_MOST]
    lines = (_hex_line(shown, place) for place in range(0, len(shown), HEX_WIDTH))
    text = format_html('<pre class="alkstore-text">{}</pre>', format_html_join("\n", "{}", lines))
    if len(shown) == len(start):
        return text
    note = _("The first %(kept)s bytes.") % {"kept": number_format(len(shown), force_grouping=True)}
    return text + format_html('<p class="help alkstore-note">{}</p>', note)


@sensitive_variables()
def _hex_line(shown: bytes, place: int) -> tuple[str]:
    part = shown[place : place + HEX_WIDTH]
    readable = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in part)
    return (f"{place:06x}  {part.hex(' '):<{HEX_WIDTH * 3 - 1}}  {readable}",)
