"""Events as messages of a NATS JetStream stream."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import re
import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any
from urllib.parse import quote, urlsplit

from django.core.exceptions import ImproperlyConfigured

from ..core.events import Event
from ..core.instants import MICROSECONDS, Length, length_us
from ..exceptions import DeliveryFailed, FailJob, InvalidOptions
from .events import checked_source, message_id

try:
    import nats
    import nats.errors
    import nats.js.errors
    from nats.aio.client import Client
    from nats.js.api import Header
except ImportError as error:
    raise ImproperlyConfigured(
        f'JetStream needs another package ({error}): pip install "alkstore-django[nats]"'
    ) from error

__all__ = ["JetStreamDelivery"]

CLOSE_S = 2.0
RECONNECT_WAIT_S = 0.5
MAX_SUBJECT_CHARACTERS = 1_000
HIDDEN = "(not shown)"

_SCHEMES = ("nats", "tls", "ws", "wss")
# Tokens between dots; no wildcard, nothing that could end the line of the protocol.
_SUBJECT = re.compile(r"(?!\$)[^\s\x00-\x20\x7f.*>]+(\.[^\s\x00-\x20\x7f.*>]+)*")

Subject = str | Callable[[Event], str]


class JetStreamDelivery:
    """Publishes each event to a stream: ``events.deliver(JetStreamDelivery(servers, subject))``.

    An event is delivered when the stream has acknowledged it. Its id goes along as
    ``Nats-Msg-Id``, by which the stream drops what it has seen within its duplicate window.
    The body is the payload as stored. Every fault raises ``DeliveryFailed``, again by the
    curve; an event that no server could take, by its subject or its size, is dead at once.

    Each event loop has one connection, made with its first delivery, made anew when it
    breaks, and closed with the loop or by ``close``.

    Args:
        servers: URLs such as ``nats://localhost:4222``.
        subject: ``{outbox}`` and ``{key}`` in it stand for the event's own, each as one
            token: what a token cannot hold is written as in URLs (``.`` as ``%2E``). Or a
            function of the event.
        stream: the name of the stream that must take the message; any if ``None``.
        timeout_s: the limit of one delivery, connecting included.
        source: names this store, if other stores publish to the same stream.
        options: go to ``nats.connect``: ``user_credentials``, ``tls``, ``name`` and so on.

    Raises:
        InvalidOptions: an argument breaks its rule.
    """

    def __init__(
        self,
        servers: str | Sequence[str],
        subject: Subject,
        *,
        stream: str | None = None,
        timeout_s: Length = 5,
        source: str = "",
        **options: Any,
    ) -> None:
        self._servers = _checked_servers(servers)
        self._subject = _checked_subject(subject)
        if stream is not None and (not isinstance(stream, str) or not stream):
            raise InvalidOptions("stream", "must be the name of a stream or None", stream)
        self._stream = stream
        self._timeout_s = length_us("timeout_s", timeout_s, at_least_s=0) / MICROSECONDS
        if not self._timeout_s:
            raise InvalidOptions("timeout_s", "must be above 0 s", timeout_s)
        self._source = checked_source(source)
        self._options = _checked_options(options)
        self._lines: dict[asyncio.AbstractEventLoop, _Line] = {}
        self._lock = threading.Lock()

    @property
    def receiver(self) -> str:
        """The hosts: all that errors say of the servers."""
        return ", ".join(_host(server) for server in self._servers)

    def __repr__(self) -> str:
        return f"<JetStreamDelivery to {self.receiver}>"

    async def __call__(self, event: Event) -> None:
        """Deliver one event, or raise: ``DeliveryFailed`` or ``FailJob``."""
        subject = self._subject_of(event)
        line = self._line()
        try:
            async with asyncio.timeout(self._timeout_s):
                client = await line.client()
                await client.jetstream().publish(
                    subject,
                    event.payload_bytes,
                    timeout=self._timeout_s,
                    stream=self._stream,
                    headers={Header.MSG_ID: message_id(event, self._source)},
                )
        except nats.errors.MaxPayloadError:
            size = len(event.payload_bytes)
            raise FailJob(f"{self.receiver} takes no message of {size} bytes") from None
        except nats.js.errors.NoStreamResponseError:
            reason = f"has no stream that takes the subject {subject!r}"
            raise DeliveryFailed(self.receiver, reason) from None
        except (nats.errors.Error, TimeoutError, OSError) as error:
            fault = error if line.is_connected else line.fault or error
            reason = f"did not acknowledge: {type(fault).__name__}: {fault}".rstrip(": ")
            raise DeliveryFailed(self.receiver, reason) from None

    async def close(self) -> None:
        """Close the connection of the running loop; the next delivery would make a new one."""
        with self._lock:
            line = self._lines.pop(asyncio.get_running_loop(), None)
        if line is not None:
            await line.close()

    def _line(self) -> _Line:
        loop = asyncio.get_running_loop()
        with self._lock:
            for ended in [each for each in self._lines if each.is_closed()]:
                del self._lines[ended]
            if loop not in self._lines:
                self._lines[loop] = _Line(self._servers, self._options)
            return self._lines[loop]

    def _subject_of(self, event: Event) -> str:
        if not isinstance(self._subject, str):
            subject = self._subject(event)
        else:
            if event.key is None and "{key}" in self._subject:
                raise FailJob("the subject takes the event's key, and it has none")
            subject = self._subject.replace("{outbox}", _token(event.outbox))
            subject = subject.replace("{key}", _token(event.key or ""))
        if not _is_subject(subject):
            raise FailJob("the event's subject is none that can be published to")
        return subject


class _Line:
    """One loop's connection. A generator holds it, so that it is closed with its loop."""

    def __init__(self, servers: list[str], options: dict[str, Any]) -> None:
        self._servers = servers
        self._options = options
        self._turn = asyncio.Lock()
        self._holder: AsyncGenerator[Client] | None = None
        self._client: Client | None = None
        self.fault: Exception | None = None
        """What went wrong with the connection last: while there is none, this is why."""

    @property
    def is_connected(self) -> bool:
        return self._client is not None and self._client.is_connected

    async def client(self) -> Client:
        """Return the connected client; many deliveries at a time wait for one connection."""
        async with self._turn:
            if self._client is None or self._client.is_closed:
                await self._release()
                self._holder = self._held()
                self._client = await anext(self._holder)
            return self._client

    async def close(self) -> None:
        async with self._turn:
            await self._release()

    async def _release(self) -> None:
        holder, self._holder, self._client = self._holder, None, None
        if holder is not None:
            await holder.aclose()

    async def _held(self) -> AsyncGenerator[Client]:
        client = Client()
        self.fault = None
        try:
            await client.connect(
                **{
                    "servers": self._servers,
                    "max_reconnect_attempts": -1,
                    "reconnect_time_wait": RECONNECT_WAIT_S,
                    "error_cb": self._note,
                    **self._options,
                }
            )
            yield client
        finally:
            # AttributeError: a client older than 2.15 that never reached a server trips over
            # the socket that it does not have, after all else is closed.
            with contextlib.suppress(nats.errors.Error, TimeoutError, OSError, AttributeError):
                async with asyncio.timeout(CLOSE_S):
                    await client.close()

    async def _note(self, error: Exception) -> None:
        """Keep what went wrong: it is told by the deliveries that fail of it.

        The word of a server that refuses us says more than the broken socket that follows it.
        """
        if isinstance(error, nats.errors.Error) or not isinstance(self.fault, nats.errors.Error):
            self.fault = error


