"""An HTTP client that keeps to a limit of time, whatever the other side does.

The timeouts of HTTP libraries are those of single reads: who sends one byte now and then is
never late. Here the streams themselves know when the whole exchange has to end.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, cast

import httpcore
import httpx

IDLE_CONNECTIONS = 20
IDLE_S = 15.0
WRITE_BYTES = 16_384

_ends_at: ContextVar[float | None] = ContextVar("ends_at", default=None)


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Have all that the block sends, waits for and reads end within so many seconds.

    Within another limit, the nearer end counts. What is late raises an ``httpcore`` timeout.
    Not bounded is the system's resolver, which has limits of its own.
    """
    outer = _ends_at.get()
    ends_at = time.monotonic() + seconds
    token = _ends_at.set(ends_at if outer is None else min(outer, ends_at))
    try:
        yield
    finally:
        _ends_at.reset(token)


def bounded_client() -> httpx.Client:
    """Return a client that keeps to ``time_limit``; it may be shared between threads.

    It follows no redirect, keeps no cookie, and reads neither proxies nor passwords from the
    environment.
    """
    return httpx.Client(transport=_Transport(), trust_env=False, follow_redirects=False)


class _Transport(httpx.BaseTransport):
    def __init__(self) -> None:
        self._pool = httpcore.ConnectionPool(
            ssl_context=httpx.create_ssl_context(trust_env=False),
            max_connections=None,  # the worker's threads are the limit
            max_keepalive_connections=IDLE_CONNECTIONS,
            keepalive_expiry=IDLE_S,
            network_backend=_Backend(),
        )

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        url = request.url
        response = self._pool.handle_request(
            httpcore.Request(
                request.method,
                httpcore.URL(
                    scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path
                ),
                headers=request.headers.raw,
                content=cast("Iterable[bytes]", request.stream),
                extensions=request.extensions,
            )
        )
        return httpx.Response(
            response.status,
            headers=[pair for pair in response.headers if pair[0].lower() != b"set-cookie"],
            stream=_Body(response),
            extensions=response.extensions,
        )

    def close(self) -> None:
        self._pool.close()


class _Body(httpx.SyncByteStream):
    def __init__(self, response: httpcore.Response) -> None:
        self._response = response

    def __iter__(self) -> Iterator[bytes]:
        yield from self._response.iter_stream()

    def close(self) -> None:
        self._response.close()


class _Backend(httpcore.NetworkBackend):
    def __init__(self) -> None:
        self._system = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """Try each address of the host, all within the limit; the last one's error is raised."""
        *others, last = _addresses(host, port)
        for address in others:
            try:
                return self._connect(address, port, timeout, local_address, socket_options)
            except httpcore.ConnectError:
                continue
        return self._connect(last, port, timeout, local_address, socket_options)

    def _connect(self, address: str, port: int, timeout: float | None, *rest: Any) -> _Stream:
        return _Stream(self._system.connect_tcp(address, port, _left(timeout), *rest))


def _addresses(host: str, port: int) -> list[str]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise httpcore.ConnectError(str(error)) from error
    return [str(address[0]) for *_, address in found]


class _Stream(httpcore.NetworkStream):
    """A connection whose every step is given what is left of the time."""

    def __init__(self, stream: httpcore.NetworkStream) -> None:
        self._stream = stream

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, _left(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for start in range(0, len(buffer), WRITE_BYTES):
            self._stream.write(buffer[start : start + WRITE_BYTES], _left(timeout))

    def start_tls(
        self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, _left(timeout)))

    def close(self) -> None:
        self._stream.close()

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def _left(timeout: float | None) -> float | None:
    ends_at = _ends_at.get()
    if ends_at is None:
        return timeout
    left = ends_at - time.monotonic()
    if left <= 0:
        raise httpcore.ReadTimeout("the time is over")
    return left if timeout is None else min(left, timeout)
