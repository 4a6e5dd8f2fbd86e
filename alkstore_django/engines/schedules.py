"""The contract of an engine's schedules and leases; the docstrings are the law.

Clock and transactions are those of ``engines/base.py``. The rows of schedules carry a ledger:
in every committed state n_before + (next_boundary_at - first_boundary_at) / interval_s, the
boundaries that there were, is n_fired + n_skipped, what became of them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from ..core.schedules import (
    Advance,
    Due,
    Fire,
    LedgerLine,
    Outlook,
    Position,
    Registered,
    Registration,
)
from .statements import EnginePart


class Schedules(EnginePart):
    """The schedules and leases of one database alias."""

    # -- registering ----------------------------------------------------------------------

    def register(self, registration: Registration) -> Registered:
        """Add or change the schedule of that name; write nothing if all is there already.

        A new one has its first boundary at now + interval. The same interval keeps the grid
        and the next boundary. Another begins a new grid at now + interval: what had elapsed
        of the old one and was not fired counts as skipped. Race-free against a tick.

        Law: CONTRACT 4.1, 4.3.
        """
        if self.is_registered(registration):
            return Registered.LEFT
        rows = self.engine.rows(self.sql.REGISTER, **_values(registration))
        if not rows:
            return Registered.LEFT
        return Registered.ADDED if rows[0][0] == 1 else Registered.CHANGED

    def is_registered(self, registration: Registration) -> bool:
        """Return whether the schedule is stored just so; a pure read."""
        return bool(self.engine.rows(self.sql.IS_REGISTERED, **_values(registration))[0][0])

    def unregister(self, name: str, *, only_declared: bool = False) -> bool:
        """Delete the schedule of that name; return whether there was one.

        Args:
            only_declared: leave it if it was not declared in code.
        Law: CONTRACT 4.1.
        """
        values = {"name": name, "only_declared": only_declared}
        return self.engine.count(self.sql.UNREGISTER, **values) == 1

    def declared_names(self) -> list[str]:
        """Return the names of the stored schedules that were declared in code, sorted."""
        return [row[0] for row in self.engine.rows(self.sql.DECLARED_NAMES)]

    # -- ticking --------------------------------------------------------------------------

    def outlook(self) -> Outlook:
        """Return what is due and what lies ahead; a pure read that waits for nobody."""
        is_due, next_boundary_at, now_us = self.engine.rows(self.sql.OUTLOOK)[0]
        return Outlook(bool(is_due), next_boundary_at, now_us)

    def due(self, until: int, *, after: Position, n: int) -> list[Due]:
        """Return up to ``n`` schedules with ``next_boundary_at <= until``, and lock their rows.

        In the order of their positions, from behind ``after`` on. Must run in a transaction,
        which holds the locks; passes over rows that another transaction holds.

        Law: CONTRACT 4.5.
        """
        values = {"until": until, "after_at": after.next_boundary_at, "after_name": after.name}
        return [Due._make(row) for row in self.engine.rows(self.sql.DUE, **values, n=n)]

    @abstractmethod
    def advance(self, advances: Sequence[Advance]) -> set[str]:
        """Move schedules on and book what is fired and skipped; return the names of those moved.

        One that is no longer where the advance starts from is left alone. Belongs into one
        transaction with ``due`` and ``fire``.

        Law: CONTRACT 4.5.
        """

    @abstractmethod
    def fire(self, fires: Sequence[Fire]) -> int:
        """Enqueue one pending job per boundary, with the stamps of its schedule; count them.

        ``run_at`` is the boundary, ``expires`` counts from this statement's clock read, ids
        ascend in the order given. The payload never leaves the database.

        Law: CONTRACT 4.6.
        """

    def audit(self) -> list[LedgerLine]:
        """Return the ledger of every schedule, by name; one statement, one instant."""
        lines = map(LedgerLine._make, self.engine.rows(self.sql.AUDIT))
        return [
            line._replace(declared=bool(line.declared), adds_up=bool(line.adds_up))
            for line in lines
        ]

    # -- leases ---------------------------------------------------------------------------

    def is_lease_free(self, name: str) -> bool:
        """Return whether ``take_lease`` could succeed now; a pure read."""
        return not self.engine.rows(self.sql.IS_LEASE_HELD, name=name)[0][0]

    def take_lease(self, name: str, *, owner: str, lease_us: int) -> bool:
        """Take a lease for ``owner`` until now + lease, if nobody holds it.

        Nobody does once it has expired. One that reaches further ahead than two of its lengths
        is void as well: the clock was set back since. (One length would be too strict: who
        waits for the holder's renewal judges it by a clock that was read before.)

        Law: CONTRACT 4.4.
        """
        values = {"name": name, "owner": owner, "lease_us": lease_us}
        return bool(self.engine.rows(self.sql.TAKE_LEASE, **values))

    def renew_lease(self, name: str, *, owner: str, lease_us: int) -> bool:
        """Extend a lease to now + lease, if it is still ``owner``'s.

        Also one that has expired, as long as nobody has taken it: then nobody can have led in
        between, and a clock that was set ahead costs no leader its place.

        Law: CONTRACT 4.4.
        """
        values = {"name": name, "owner": owner, "lease_us": lease_us}
        return self.engine.count(self.sql.RENEW_LEASE, **values) == 1

    def release_lease(self, name: str, *, owner: str) -> bool:
        """Give a lease back, if it is still ``owner``'s.

        Law: CONTRACT 4.4.
        """
        return self.engine.count(self.sql.RELEASE_LEASE, name=name, owner=owner) == 1


def _values(registration: Registration) -> dict[str, Any]:
    """Return a registration as its statements take it."""
    values = registration._asdict() | registration.stamps.as_dict()
    for name in ("stamps", "delay_us", "run_at"):  # a boundary decides when its job may run
        del values[name]
    return values
