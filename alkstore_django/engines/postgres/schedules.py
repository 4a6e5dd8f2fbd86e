"""Schedules on PostgreSQL. See ``engines/schedules.py`` for what each method promises."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.schedules import Advance, Fire
from ..schedules import Schedules
from . import schedule_sql


class PostgresSchedules(Schedules):
    """Many values travel as arrays."""

    statements = schedule_sql

    def advance(self, advances: Sequence[Advance]) -> set[str]:
        if not advances:
            return set()
        names, froms, nexts, fireds, skippeds, lasts = map(list, zip(*advances, strict=True))
        rows = self.engine.rows(
            self.sql.ADVANCE,
            names=names, froms=froms, nexts=nexts, fireds=fireds, skippeds=skippeds, lasts=lasts,
        )  # fmt: skip
        return {row[0] for row in rows}

    def fire(self, fires: Sequence[Fire]) -> int:
        if not fires:
            return 0
        boundaries, names = map(list, zip(*fires, strict=True))
        return self.engine.count(self.sql.FIRE, boundaries=boundaries, names=names)
