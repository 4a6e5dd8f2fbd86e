"""Outboxes and inboxes on SQLite. See ``engines/outbox.py`` for what each method promises."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

from ...core.options import Stamps
from ...core.records import Enqueued, JobRow
from ..outbox import Outboxes, with_keys
from ..statements import StatementRunner, claimed_rows
from . import outbox_sql
from .chunks import MANY_ROWS, one_parameter_each


class SQLiteOutbox(Outboxes):
    """The events of one database file."""

    def __init__(self, engine: StatementRunner) -> None:
        super().__init__(engine, outbox_sql)

    def enqueue(self, stamps: Stamps, payload: bytes, *, key: str) -> Enqueued:
        values = {**stamps.as_dict(), "key": key}
        rows = self._engine.rows(self.sql.ENQUEUE_KEYED, **values, payload=payload)
        return Enqueued(rows[0][0], bool(rows[0][1]))

    def enqueue_many(
        self, stamps: Stamps, payloads: Sequence[bytes], *, key: str
    ) -> list[Enqueued]:
        values = {**stamps.as_dict(), "key": key}
        with self._engine.together():
            stored = [self.enqueue(stamps, payloads[0], key=key)]
            for start in range(1, len(payloads), MANY_ROWS):
                chunk = payloads[start : start + MANY_ROWS]
                statement, given = one_parameter_each(self.sql.ENQUEUE_BEHIND, chunk)
                rows = self._engine.rows(statement, **values, **given)
                stored += sorted(Enqueued(job_id, bool(ready)) for job_id, ready in rows)
        return stored

    def claim(self, queue: str, *, worker_id: str, n: int, token: int) -> list[JobRow]:
        if not self._engine.rows(self.sql.HAS_READY_IN_ORDER, queue=queue, n=1)[0][0]:
            return []
        values = {"queue": queue, "worker_id": worker_id, "n": n, "token": token}
        rows = self._engine.rows(self.sql.CLAIM_IN_ORDER, **values)
        claimed = claimed_rows([row[:-1] for row in rows], queue, worker_id, token)
        return with_keys(claimed, {row[0]: row[-1] for row in rows})

    def promote(self, queue: str, keys: Collection[str]) -> int:
        if not keys:
            return 0
        return self._engine.count(self.sql.PROMOTE, queue=queue, keys=json.dumps(list(keys)))

    def waiting_keys(self, queue: str, *, after: str, limit: int) -> list[tuple[str, bool]]:
        values = {"queue": queue, "after": after, "limit": limit}
        rows = self._engine.rows(self.sql.WAITING_KEYS, **values)
        return [(key, bool(is_stranded)) for key, is_stranded in rows]

    def note_seen(self, consumer: str, event_id: str) -> bool:
        values = {"consumer": consumer, "event_id": event_id}
        return self._engine.count(self.sql.NOTE_SEEN, **values) == 1

    def forget_seen(self, consumer: str, *, retention_s: int, limit: int) -> int:
        values = {"consumer": consumer, "retention_s": retention_s, "limit": limit}
        return self._engine.count(self.sql.FORGET_SEEN, **values)
