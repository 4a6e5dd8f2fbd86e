"""The lease that a leader holds, and how long it may be trusted (CONTRACT 4.4).

Expiry is judged by the database's clock, trust by this process's monotonic one, and the two
never meet: a lease that was asked for at a monotonic instant lasts at least until that instant
plus its length, however long the answer took. A tenth is kept back, for clocks that do not run
equally fast. A process that was stopped finds on waking that its trust is over.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable

from ..core.instants import MICROSECONDS
from ..engines.schedules import Schedules
from ..exceptions import LeadershipLost

LEASE_NAME = "__alkstore_scheduler"
TRUSTED_PART = 0.9
RENEWED_AFTER = 1 / 3


class Leadership:
    """One candidate, told apart from all others by a token of its own."""

    def __init__(
        self, schedules: Schedules, lease_s: float, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.owner = secrets.token_hex(16)
        self._schedules = schedules
        self._lease_s = lease_s
        self._clock = clock
        self._renew_at = self._trusted_until = float("-inf")

    def try_to_take(self) -> bool:
        """Take the lease if it is free; return whether it is ours now."""
        if not self._schedules.is_lease_free(LEASE_NAME):
            return False  # without a write, which the leader's renewal would have to wait for
        asked_at = self._clock()
        taken = self._schedules.take_lease(
            LEASE_NAME, owner=self.owner, lease_us=round(self._lease_s * MICROSECONDS)
        )
        if taken:
            self._trust_from(asked_at)
        return taken

    def keep(self) -> None:
        """Renew the lease when a third of it is over.

        Raises:
            LeadershipLost: it was not renewed in time, or is somebody else's by now.
        """
        asked_at = self._clock()
        if asked_at >= self._trusted_until:
            raise LeadershipLost(LEASE_NAME)
        if asked_at < self._renew_at:
            return
        if not self._schedules.renew_lease(
            LEASE_NAME, owner=self.owner, lease_us=round(self._lease_s * MICROSECONDS)
        ):
            raise LeadershipLost(LEASE_NAME)
        self._trust_from(asked_at)
        if self._clock() >= self._trusted_until:
            raise LeadershipLost(LEASE_NAME)  # the answer took longer than it is good for

    def release(self) -> bool:
        """Give the lease back; return whether it was still ours."""
        self._renew_at = self._trusted_until = float("-inf")
        return self._schedules.release_lease(LEASE_NAME, owner=self.owner)

    @property
    def renewal_in_s(self) -> float:
        """The seconds until the lease is to be renewed."""
        return self._renew_at - self._clock()

    @property
    def trust_left_s(self) -> float:
        """The seconds for which the lease may still be trusted."""
        return self._trusted_until - self._clock()

    def _trust_from(self, asked_at: float) -> None:
        self._renew_at = asked_at + self._lease_s * RENEWED_AFTER
        self._trusted_until = asked_at + self._lease_s * TRUSTED_PART
