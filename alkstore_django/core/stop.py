"""A stop that is asked for once and waited on by many."""

from __future__ import annotations

import queue
from collections.abc import Callable


class _Shared:
    """The state behind a token and its clones."""

    __slots__ = ("callbacks", "stopped")

    def __init__(self) -> None:
        self.stopped = False
        self.callbacks: list[Callable[[], None]] = []


class StopToken:
    """Tells loops to end. Set once, never reset; clones share the one state.

    ``stop()`` takes no lock, so it may be called from a signal handler, even one that
    interrupts a ``wait()`` of the same thread. (``threading.Event`` deadlocks there.)
    """

    def __init__(self) -> None:
        self._shared = _Shared()

    def stop(self) -> None:
        """Ask for the stop; a second call changes nothing."""
        if self._shared.stopped:
            return
        self._shared.stopped = True
        for callback in tuple(self._shared.callbacks):
            callback()

    @property
    def stopped(self) -> bool:
        """Whether the stop was asked for."""
        return self._shared.stopped

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the stop is asked for or the time is over; return whether it was."""
        bell: queue.SimpleQueue[None] = queue.SimpleQueue()

        def ring() -> None:
            bell.put(None)

        self.on_stop(ring)
        try:
            bell.get(timeout=seconds)
        except queue.Empty:
            return self.stopped
        finally:
            self._shared.callbacks.remove(ring)
        return True

    def clone(self) -> StopToken:
        """Return another handle on the same stop."""
        twin = StopToken()
        twin._shared = self._shared
        return twin

    def on_stop(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` when the stop is asked for; at once if it was already.

        It may run inside a signal handler and in any thread, and more than once: it must do
        no more than wake its own loop.
        """
        self._shared.callbacks.append(callback)
        if self.stopped:
            callback()
