"""Forked worker processes, as their supervisor starts and sees them. POSIX only."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from django.db import connections

from ..core.stop import StopToken
from . import process_log
from .channel import ChildEnd, ParentEnd, Report, open_channel
from .os_signals import stop_on_signals

CLEAN = "exit code 0"


class Run(Protocol):
    """What a process does: it runs to its end, and reports that on its channel."""

    def __call__(
        self, number: int, channel: ChildEnd, asked: StopToken, asked_now: StopToken
    ) -> None: ...


class Process:
    """A running process of a supervisor."""

    def __init__(self, number: int, pid: int, channel: ParentEnd) -> None:
        self.number = number
        self.pid = pid
        self.channel = channel
        self.is_killed = False
        self._started_at = time.monotonic()
        self._how: str | None = None

    @property
    def uptime_s(self) -> float:
        return time.monotonic() - self._started_at

    def report(self) -> Report:
        """Return the latest report."""
        return self.channel.last_report()

    def order(self, order: bytes) -> None:
        """Ask it to stop, or to stop now."""
        self.channel.order(order)

    def kill(self) -> None:
        """End it without asking."""
        self.is_killed = True
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def ended(self) -> str | None:
        """Return how it ended, ``exit code 0`` or ``SIGKILL``; None while it runs."""
        if self._how is None:
            self._how = _how_ended(self.pid)
        return self._how

    def close(self) -> None:
        self.channel.close()


def fork_fault() -> str | None:
    """Return why this process cannot start processes, or None."""
    if not hasattr(os, "fork"):
        return "this platform cannot fork"
    if threading.current_thread() is not threading.main_thread():
        return "they can be started from the main thread only"
    return None


def close_connections() -> None:
    """Close this thread's connections, and the pools behind them, so that no child shares one."""
    for connection in connections.all(initialized_only=True):
        connection.close()
        if hasattr(connection, "close_pool"):  # PostgreSQL's
            connection.close_pool()


def start_process(number: int, run: Run, siblings: Sequence[Process]) -> Process:
    """Fork a process that does ``run`` and nothing else.

    Raises:
        OSError: the system has no room for another process or pipe.
    """
    parent_end, child_end = open_channel()
    _flush_output()
    with _signals_held() as held:
        try:
            pid = os.fork()
        except OSError:
            parent_end.close()
            child_end.close()
            raise
        if pid == 0:
            inherited = [parent_end, *(sibling.channel for sibling in siblings)]
            _be_child(number, run, child_end, inherited, held)
    child_end.close()
    return Process(number, pid, parent_end)


def _be_child(
    number: int, run: Run, channel: ChildEnd, inherited: list[ParentEnd], held: set[signal.Signals]
) -> None:
    """The whole life of a forked process; whatever happens, it never returns."""
    code = 1
    try:
        for end in inherited:  # a held end of theirs would hide the supervisor's death
            end.close()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        asked, asked_now = StopToken(), StopToken()
        with stop_on_signals(asked, asked_now):
            signal.pthread_sigmask(signal.SIG_SETMASK, held)
            run(number, channel, asked, asked_now)
        connections.close_all()
        code = 0
    except BaseException:
        process_log.process_failed()
    finally:
        try:
            logging.shutdown()
            _flush_output()
        finally:
            os._exit(code)


@contextlib.contextmanager
def on_child_end(ring: Callable[[], None]) -> Iterator[None]:
    """Call ``ring`` when a child process ends; it runs in a signal handler."""
    before = signal.signal(signal.SIGCHLD, lambda number, frame: ring())
    try:
        yield
    finally:
        signal.signal(signal.SIGCHLD, before)


@contextlib.contextmanager
def _signals_held() -> Iterator[set[signal.Signals]]:
    """Hold signals back while a child does not have its own handlers yet; none is lost."""
    stopping = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, stopping)
    held = {number for number in before if isinstance(number, signal.Signals)}
    try:
        yield held
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _how_ended(pid: int) -> str | None:
    try:
        found, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:  # somebody else has asked, and got the answer
        return "unknown"
    if found == 0:
        return None
    code = os.waitstatus_to_exitcode(status)
    return f"exit code {code}" if code >= 0 else _signal_name(-code)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"


def _flush_output() -> None:
    """What waits in a buffer would be written by both sides of a fork, or by neither at an exit."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # closed, or none at all
            stream.flush()
