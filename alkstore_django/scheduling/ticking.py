"""A tick: every schedule that is due is visited once, and its elapsed boundaries become jobs.

Schedules are visited in batches, each in one transaction: their rows are locked, moved on and
fired, so that a boundary's job and its advance commit together or not at all. A crash refires,
and a second ticker passes over what this one holds. A schedule that is bad by itself is left
where it is, told of, and hinders no other (CONTRACT 4.5 to 4.7).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from django.db import Error

from ..commit_wake import wake_after_commit
from ..core.names import checked_name
from ..core.schedules import BEFORE_ALL, Advance, Due, Fire, Position
from ..core.spec import Plan, interval_s, plan
from ..engines.base import Engine
from ..exceptions import AlkstoreError
from ..signals import (
    announce,
    boundaries_skipped,
    is_heard,
    schedule_failed,
    schedule_fired,
    scheduler_logger,
)

BATCH = 100
"""Schedules in one transaction."""
MANY_JOBS = 1_000
"""No more schedules join a transaction that enqueues so many jobs already."""
TELL_AGAIN_AFTER_S = 60.0


class TickResult(NamedTuple):
    """What a tick did: schedules moved on, jobs enqueued."""

    n_advanced: int
    n_fired: int


class SpoiltSchedule(AlkstoreError):
    """A stored schedule's interval is not that of its spec: somebody has changed the row."""


@dataclass(slots=True)
class _Visit:
    """The schedules of one transaction, and what became of them."""

    due: list[Due] = field(default_factory=list)
    done: list[tuple[Due, Plan]] = field(default_factory=list)
    bad: list[tuple[Due, Exception]] = field(default_factory=list)


class Ticker:
    """Fires what is due on one alias.

    Args:
        keep: called before each batch: may it be done? False ends the tick; so does an error.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        keep: Callable[[], bool] = lambda: True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine = engine
        self._keep = keep
        self._clock = clock
        self._told_at: dict[str, float] = {}

    def tick(self, until: int) -> TickResult:
        """Visit the schedules whose next boundary is at ``until`` or before.

        Args:
            until: the present, as the database has told it, in epoch seconds.
        """
        n_advanced = n_fired = n_alone = 0
        position = BEFORE_ALL
        while self._keep():
            visit = _Visit()
            try:
                with self._engine.together():
                    self._visit(visit, until, position, n=1 if n_alone else BATCH)
            except Error as error:
                if not visit.due or self._engine.is_outage(error):
                    raise
                if len(visit.due) > 1:
                    n_alone = len(visit.due)  # one of them is bad: once more, one by one
                    continue
                visit = _Visit(visit.due, bad=[(visit.due[0], error)])
            if not visit.due:
                break
            position = visit.due[-1].position
            n_alone = max(n_alone - len(visit.due), 0)
            n_advanced += len(visit.done)
            n_fired += sum(len(planned.boundaries) for _, planned in visit.done)
            self._tell_fired(visit.done)
            for due, fault in visit.bad:
                self._tell_failed(due, fault)
        return TickResult(n_advanced, n_fired)

    def _visit(self, visit: _Visit, until: int, after: Position, *, n: int) -> None:
        """Lock some schedules, move the sound ones on, and enqueue their boundaries' jobs."""
        schedules = self._engine.schedules
        visit.due = _bounded(schedules.due(until, after=after, n=n), until)
        visit.bad = [(due, fault) for due in visit.due if (fault := _fault(due)) is not None]
        bad = {due.name for due, _ in visit.bad}
        plans = [(due, _plan(due, until)) for due in visit.due if due.name not in bad]
        advanced = schedules.advance([_advance(due, planned) for due, planned in plans])
        visit.done = [(due, planned) for due, planned in plans if due.name in advanced]
        fires = sorted(
            Fire(at, due.name) for due, planned in visit.done for at in planned.boundaries
        )
        if schedules.fire(fires) != len(fires):
            raise RuntimeError("a schedule has gone while it was locked")  # all is rolled back
        for queue in {due.queue for due, _ in visit.done}:
            wake_after_commit(self._engine, queue)

    def _tell_fired(self, plans: Sequence[tuple[Due, Plan]]) -> None:
        is_fired_heard = is_heard(schedule_fired, scheduler_logger)
        for due, planned in plans:
            if is_fired_heard:
                n_fired = len(planned.boundaries)
                announce(schedule_fired, type(self), **self._about(due), n_fired=n_fired)
            if planned.n_skipped:
                n_skipped = planned.n_skipped
                announce(boundaries_skipped, type(self), **self._about(due), n_skipped=n_skipped)

    def _tell_failed(self, due: Due, error: Exception) -> None:
        """Tell of a bad schedule, but not again within a minute."""
        now = self._clock()
        since = now - TELL_AGAIN_AFTER_S
        if self._told_at.get(due.name, float("-inf")) > since:
            return
        self._told_at = {name: at for name, at in self._told_at.items() if at > since}
        self._told_at[due.name] = now
        announce(schedule_failed, type(self), **self._about(due), exception=error)

    def _about(self, due: Due) -> dict[str, str]:
        """Return what every event about a schedule says."""
        return {"using": self._engine.using, "schedule": due.name, "queue": due.queue}


def _fault(due: Due) -> Exception | None:
    """Return what is wrong with a stored schedule by itself."""
    try:
        if interval_s(due.spec) != due.interval_s:
            return SpoiltSchedule(f"interval_s is {due.interval_s}, spec is {due.spec[:100]!r}")
        checked_name("queue", due.queue)
    except AlkstoreError as error:
        return error
    return None


def _bounded(due: list[Due], until: int) -> list[Due]:
    """Return as many schedules as make a transaction of bounded size, one at the least."""
    n_jobs = 0
    for place, schedule in enumerate(due):
        if n_jobs >= MANY_JOBS:
            return due[:place]
        n_jobs += len(_plan(schedule, until).boundaries)
    return due


def _plan(due: Due, until: int) -> Plan:
    return plan(due.next_boundary_at, due.interval_s, until)


def _advance(due: Due, planned: Plan) -> Advance:
    return Advance(
        name=due.name,
        from_at=due.next_boundary_at,
        next_boundary_at=planned.next_boundary_at,
        n_fired=len(planned.boundaries),
        n_skipped=planned.n_skipped,
        last_boundary_at=planned.boundaries[-1],
    )
