"""A scheduler beside the worker, in a thread of its own (``--with-schedules``)."""

from __future__ import annotations

import threading
from collections.abc import Callable

from django.db import connections

from ..core.stop import StopToken
from ..scheduling.runner import Runner


class SchedulerThread:
    """Leads or stands by until stopped; an outage or a loss of leadership is no reason to end.

    Args:
        on_death: told of the bug that has ended it.
    """

    def __init__(self, using: str, *, on_death: Callable[[BaseException], object]) -> None:
        self._using = using
        self._on_death = on_death
        self._stop = StopToken()
        self._thread = threading.Thread(target=self._run, name="alkstore-schedules", daemon=True)

    def start(self) -> None:
        """Begin to stand by."""
        self._thread.start()

    def ask_to_stop(self) -> None:
        """Ask for the end; may be called in a signal handler, and more than once."""
        self._stop.stop()

    def stop(self) -> None:
        """Ask for the end and wait for it."""
        self._stop.stop()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            Runner(self._using, self._stop).keep_running()
        except BaseException as death:
            self._on_death(death)
        finally:
            connections.close_all()
