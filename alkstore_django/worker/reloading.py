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
from collections.abc import Callable

from django.utils import autoreload

from ..core.stop import StopToken
from . import process_log
from .channel import ChildEnd

CHANNEL_VARIABLE = "ALKSTORE_WORKER_CHANNEL"


def start_anew(number: int, channel: ChildEnd, asked: StopToken, asked_now: StopToken) -> None:
    """Become the command that this process was started as, on this channel; never returns."""
    fds = (channel.orders_fd, channel.reports_fd)
    for fd in fds:
        os.set_inheritable(fd, True)
    arguments = [os.fspath(argument) for argument in autoreload.get_child_arguments()]
    environ = {**os.environ, CHANNEL_VARIABLE: ",".join(map(str, fds))}
    os.execve(arguments[0], arguments, environ)  # noqa: S606  the very command that runs here


def inherited_channel() -> ChildEnd | None:
    """Return the channel that ``start_anew`` has left; once, so that no other process finds it."""
    told = os.environ.pop(CHANNEL_VARIABLE, None)
    if told is None:
        return None
    orders_fd, reports_fd = map(int, told.split(","))
    for fd in (orders_fd, reports_fd):
        os.set_inheritable(fd, False)
    return ChildEnd(orders_fd, reports_fd)


class CodeWatch:
    """A thread that calls ``on_change`` once when a file of the running code has changed."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        self.has_changed = False
        self._on_change = on_change
        self._reloader = autoreload.get_reloader()
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


def code_changed_since(instant: float) -> bool:
    """Return whether a file of the code that this process has loaded is newer than this instant.

    Args:
        instant: UTC epoch seconds.
    """
    for file in autoreload.iter_all_python_module_files():
        with contextlib.suppress(OSError):
            if file.stat().st_mtime > instant:
                return True
    return False
