"""Upkeep on PostgreSQL. See ``engines/upkeep.py`` for what each method promises."""

from __future__ import annotations

from collections.abc import Sequence

from ..upkeep import EnqueuedAgain, Upkeep
from . import upkeep_sql


class PostgresUpkeep(Upkeep):
    """Loose index scans, and moves by one statement."""

    statements = upkeep_sql

    def enqueue_again(self, dead_ids: Sequence[int]) -> list[EnqueuedAgain]:
        ids = list(dead_ids)
        with self.engine.together():
            self.engine.rows(self.sql.LOCK_KEYS, ids=ids)
            return [
                EnqueuedAgain(*row) for row in self.engine.rows(self.sql.ENQUEUE_AGAIN, ids=ids)
            ]
