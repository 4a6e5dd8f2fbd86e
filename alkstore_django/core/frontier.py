"""How far a worker's claims of one queue have got, per priority.

A worker that always looked from the start would walk again and again over what it has
claimed before: on PostgreSQL such rows leave entries behind in the index, and as long as any
session holds an older snapshot nobody may remove them. So it looks from its frontier on, and
at least once a second from the start, for what appeared behind it: a backdated job, a
retried one, a commit that was overtaken.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .records import JobRow

LAG_IDS = 256
"""How many ids the frontier lags behind, for commits that overtake each other."""

MAX_PRIORITIES = 64
"""How many priorities are remembered; beyond, the frontier begins anew."""

BELOW_ALL = -(2**31) - 1
ABOVE_ALL = 2**31


class Segment(NamedTuple):
    """A part of a queue: one priority from a position on, or the priorities in a gap.

    With ``low == high``: that priority, from ``(run_at, id)`` on. With ``low < high``: every
    priority strictly between, whole.
    """

    low: int
    high: int
    run_at: int
    id: int


class Frontier:
    """The position reached in each priority of a queue."""

    def __init__(self) -> None:
        self._reached: dict[int, tuple[int, int]] = {}

    def note(self, rows: Sequence[JobRow], *, full: bool) -> None:
        """Take in the rows of a claim, which are in claim order.

        Args:
            full: as many rows came as were asked for, so that more may follow right behind
                the last of them, even where the frontier had been before.
        """
        if not rows:
            return
        last = rows[-1]
        if rows[0].priority != last.priority:
            for row in rows:
                self._advance(row)
        if full:
            self._reached[last.priority] = (last.run_at, last.id)
        else:
            self._advance(last)
        if len(self._reached) > MAX_PRIORITIES:
            self._reached.clear()

    def _advance(self, row: JobRow) -> None:
        position = (row.run_at, row.id)
        self._reached[row.priority] = max(position, self._reached.get(row.priority, position))

    def segments(self) -> list[Segment]:
        """Return the segments that cover all but what lies behind, in claim order."""
        segments = []
        above = ABOVE_ALL
        for priority in sorted(self._reached, reverse=True):
            run_at, job_id = self._reached[priority]
            segments.append(Segment(priority, above, 0, 0))
            segments.append(Segment(priority, priority, run_at, job_id - LAG_IDS))
            above = priority
        segments.append(Segment(BELOW_ALL, above, 0, 0))
        return segments
