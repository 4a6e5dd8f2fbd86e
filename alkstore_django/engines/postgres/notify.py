"""NOTIFY after commits: at once, but not more than once per queue within ``WINDOW_S``.

What is held back within the window follows as one NOTIFY at its end: sent by the next commit
or, if none comes, by a thread of its own on a connection of its own, both of which last as
long as a burst does. So a lone commit wakes at once, a process that enqueues flat out pays
for fifty round trips a second, and the last job of a burst waits for the window at most.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import Protocol

logger = logging.getLogger("alkstore_django.engines.postgres")

WINDOW_S = 0.02
PATIENCE_S = 0.005
"""How long after the window the thread leaves it to the next commit."""
LINGER_S = 0.25


class Closable(Protocol):
    """A connection, as far as the notifier minds."""

    def close(self) -> object: ...


class Notifier:
    """The notifications of one process for one alias; a forked child makes its own.

    Args:
        send: notifies the waiters of a queue, on the connection of the calling thread; a
            failure is its own to report.
        connection: gives the connection of the calling thread; the notifier's own thread
            closes the one that it was given, even when its alias has gone by then.
    """

    def __init__(self, send: Callable[[str], None], connection: Callable[[], Closable]) -> None:
        self.pid = os.getpid()
        self._send = send
        self._connection = connection
        self._changed = threading.Condition()
        self._sent_at: dict[str, float] = {}
        self._held_back: set[str] = set()
        self._thread: threading.Thread | None = None
        _notifiers.add(self)

    def notify(self, queue: str) -> None:
        """Notify the waiters of a queue now, or at the end of the window that is open."""
        now = time.monotonic()
        with self._changed:
            if now < self._sent_at.get(queue, float("-inf")) + WINDOW_S:
                if queue not in self._held_back:
                    self._held_back.add(queue)
                    self._see_to_it()
                return
            self._sent_at[queue] = now
            self._held_back.discard(queue)
        self._send(queue)

    def flush(self) -> None:
        """Send now what is held back."""
        for queue in self._due(float("inf")):
            self._send(queue)

    def _see_to_it(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="alkstore-notify", daemon=True)
            self._thread.start()
        else:
            self._changed.notify()

    def _run(self) -> None:
        with ExitStack() as at_the_end:
            try:
                at_the_end.enter_context(closing(self._connection()))
                while self._wait():
                    for queue in self._due(time.monotonic()):
                        self._send(queue)
            except Exception:  # whatever forbids it here, a wake is but a hint
                logger.exception("NOTIFY failed, waiters re-poll")
                with self._changed:
                    self._thread = None  # the next window has another

    def _wait(self) -> bool:
        """Wait until something is due; False, and the thread is gone, after a while of nothing."""
        with self._changed:
            if not self._held_back and not self._changed.wait(LINGER_S) and not self._held_back:
                self._thread = None
                return False
            due = min((self._sent_at[queue] for queue in self._held_back), default=0.0)
        time.sleep(max(due + WINDOW_S + PATIENCE_S - time.monotonic(), 0))
        return True

    def _due(self, now: float) -> list[str]:
        """Take out the queues whose window is over."""
        with self._changed:
            due = [q for q in self._held_back if self._sent_at[q] + WINDOW_S + PATIENCE_S <= now]
            self._held_back.difference_update(due)
            self._sent_at.update(dict.fromkeys(due, now))
        return due


_notifiers: weakref.WeakSet[Notifier] = weakref.WeakSet()


@atexit.register
def _flush_all() -> None:
    """Send what a process that ends now still holds back."""
    for notifier in list(_notifiers):
        if notifier.pid == os.getpid():
            notifier.flush()
