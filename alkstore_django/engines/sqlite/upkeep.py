"""Upkeep on SQLite. See ``engines/upkeep.py`` for what each method promises."""

from __future__ import annotations

import json
from collections.abc import Sequence

from ..upkeep import EnqueuedAgain, Upkeep
from . import upkeep_sql


class SQLiteUpkeep(Upkeep):
    """Loose index scans, and moves under the one write lock."""

    statements = upkeep_sql

    def enqueue_again(self, dead_ids: Sequence[int]) -> list[EnqueuedAgain]:
        insert, delete = self.sql.ENQUEUE_AGAIN
        ids = json.dumps(list(dead_ids))
        with self.engine.together():
            stored = sorted(self.engine.rows(insert, ids=ids))
            dead = sorted(self.engine.rows(delete, ids=ids))
        return [
            EnqueuedAgain(dead_id, job_id, queue, bool(ready))
            for (dead_id, queue), (job_id, ready) in zip(dead, stored, strict=True)
        ]
