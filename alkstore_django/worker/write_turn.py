"""The turn to write, among the threads of one worker."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from types import TracebackType


class WriteTurn:
    """One thread at a time where the database has one writer; else free for all.

    The threads would wait for the database's lock anyway, but there neither in turn nor
    without a limit.
    """

    def __init__(self, *, one_writer: bool) -> None:
        self.one_writer = one_writer
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        if self.one_writer:
            self._lock.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.one_writer:
            self._lock.release()

    @contextlib.contextmanager
    def within(self, seconds: float) -> Iterator[bool]:
        """Wait for the turn so long at most; yield whether it is ours."""
        if not self.one_writer:
            yield True
        elif self._lock.acquire(timeout=seconds):
            try:
                yield True
            finally:
                self._lock.release()
        else:
            yield False
