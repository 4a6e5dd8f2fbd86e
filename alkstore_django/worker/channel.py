"""Two pipes between a supervisor and one worker process: orders go down, reports come up.

Orders do not go by signals because signals are counted: a terminal or an init system that
signals the whole group, and a supervisor that passes it on, would make a second one out of
the first. The supervisor alone holds the writing end of the orders, so that its death, of
whatever kind, is an end of file to its processes.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

STOP = b"s"
STOP_NOW = b"n"

DRAINED = "drained"
STOPPED = "stopped"
RECYCLED = "recycled"
RELOADED = "reloaded"

LAST_REPORT_WITHIN_S = 5.0


@dataclass(frozen=True, slots=True)
class Report:
    """What a process tells: everything so far, each time.

    Attributes:
        tally: ``{queue: {outcome: count}}`` since the process started.
        beat_at: when it last reached the database; UTC epoch seconds.
        end: why it ends; None while it goes on.
    """

    tally: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    beat_at: float | None = None
    end: str | None = None

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def decode(cls, line: bytes) -> Report:
        return cls(**json.loads(line))


class ChildEnd:
    """What a worker process holds: it reads orders and writes reports."""

    def __init__(self, orders_fd: int, reports_fd: int) -> None:
        self.orders_fd = orders_fd
        self.reports_fd = reports_fd
        self._unsent = b""
        os.set_blocking(reports_fd, False)

    def report(self, report: Report) -> None:
        """Send a report if the pipe has room for it; never block."""
        if self._flush():
            self._unsent = report.encode()
            self._flush()

    def report_last(self, report: Report, within_s: float = LAST_REPORT_WITHIN_S) -> None:
        """Send a report, waiting a while for room."""
        self._unsent += report.encode()
        give_up_at = time.monotonic() + within_s
        with selectors.DefaultSelector() as selector:
            selector.register(self.reports_fd, selectors.EVENT_WRITE)
            while not self._flush() and (left := give_up_at - time.monotonic()) > 0:
                selector.select(left)

    def _flush(self) -> bool:
        """Write what waits; return whether all is written. Without a reader nothing waits."""
        try:
            while self._unsent:
                self._unsent = self._unsent[os.write(self.reports_fd, self._unsent) :]
        except BlockingIOError:
            return False
        except OSError:
            self._unsent = b""
        return True

    def close(self) -> None:
        os.close(self.orders_fd)
        os.close(self.reports_fd)


class ParentEnd:
    """What the supervisor holds for one process: it writes orders and reads reports."""

    def __init__(self, orders_fd: int, reports_fd: int) -> None:
        self._fds = (orders_fd, reports_fd)
        self._orders_fd = orders_fd
        self._reports_fd = reports_fd
        self._partial = b""
        self._last = Report()
        for fd in self._fds:
            os.set_blocking(fd, False)

    def order(self, order: bytes) -> None:
        """Give an order; to a process that is gone it means nothing."""
        with contextlib.suppress(OSError):
            os.write(self._orders_fd, order)

    def last_report(self) -> Report:
        """Read all that has come, and return the latest report."""
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(self._reports_fd, 65536):
                self._partial += chunk
        *lines, self._partial = self._partial.split(b"\n")
        if lines:
            with contextlib.suppress(ValueError, TypeError):  # not ours: a handler's stray write
                self._last = Report.decode(lines[-1])
        return self._last

    def close(self) -> None:
        for fd in self._fds:
            os.close(fd)


def open_channel() -> tuple[ParentEnd, ChildEnd]:
    """Make the two pipes; no end outlives an ``exec``."""
    orders_read, orders_write = os.pipe()
    reports_read, reports_write = os.pipe()
    return ParentEnd(orders_write, reports_read), ChildEnd(orders_read, reports_write)
