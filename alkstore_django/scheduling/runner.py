"""The runner: stand by, lead, stop (CONTRACT 4.4).

The thread that calls ``run`` does it all, on its own connection of the alias. The wake and the
stop token post to its mailbox; ``SimpleQueue.put`` is safe in signal handlers.
"""

from __future__ import annotations

import contextlib
import queue
import random
import time
from collections.abc import Callable
from enum import Enum

from django.db import Error
from django.db.transaction import TransactionManagementError

from ..core.instants import MICROSECONDS
from ..core.stop import StopToken
from ..engines.registry import engine_for
from ..exceptions import LeadershipLost
from ..outage import Outage
from ..signals import announce, leadership_gained, leadership_lost
from .leadership import LEASE_NAME, Leadership
from .ticking import Ticker

STAND_BY_S = 1.0
RUMOUR_PAUSE_S = 0.1
"""How soon to look after a wake that may have been for anybody: on SQLite, any commit."""


class _Mail(Enum):
    WAKE = 1
    RUMOUR = 2
    STOP = 3


class Runner:
    """One runner on one alias. ``run`` may be called again after it has returned or raised.

    Args:
        stop: asks for the end; heeded at once.
        on_gained: called each time that it begins to lead.
    """

    def __init__(
        self,
        using: str,
        stop: StopToken,
        *,
        on_gained: Callable[[], None] = lambda: None,
    ) -> None:
        self._engine = engine_for(using)
        self._stop = stop
        self._on_gained = on_gained
        self._outage = Outage(type(self), using)
        self._mailbox: queue.SimpleQueue[_Mail] = queue.SimpleQueue()
        self._has_rumour = False
        self._new_candidate()
        stop.on_stop(lambda: self._mailbox.put(_Mail.STOP))

    def run(self) -> None:
        """Lead until stopped, once the lease is free; stand by until then.

        Raises:
            LeadershipLost: the lease was lost; nothing was fired since it was in doubt.
            TransactionManagementError: a transaction is open in this thread.
        """
        self._refuse_inside_transaction()
        self._new_candidate()
        with contextlib.closing(
            self._engine.subscribe([LEASE_NAME], on_wake=self._post_wake, must_connect=False)
        ):
            if self._stand_by():
                self._lead()

    def keep_running(self, on_lost: Callable[[LeadershipLost], None] = lambda lost: None) -> None:
        """Run until stopped, standing by again after each loss of leadership.

        Args:
            on_lost: told of each; ends it all by raising.
        """
        while not self._stop.stopped:
            try:
                self.run()
            except LeadershipLost as lost:
                on_lost(lost)

    # -- standing by ----------------------------------------------------------------------

    def _stand_by(self) -> bool:
        """Wait until the lease is ours; False if stopped before."""
        while not self._stop.stopped:
            try:
                self._engine.drop_stale_connection()
                is_ours = self._leadership.try_to_take()
            except Error as error:
                pause = self._outage_pause(error)
            else:
                self._outage.end("schedules")
                if is_ours:
                    return True
                poll_s = min(self._engine.settings.poll_interval_s, STAND_BY_S)
                pause = poll_s * random.uniform(0.5, 1.0)
            self._wait(pause)
        return False

    # -- leading --------------------------------------------------------------------------

    def _lead(self) -> None:
        """Renew, fire, sleep; give the lease back whatever ends it, unless it is lost."""
        using = self._engine.using
        announce(leadership_gained, type(self), using=using)
        try:
            self._on_gained()
            while not self._stop.stopped:
                self._wait(self._guarded_turn())
        except LeadershipLost:
            announce(leadership_lost, type(self), using=using)
            raise
        except BaseException:
            with contextlib.suppress(Error):  # what ended it is what counts
                self._release()
            raise
        try:
            self._release()
        except Error as error:
            if not self._engine.is_outage(error):
                raise

    def _guarded_turn(self) -> float:
        """Take a turn; through an outage only as long as the lease can be trusted."""
        try:
            self._engine.drop_stale_connection()
            pause = self._turn()
        except Error as error:
            return min(self._outage_pause(error), max(self._leadership.trust_left_s, 0.001))
        self._outage.end("schedules")
        return pause

    def _turn(self) -> float:
        """Renew if it is time, fire what is due; return the seconds until there is more to do."""
        self._leadership.keep()
        seen_at = time.monotonic()
        outlook = self._engine.schedules.outlook()
        if outlook.is_due and self._ticker.tick(outlook.now_us // MICROSECONDS).n_advanced:
            return 0.0  # look anew: each has a next boundary
        pauses = [self._engine.settings.poll_interval_s, self._leadership.renewal_in_s]
        if outlook.next_boundary_at is not None:
            ahead_us = outlook.next_boundary_at * MICROSECONDS - outlook.now_us
            pauses.append(seen_at + ahead_us / MICROSECONDS - time.monotonic())
        return max(min(pauses), 0.001)

    def _may_go_on(self) -> bool:
        """Before each batch of a tick: keep the lease; False once somebody asked to stop."""
        self._leadership.keep()
        return not self._stop.stopped

    def _release(self) -> None:
        if self._leadership.release():
            self._engine.wake(LEASE_NAME)  # somebody may stand by

    # -- both -----------------------------------------------------------------------------

    def _new_candidate(self) -> None:
        engine = self._engine
        self._leadership = Leadership(engine.schedules, engine.settings.lease_s)
        self._ticker = Ticker(engine, keep=self._may_go_on)

    def _refuse_inside_transaction(self) -> None:
        connection = self._engine.connection
        by_hand = connection.connection is not None and not connection.autocommit
        if connection.in_atomic_block or by_hand:
            raise TransactionManagementError(
                f"run_schedules must not run inside a transaction on {self._engine.using!r}: "
                "what it fires would not be seen before the end of it"
            )

    def _outage_pause(self, error: Error) -> float:
        """Return how long to wait for the database; raise what is no outage but a bug."""
        if not self._engine.is_outage(error):
            raise error
        pause = self._outage.note("schedules", error)
        self._engine.drop_stale_connection()
        return pause

    def _wait(self, seconds: float) -> None:
        """Wait until the time is over or mail has come; after a rumour, for a moment at most."""
        until = time.monotonic() + seconds
        while not self._stop.stopped:
            try:
                mail = self._mailbox.get(timeout=max(until - time.monotonic(), 0))
            except queue.Empty:
                return
            if mail is not _Mail.RUMOUR:
                return
            self._has_rumour = False  # first: one from now on is posted anew
            until = min(until, time.monotonic() + RUMOUR_PAUSE_S)

    def _post_wake(self, woken: str | None) -> None:
        if woken is not None:
            self._mailbox.put(_Mail.WAKE)
        elif not self._has_rumour:
            self._has_rumour = True
            self._mailbox.put(_Mail.RUMOUR)
