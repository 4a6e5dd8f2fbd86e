"""The id that the receiver of an event sees."""

from __future__ import annotations

import hashlib

from ..core.events import Event
from ..exceptions import InvalidOptions


def message_id(event: Event, source: str = "") -> str:
    """Return the id that a receiver tells this event from all others by.

    It is the same at every delivery of one event. A row's number alone would not do: two
    stores (staging and production, two tenants, a database made anew) count from 1 alike. So
    it ends in a digest of what else is known of the event. Two stores may still come to the
    same id for one outbox name, row number, second and payload; ``source`` tells them apart.
    """
    digest = hashlib.sha256()
    parts = (source, event.outbox, str(event.id), event.enqueued_at.isoformat())
    for part in (*(part.encode("utf-8", "surrogatepass") for part in parts), event.payload_bytes):
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return f"evt_{event.id}_{digest.hexdigest()[:24]}"


def checked_source(source: object) -> str:
    """Return a source, a ``str``, or raise ``InvalidOptions``."""
    if not isinstance(source, str):
        raise InvalidOptions("source", "must be a str", source)
    return source
