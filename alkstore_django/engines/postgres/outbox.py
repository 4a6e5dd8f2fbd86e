"""Outboxes and inboxes on PostgreSQL. See ``engines/outbox.py`` for what each method promises."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ...core.options import Stamps
from ...core.records import Enqueued
from ..outbox import Outboxes
from . import outbox_sql
from .chunks import chunks


class PostgresOutbox(Outboxes):
    """The events of one schema."""

    statements = outbox_sql

    def enqueue_many(
        self, stamps: Stamps, payloads: Sequence[bytes], *, key: str
    ) -> list[Enqueued]:
        values = {**stamps.as_dict(), "key": key}
        with self.engine.together():
            stored = [self.enqueue(stamps, payloads[0], key=key)]
            for chunk in chunks(payloads[1:]):
                rows = self.engine.rows(self.sql.ENQUEUE_BEHIND, **values, payloads=chunk)
                stored += sorted(Enqueued._make(row) for row in rows)
        return stored

    def promote(self, queue: str, keys: Collection[str]) -> int:
        return self.engine.count(self.sql.PROMOTE, queue=queue, keys=list(keys)) if keys else 0
