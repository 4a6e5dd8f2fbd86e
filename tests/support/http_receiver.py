"""A real HTTP server in threads of the test, which answers as it is told: well, badly, never."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Answer = Callable[["Exchange"], None]
PAUSE_S = 0.05


@dataclass(frozen=True)
class Request:
    """What was received."""

    path: str
    headers: dict[str, str]
    body: bytes
    port: int
    """The sender's port: the same for requests over one connection."""


class Exchange:
    """One request that waits for its answer."""

    def __init__(self, handler: "_Handler", stopping: threading.Event) -> None:
        self._handler = handler
        self._stopping = stopping

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        """Send a whole answer; ``retry_after`` becomes the header ``Retry-After``."""
        self._handler.send_response(status)
        for name, value in headers.items():
            self._handler.send_header(name.replace("_", "-"), value)
        self._handler.send_header("Content-Length", str(len(body)))
        self._handler.end_headers()
        self.send(body)

    def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._handler.wfile.write(data)

    def hang_up(self) -> None:
        """Close the connection after this."""
        self._handler.close_connection = True

    def pauses(self) -> Iterator[None]:
        """Go on for ever, with a short pause each time, until the server stops."""
        while not self._stopping.wait(PAUSE_S):
            yield

    def endlessly(self) -> Iterator[None]:
        """Go on for ever, as fast as can be, until the server stops."""
        while not self._stopping.is_set():
            yield


class Receiver:
    """A running server."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.answer: Answer = lambda exchange: exchange.answer(204)
        self.stopping = threading.Event()
        self._open: set[socket.socket] = set()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.receiver = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    @property
    def host(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self._server.server_port}"

    @property
    def url(self) -> str:
        """Where it takes webhooks."""
        return f"http://{self.host}/hooks"

    def answers(self, status: int, body: bytes = b"", **headers: str) -> None:
        """From now on, answer so."""
        self.answer = lambda exchange: exchange.answer(status, body, **headers)

    def close(self) -> None:
        """End all that is open, and the threads."""
        self.stopping.set()
        self._server.shutdown()
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._server.server_close()  # waits for the threads of its connections
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    receiver: Receiver

    def handle_error(self, request: object, client_address: object) -> None:
        """The sender has hung up on an answer that was too slow: that is what is tested."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server
    disable_nagle_algorithm = True

    def setup(self) -> None:
        super().setup()
        self.server.receiver._open.add(self.connection)

    def finish(self) -> None:
        self.server.receiver._open.discard(self.connection)
        with contextlib.suppress(OSError):
            super().finish()

    def do_POST(self) -> None:
        receiver = self.server.receiver
        body = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        receiver.requests.append(Request(self.path, headers, body, self.client_address[1]))
        receiver.answer(Exchange(self, receiver.stopping))

    def do_GET(self) -> None:
        """What a redirect that is followed would end in."""
        self.server.receiver.requests.append(Request(self.path, {}, b"", 0))
        Exchange(self, self.server.receiver.stopping).answer(200)

    def log_message(self, *args: object) -> None:
        """Say nothing."""


@contextmanager
def http_receiver() -> Iterator[Receiver]:
    """Run one for the block."""
    receiver = Receiver()
    try:
        yield receiver
    finally:
        receiver.close()
