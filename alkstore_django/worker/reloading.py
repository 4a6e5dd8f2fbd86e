"""In development: when code changes, the worker finishes what it runs and starts anew.

Django's own reloader is not used, only its eyes. It would run the worker in a side thread,
take SIGTERM away from it, and kill it on a signal. Here the worker is a process under a
supervisor like any other, started by ``exec`` instead of a bare fork, so that it reads all
code afresh.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from django.utils import autoreload

from ..core.stop import StopToken
from . import process_log
from .channel import ChildEnd

LEGACY = "ALKSTORE_WORKER_LEGACY"  # a variable of the environment


def start_anew(number: int, channel: ChildEnd, asked: StopToken, asked_now: StopToken) -> None:
    """Become the command that this process was started as, on this channel; never returns."""
    fds = (channel.orders_fd, channel.reports_fd)
    for fd in fds:
        os.set_inheritable(fd, True)
    arguments = [os.fspath(argument) for argument in autoreload.get_child_arguments()]
    legacy = ",".join(map(str, (*fds, time.time())))
    os.execve(arguments[0], arguments, {**os.environ, LEGACY: legacy})  # noqa: S606  ourselves


@dataclass(frozen=True, slots=True)
class Legacy:
    """What ``start_anew`` leaves to the command that it becomes."""

    channel: ChildEnd
    started_at: float


def inherited() -> Legacy | None:
    """Return what ``start_anew`` has left, if it did; once, so that no other process finds it."""
    told = os.environ.pop(LEGACY, None)
    if told is None:
        return None
    orders_fd, reports_fd, started_at = told.split(",")
    channel = ChildEnd(int(orders_fd), int(reports_fd))
    for fd in (channel.orders_fd, channel.reports_fd):
        os.set_inheritable(fd, False)
    return Legacy(channel, float(started_at))


class CodeWatch:
    """A thread that calls ``on_change`` once when a file of the running code has changed.

    Args:
        since: when the process started; what changed from then on counts, too. UTC epoch seconds.
    """

    def __init__(self, on_change: Callable[[], None], *, since: float) -> None:
        self.has_changed = False
        self._on_change = on_change
        self._since = since
        self._reloader = autoreload.get_reloader()
        self._tick = self._reloader.tick
        self._reloader.tick = self._ticks  # type: ignore[method-assign]
        self._thread = threading.Thread(target=self._run, name="alkstore-code-watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end; it is not waited for, as it may be asleep."""
        self._reloader.stop()

    def _run(self) -> None:
        try:
            self._reloader.run(threading.main_thread())
        except SystemExit:  # Django's way to say that a file has changed
            self.has_changed = True
            self._on_change()
        except Exception:
            process_log.code_watch_failed()

    def _ticks(self) -> Iterator[None]:
        """Django's looks at the files; the first sees them as they are, so older changes are ours."""
        ticks = iter(self._tick())
        yield next(ticks)
        if code_changed_since(self._since):
            raise SystemExit
        yield from ticks


def code_changed_since(instant: float) -> bool:
    """Return whether a file of the code that this process has loaded has changed since.

    A time that is still to come says nothing: whoever heeded it would start anew for ever.

    Args:
        instant: UTC epoch seconds.
    """
    now = time.time()
    for file in autoreload.iter_all_python_module_files():
        with contextlib.suppress(OSError):
            if instant < file.stat().st_mtime <= now:
                return True
    return False