# -- arguments ---------------------------------------------------------------------------


def _checked_servers(servers: object) -> list[str]:
    given = [servers] if isinstance(servers, str) else servers
    if not isinstance(given, list | tuple) or not given:
        raise InvalidOptions("servers", "must be a URL or a list of at least one", HIDDEN)
    for server in given:
        if not isinstance(server, str) or not _is_server(server):
            rule = "must be URLs with a host: nats, tls, ws or wss"
            raise InvalidOptions("servers", rule, HIDDEN)
    return list(given)


def _is_server(server: str) -> bool:
    try:
        parts = urlsplit(server)
        return parts.scheme in _SCHEMES and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _host(server: str) -> str:
    return urlsplit(server).netloc.rpartition("@")[2]


def _checked_options(options: dict[str, Any]) -> dict[str, Any]:
    known = inspect.signature(Client.connect).parameters
    for name in options:
        if name not in known:
            raise InvalidOptions(name, "must be an option of nats.connect", HIDDEN)
    return options


def _checked_subject(subject: object) -> Subject:
    if isinstance(subject, str):
        sample = subject.replace("{outbox}", "outbox").replace("{key}", "key")
        if _is_subject(sample) and "{" not in sample and "}" not in sample:
            return subject
    elif callable(subject):
        return subject
    rule = "must be a subject without wildcards, in which {outbox} and {key} may stand"
    raise InvalidOptions("subject", f"{rule}, or a function of the event", subject)


def _is_subject(subject: object) -> bool:
    return (
        isinstance(subject, str)
        and len(subject) <= MAX_SUBJECT_CHARACTERS
        and _SUBJECT.fullmatch(subject) is not None
    )


def _token(text: str) -> str:
    """Return the text as one token of a subject: letters, digits, ``-``, ``_``, ``~`` as they are."""
    return quote(text, safe="", errors="surrogatepass").replace(".", "%2E")
