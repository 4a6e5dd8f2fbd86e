"""Outboxes and inboxes on SQLite. See ``engines/outbox.py`` for what each method promises."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

from ...core.options import Stamps
from ...core.records import Enqueued, JobRow
from ..outbox import Outboxes
from . import outbox_sql
from .chunks import MANY_ROWS, one_parameter_each


class SQLiteOutbox(Outboxes):
    """The events of one database file."""

    statements = outbox_sql

    def enqueue_many(
        self, stamps: Stamps, payloads: Sequence[bytes], *, key: str
    ) -> list[Enqueued]:
        values = {**stamps.as_dict(), "key": key}
        with self.engine.together():
            stored = [self.enqueue(stamps, payloads[0], key=key)]
            for start in range(1, len(payloads), MANY_ROWS):
                chunk = payloads[start : start + MANY_ROWS]
                statement, given = one_parameter_each(self.sql.ENQUEUE_BEHIND, chunk)
                rows = self.engine.rows(statement, **values, **given)
                stored += sorted(Enqueued(job_id, bool(ready)) for job_id, ready in rows)
        return stored

    def claim(self, queue: str, *, worker_id: str, n: int, token: int) -> list[JobRow]:
        if not self.engine.rows(self.sql.HAS_READY_IN_ORDER, queue=queue, n=1)[0][0]:
            return []
        return super().claim(queue, worker_id=worker_id, n=n, token=token)

    def promote(self, queue: str, keys: Collection[str]) -> int:
        if not keys:
            return 0
        return self.engine.count(self.sql.PROMOTE, queue=queue, keys=json.dumps(list(keys)))
