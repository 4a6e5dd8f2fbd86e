"""What a worker's threads know together about losing the database."""

from __future__ import annotations

import random
import threading

from django.db import Error

from .signals import announce, store_lost, store_restored

FIRST_PAUSE_S = 0.2
MAX_PAUSE_S = 5.0


class Outage:
    """One announcement per loss and one per return, whichever threads notice them.

    It lasts from the first thread's loss until all that met it have the database back.
    """

    def __init__(self, sender: type, using: str) -> None:
        self._sender = sender
        self._using = using
        self._lock = threading.Lock()
        self._pauses: dict[str, float] = {}  # of those that are without the database

    def note(self, who: str, error: Error) -> float:
        """The database is away for ``who``; return the seconds to wait before the next try."""
        with self._lock:
            if not self._pauses:
                announce(store_lost, self._sender, using=self._using, error=error)
            pause = self._pauses.get(who, FIRST_PAUSE_S)
            self._pauses[who] = min(pause * 2, MAX_PAUSE_S)
            return pause * random.uniform(0.5, 1.0)

    def end(self, who: str) -> None:
        """The database answers ``who``."""
        if not self._pauses:
            return
        with self._lock:
            if self._pauses.pop(who, None) is not None and not self._pauses:
                announce(store_restored, self._sender, using=self._using)
