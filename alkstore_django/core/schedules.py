"""The values of schedules that cross the engine border."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from .options import Stamps


class Registered(StrEnum):
    """What a registration did."""

    ADDED = "added"
    CHANGED = "changed"
    LEFT = "left"


class Registration(NamedTuple):
    """A schedule as it is to be stored; all of it checked."""

    name: str
    spec: str
    interval_s: int
    stamps: Stamps
    payload: bytes
    declared: bool = False


class Position(NamedTuple):
    """A place in the order in which a tick visits schedules."""

    next_boundary_at: int
    name: str


BEFORE_ALL = Position(-(2**62), "")


class Due(NamedTuple):
    """A schedule that has a boundary to fire, its row locked by the reading transaction."""

    name: str
    queue: str
    spec: str
    interval_s: int
    next_boundary_at: int

    @property
    def position(self) -> Position:
        """Its place in the order of visits."""
        return Position(self.next_boundary_at, self.name)


class Advance(NamedTuple):
    """How a tick moves a schedule on, from one boundary to another."""

    name: str
    from_at: int
    next_boundary_at: int
    n_fired: int
    n_skipped: int
    last_boundary_at: int


class Fire(NamedTuple):
    """One job to enqueue: a boundary of a schedule."""

    boundary_at: int
    name: str


class Outlook(NamedTuple):
    """What lies ahead: whether anything is due, the next boundary after now, and now itself."""

    is_due: bool
    next_boundary_at: int | None
    now_us: int


class LedgerLine(NamedTuple):
    """What became of a schedule's boundaries; instants in epoch seconds.

    Attributes:
        n_expected: the boundaries up to ``next_boundary_at``, this one excluded.
        n_due: those that have elapsed and were not fired yet; they are no part of n_expected.
        adds_up: n_expected = n_fired + n_skipped, and the next boundary lies on the grid.
    """

    name: str
    spec: str
    queue: str
    declared: bool
    n_expected: int
    n_fired: int
    n_skipped: int
    n_due: int
    adds_up: bool
    next_boundary_at: int
    last_boundary_at: int | None
    now: int

    @property
    def lag_s(self) -> int:
        """How long the next boundary is overdue, in seconds; 0 if it lies ahead."""
        return max(self.now - self.next_boundary_at, 0)
