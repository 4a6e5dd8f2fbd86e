"""For tests of projects that use the package."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from .core.instants import MICROSECONDS
from .engines.registry import engine_for


class FrozenClock:
    """The clock of one alias while ``frozen_time`` holds it, in epoch seconds."""

    def __init__(self, using: str, now: float) -> None:
        self._using = using
        self.move_to(now)

    @property
    def now(self) -> float:
        """The frozen instant."""
        frozen = engine_for(self._using).frozen_now_us
        assert frozen is not None
        return frozen / MICROSECONDS

    def move_to(self, now: float) -> None:
        """Set the clock to an instant, forward or back."""
        engine_for(self._using).frozen_now_us = round(now * MICROSECONDS)

    def advance(self, seconds: float) -> None:
        """Move the clock on."""
        frozen = engine_for(self._using).frozen_now_us
        assert frozen is not None
        engine_for(self._using).frozen_now_us = frozen + round(seconds * MICROSECONDS)


@contextlib.contextmanager
def frozen_time(using: str = "default", now: float | None = None) -> Iterator[FrozenClock]:
    """Feed every statement on an alias a clock that only the test moves.

    It counts for this process, all threads included; other processes keep the database's
    own. ``None`` starts at the database's present second.
    """
    engine = engine_for(using)
    start = engine.clock_us() // MICROSECONDS if now is None else now
    before = engine.frozen_now_us
    try:
        yield FrozenClock(using, start)
    finally:
        engine_for(using).frozen_now_us = before
