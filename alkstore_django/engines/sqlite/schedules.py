"""Schedules on SQLite. See ``engines/schedules.py`` for what each method promises."""

from __future__ import annotations

import json
from collections.abc import Sequence

from ...core.schedules import Advance, Fire
from ..schedules import Schedules
from ..statements import StatementRunner
from . import schedule_sql


class SQLiteSchedules(Schedules):
    """Many values travel as JSON. There are no locks on rows: who writes has the file."""

    def __init__(self, runner: StatementRunner) -> None:
        super().__init__(runner, schedule_sql)

    def advance(self, advances: Sequence[Advance]) -> set[str]:
        if not advances:
            return set()
        return {
            row[0] for row in self._runner.rows(self.sql.ADVANCE, advances=json.dumps(advances))
        }

    def fire(self, fires: Sequence[Fire]) -> int:
        return self._runner.count(self.sql.FIRE, fires=json.dumps(fires)) if fires else 0
