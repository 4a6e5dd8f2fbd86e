"""A file whose time of change is when the worker last reached its database."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path

from . import process_log

BEAT_EVERY_S = 1.0


class HealthFile:
    """Made whole by the first beat, touched by each, removed at the end.

    A beat that cannot be written is told once and hurts nobody; the file grows old by itself.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path).absolute()
        self._is_failing = False

    def prepare(self) -> None:
        """Remove what an earlier worker has left behind.

        Raises:
            OSError: that is not possible, or nothing can be made at this place.
        """
        self._path.unlink(missing_ok=True)
        self._draft(time.time()).unlink()

    def touch(self, at: float) -> None:
        """Show that all was well at this instant, UTC epoch seconds."""
        try:
            try:
                os.utime(self._path, (at, at))
            except FileNotFoundError:
                self._make(at)
        except OSError as error:
            if not self._is_failing:
                process_log.health_file_failed(str(self._path), error)
            self._is_failing = True
        else:
            self._is_failing = False

    def remove(self) -> None:
        """No worker, no file."""
        with contextlib.suppress(OSError):
            self._path.unlink()

    def _make(self, at: float) -> None:
        """Put a whole file in place, with its time; never write through a link that lies there."""
        draft = self._draft(at)
        try:
            draft.replace(self._path)
        except OSError:
            draft.unlink(missing_ok=True)
            raise

    def _draft(self, at: float) -> Path:
        draft = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        draft.unlink(missing_ok=True)  # of a killed worker: in a container the next is that number
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        with os.fdopen(fd, "w") as file:
            file.write(f"{os.getpid()}\n")
        os.utime(draft, (at, at))
        return draft


def at_most_every(
    seconds: float, do: Callable[[], None], clock: Callable[[], float] = time.monotonic
) -> Callable[[], None]:
    """Return a function that does ``do`` when it is called, but not more often than this."""
    due = -float("inf")

    def call() -> None:
        nonlocal due
        now = clock()
        if now >= due:
            due = now + seconds
            do()

    return call
