"""The wake on SQLite: one ``data_version`` watcher per process and database file.

A thread of its own reads ``PRAGMA data_version`` on a connection of its own, which never
writes and is never in a transaction: the value moves with every commit of any other
connection, in this process or another. So any commit may wake anyone. The process's own
enqueues also ring directly, after their commit.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from urllib.parse import quote

from django.db import OperationalError, connections

from ...signals import announce, wake_lost, wake_restored
from ..base import OnWake
from .file_events import FileEvents

BUSY_POLL_S = 0.001
IDLE_POLL_S = 0.010
BUSY_SPAN_S = 0.25  # how long after a commit the watcher still looks often
LAZY_POLL_S = 0.05  # where the kernel tells of writes
FILE_CHECK_S = 0.5


class WatchSubscription:
    """One waiter. Made by ``WatchHub.subscribe`` only."""

    def __init__(self, hub: WatchHub, queues: Sequence[str], on_wake: OnWake | None) -> None:
        self._hub = hub
        self._on_wake = on_wake
        self.queues = frozenset(queues)
        self._bell = threading.Event()

    def wait(self, timeout: float | None) -> bool:
        if not self._bell.wait(timeout):
            return False
        self._bell.clear()
        return True

    def ring(self, queue: str | None) -> None:
        """Wake this waiter if it waits for the queue; for ``None`` in any case."""
        if queue is not None and queue not in self.queues:
            return
        if self._on_wake is None:
            self._bell.set()
        else:
            self._on_wake(queue)

    def close(self) -> None:
        self._hub.unsubscribe(self)


class WatchHub:
    """The process's one watcher of a database file, and everybody who waits on it.

    The thread lives while somebody is subscribed. A database in memory has no watcher: there
    only the process's own enqueues ring.
    """

    def __init__(self, using: str) -> None:
        self._using = using
        self._lock = threading.Lock()
        self._subscriptions: set[WatchSubscription] = set()
        self._thread: threading.Thread | None = None
        self._finish = threading.Event()

    def subscribe(
        self, queues: Sequence[str], *, on_wake: OnWake | None, must_connect: bool
    ) -> WatchSubscription:
        subscription = WatchSubscription(self, queues, on_wake)
        with self._lock:
            self._subscriptions.add(subscription)
            if self._thread is None and database_file(self._using) is not None:
                try:
                    self._start(must_connect)
                except OperationalError:
                    self._subscriptions.discard(subscription)
                    raise
        return subscription

    def unsubscribe(self, subscription: WatchSubscription) -> None:
        with self._lock:
            self._subscriptions.discard(subscription)
            thread = self._thread
            if self._subscriptions or thread is None:
                return
            self._finish.set()
            self._thread = None
        if thread is not threading.current_thread():
            thread.join(5)

    def ring(self, queue: str | None = None) -> None:
        """Ring the waiters of a queue in this process; all of them for ``None``."""
        with self._lock:
            subscriptions = tuple(self._subscriptions)
        for subscription in subscriptions:
            subscription.ring(queue)

    # -- the thread -----------------------------------------------------------------------

    def _start(self, must_connect: bool) -> None:
        """Start the watcher with its first reading taken, so that no later commit is missed."""
        try:
            reader = _Reader(self._using)
        except sqlite3.Error as error:
            if must_connect:
                text = f"cannot watch the database file of {self._using!r}: {error}"
                raise OperationalError(text) from error
            reader = None
        self._finish = threading.Event()
        self._thread = threading.Thread(
            target=self._run,
            args=(reader, self._finish),
            name=f"alkstore-watch-{self._using}",
            daemon=True,
        )
        self._thread.start()

    def _run(self, reader: _Reader | None, finish: threading.Event) -> None:
        lost = False
        while not finish.is_set():
            try:
                if reader is None:
                    reader = _Reader(self._using)
                    if lost:
                        announce(wake_restored, type(self), using=self._using)
                    lost = False
                    self.ring()  # only now: from here on no commit is missed
                reader.watch(self.ring, finish)
            except (sqlite3.Error, OSError) as error:
                if not lost:
                    announce(wake_lost, type(self), using=self._using, error=error)
                lost = True
                finish.wait(FILE_CHECK_S)
            finally:
                if reader is not None:
                    reader.close()
                reader = None


class _Reader:
    """A connection that only reads ``data_version``, and the file that it is open on."""

    def __init__(self, using: str) -> None:
        file = database_file(using)
        assert file is not None
        self._file = file
        self._identity = file_identity(file)
        # Opened by the thread that subscribes, used by the watching thread alone.
        self._connection = sqlite3.connect(
            _uri(file), uri=True, isolation_level=None, check_same_thread=False
        )
        self._events = FileEvents(file)
        try:
            self._version = self._read()
        except sqlite3.Error:
            self.close()
            raise

    def watch(self, ring: Callable[[], None], finish: threading.Event) -> None:
        """Ring at each change until ``finish``, or until the file is another one.

        A write to the files is seen before its commit is: for a while after it, and after
        each change, the version is read often.
        """
        idle_poll_s = LAZY_POLL_S if self._events.available else IDLE_POLL_S
        now = time.monotonic()
        busy_until = now + BUSY_SPAN_S
        next_file_check = now
        while not finish.is_set():
            if now < busy_until:
                finish.wait(BUSY_POLL_S)
                written = False
            else:
                written = self._events.wait(idle_poll_s)
            now = time.monotonic()
            if now >= next_file_check:
                next_file_check = now + FILE_CHECK_S
                if file_identity(self._file) != self._identity:
                    return
            version = self._read()
            if written or version != self._version:
                busy_until = now + BUSY_SPAN_S
            if version != self._version:
                self._version = version
                ring()

    def close(self) -> None:
        self._events.close()
        self._connection.close()

    def _read(self) -> int:
        return int(self._connection.execute("PRAGMA data_version").fetchone()[0])


def database_file(using: str) -> str | None:
    """Return the path of the alias's database; ``None`` if it lives in memory."""
    name = str(connections[using].get_connection_params()["database"])
    if name.startswith("file:"):
        path, _, query = name.removeprefix("file:").partition("?")
        return None if "mode=memory" in query or path == ":memory:" else path
    return None if name in {"", ":memory:"} else name


def file_identity(file: str) -> tuple[int, int] | None:
    """Return what tells this file from another that takes its place; ``None`` if absent."""
    with contextlib.suppress(FileNotFoundError):
        status = os.stat(file)
        return status.st_dev, status.st_ino
    return None


_hubs: dict[tuple[int, str, str | None], WatchHub] = {}


def hub_for(using: str) -> WatchHub:
    """Return this process's hub for an alias's file; a forked child gets one of its own."""
    key = (os.getpid(), using, database_file(using))
    hub = _hubs.get(key)
    if hub is None:
        hub = _hubs.setdefault(key, WatchHub(using))
    return hub


def _uri(file: str) -> str:
    return f"file:{quote(os.path.abspath(file))}?mode=rw"
