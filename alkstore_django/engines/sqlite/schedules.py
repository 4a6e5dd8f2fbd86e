"""Schedules on SQLite. See ``engines/schedules.py`` for what each method promises."""

from __future__ import annotations

import json
from collections.abc import Sequence

from ...core.schedules import Advance, Fire
from ..schedules import Schedules
from . import schedule_sql


class SQLiteSchedules(Schedules):
    """Many values travel as JSON. There are no locks on rows: who writes has the file."""

    statements = schedule_sql

    def advance(self, advances: Sequence[Advance]) -> set[str]:
        if not advances:
            return set()
        return {row[0] for row in self.engine.rows(self.sql.ADVANCE, advances=json.dumps(advances))}

    def fire(self, fires: Sequence[Fire]) -> int:
        return self.engine.count(self.sql.FIRE, fires=json.dumps(fires)) if fires else 0
