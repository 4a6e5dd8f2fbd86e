"""The wake on PostgreSQL: one LISTEN connection per process and alias, fanned out.

A thread of its own owns the connection. It waits for notifications and for requests of the
process (new subscriptions) at once, reconnects with jitter when the server goes away, and
rings every waiter after each reconnect, since what was sent meanwhile is not replayed. The
connection is in autocommit and runs nothing but LISTEN and UNLISTEN.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import select
import selectors
import socket
import threading
from collections.abc import Sequence
from typing import Any

import psycopg
from django.db import OperationalError, connections
from psycopg import sql

from ...conf import StoreSettings
from ...signals import announce, wake_lost, wake_restored
from ..base import OnWake

CONNECT_TIMEOUT_S = 10
MAX_PAUSE_S = 5.0
_MAX_CHANNEL_BYTES = 63
_KEEPALIVES = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}


def channel_name(schema: str, queue: str) -> str:
    """Return the NOTIFY channel of a queue: readable where it fits 63 bytes, else a hash.

    The two forms start differently, so no two queues share a channel.
    """
    readable = f"{schema}:{queue}"
    if len(readable.encode()) <= _MAX_CHANNEL_BYTES - len("alkstore:"):
        return f"alkstore:{readable}"
    return "alkstore#" + hashlib.blake2b(readable.encode(), digest_size=16).hexdigest()


class WakeSubscription:
    """One waiter on some queues. Made by ``WakeHub.subscribe`` only."""

    def __init__(self, hub: WakeHub, queues: Sequence[str], on_wake: OnWake | None) -> None:
        self._hub = hub
        self._on_wake = on_wake
        self.queues = frozenset(queues)
        self._bell = threading.Event()
        self.settled = threading.Event()  # effective, or refused
        self.error: Exception | None = None

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

    def note_listening(self) -> None:
        """From now on no commit is missed; who did not wait for that has to look once more."""
        if not self.settled.is_set():
            self.settled.set()
            if self._on_wake is not None:
                self._on_wake(None)

    def close(self) -> None:
        self._hub.unsubscribe(self)


class WakeHub:
    """The process's one LISTEN connection for an alias, and everybody who waits on it.

    The thread lives while somebody is subscribed.
    """

    def __init__(self, using: str, settings: StoreSettings) -> None:
        self._using = using
        self._settings = settings
        self._lock = threading.Lock()
        self._subscriptions: set[WakeSubscription] = set()
        self._thread: threading.Thread | None = None
        self._poke: socket.socket | None = None

    def subscribe(
        self, queues: Sequence[str], *, on_wake: OnWake | None, must_connect: bool
    ) -> WakeSubscription:
        subscription = WakeSubscription(self, queues, on_wake)
        with self._lock:
            self._subscriptions.add(subscription)
            if not self._settings.notify:
                return subscription  # poll only: this process's own commits ring, no more
            if self._thread is None:
                self._start()
            self._wake_thread()
        if must_connect:
            subscription.settled.wait(CONNECT_TIMEOUT_S + 1)
            if subscription.error or not subscription.settled.is_set():
                subscription.close()
                text = f"cannot listen on {self._using!r}: {subscription.error or 'timed out'}"
                raise OperationalError(text) from subscription.error
        return subscription

    def unsubscribe(self, subscription: WakeSubscription) -> None:
        with self._lock:
            self._subscriptions.discard(subscription)
            self._wake_thread()
            thread = None if self._subscriptions else self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(2)

    def ring(self, queue: str | None = None) -> None:
        """Ring the waiters of a queue in this process; all of them for ``None``."""
        with self._lock:
            subscriptions = tuple(self._subscriptions)
        for subscription in subscriptions:
            subscription.ring(queue)

    # -- the thread -----------------------------------------------------------------------

    def _start(self) -> None:
        self._poke, listening_end = socket.socketpair()
        self._poke.setblocking(False)
        self._thread = threading.Thread(
            target=self._run,
            args=(listening_end,),
            name=f"alkstore-listen-{self._using}",
            daemon=True,
        )
        self._thread.start()

    def _wake_thread(self) -> None:
        if self._poke is not None:
            with contextlib.suppress(BlockingIOError):  # full of pokes: the thread will come
                self._poke.send(b"x")

    def _run(self, poked: socket.socket) -> None:
        lost: psycopg.Error | None = None
        pause = 0.1
        while not self._finished():
            try:
                with psycopg.connect(**self._parameters(), autocommit=True) as connection:
                    channels = self._listen(connection, {})
                    if lost is not None:
                        announce(wake_restored, type(self), using=self._using)
                        self.ring()  # what was sent meanwhile is not replayed
                    lost, pause = None, 0.1
                    self._serve(connection, channels, poked)
            except psycopg.Error as error:
                self._refuse(error)
                if lost is None:
                    announce(wake_lost, type(self), using=self._using, error=error)
                lost = error
                _wait_for_poke(poked, pause * random.uniform(0.5, 1.0))
                pause = min(pause * 2, MAX_PAUSE_S)
        poked.close()

    def _finished(self) -> bool:
        """End the thread if nobody is subscribed; a later subscriber starts a new one."""
        with self._lock:
            if self._subscriptions:
                return False
            self._thread = None
            if self._poke is not None:
                self._poke.close()
            self._poke = None
            return True

    def _serve(
        self, connection: psycopg.Connection, channels: dict[str, str], poked: socket.socket
    ) -> None:
        """Ring for notifications, and follow the subscriptions, until there are none."""
        with selectors.DefaultSelector() as selector:
            selector.register(connection.fileno(), selectors.EVENT_READ)
            selector.register(poked, selectors.EVENT_READ)
            while True:
                ready = {key.fileobj for key, _ in selector.select()}
                if poked in ready:
                    poked.recv(4096)
                    if not self._subscriptions:
                        return
                    channels = self._listen(connection, channels)
                for notification in connection.notifies(timeout=0):
                    if (queue := channels.get(notification.channel)) is not None:
                        self.ring(queue)

    def _listen(self, connection: psycopg.Connection, old: dict[str, str]) -> dict[str, str]:
        """Bring the connection's channels in line with the subscriptions; return them."""
        with self._lock:
            subscriptions = tuple(self._subscriptions)
        queues = {queue for subscription in subscriptions for queue in subscription.queues}
        channels = {channel_name(self._settings.schema, queue): queue for queue in queues}
        for channel in channels.keys() - old.keys():
            connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
        for channel in old.keys() - channels.keys():
            connection.execute(sql.SQL("UNLISTEN {}").format(sql.Identifier(channel)))
        for subscription in subscriptions:
            subscription.note_listening()
        return channels

    def _refuse(self, error: Exception) -> None:
        """Tell those who insist on a connection that there is none."""
        with self._lock:
            for subscription in self._subscriptions:
                if not subscription.settled.is_set():
                    subscription.error = error
                    subscription.settled.set()

    def _parameters(self) -> dict[str, Any]:
        """Build the connection's parameters anew each time: a password may have changed."""
        listen = self._settings.listen
        parameters = dict(connections[listen.alias or self._using].get_connection_params())
        for key in ("cursor_factory", "context", "prepare_threshold"):
            parameters.pop(key, None)
        parameters |= {"application_name": "alkstore-listen", "connect_timeout": CONNECT_TIMEOUT_S}
        return parameters | _KEEPALIVES | dict(listen.options)


_hubs: dict[tuple[int, str], WakeHub] = {}


def hub_for(using: str, settings: StoreSettings) -> WakeHub:
    """Return this process's hub for an alias; a forked child gets one of its own."""
    hub = _hubs.get((os.getpid(), using))
    if hub is None or hub._settings != settings:
        hub = _hubs[os.getpid(), using] = WakeHub(using, settings)
    return hub


def _wait_for_poke(poked: socket.socket, seconds: float) -> None:
    """Wait out a pause; a new or leaving subscriber cuts it short."""
    if select.select([poked], [], [], seconds)[0]:
        poked.recv(4096)
