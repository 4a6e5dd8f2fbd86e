"""A NATS server with JetStream of the tests' own.

It is the one on the path, the one that ALKSTORE_TEST_NATS_SERVER names, or the one that
``.ci/servers`` has unpacked into the virtual environment.
"""

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from tests.support.waiting import eventually

UNPACKED = Path(sys.prefix) / "nats-server" / "usr" / "sbin" / "nats-server"
NAME = "nats-server"


class NatsServer:
    """One on a free port, whose streams last as long as its folder: through restarts."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._folder = folder
        self._arguments = arguments
        self._process: subprocess.Popen[bytes] | None = None
        with closing(socket.socket()) as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        log = self._folder / "log"
        place = ["--addr", "127.0.0.1", "--port", str(self.port)]
        store = ["--jetstream", "--store_dir", str(self._folder / "store"), "--log", str(log)]
        self._process = process = subprocess.Popen([program(), *place, *store, *self._arguments])
        eventually(lambda: process.poll() is not None or self._answers())
        assert process.poll() is None, log.read_text()

    def stop(self) -> None:
        """End it at once, as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(20)
            self._process = None

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                return connection.recv(4) == b"INFO"
        except OSError:
            return False


@contextmanager
def nats_server(folder: Path, *arguments: str) -> Iterator[NatsServer]:
    """Run one for the block."""
    server = NatsServer(folder, *arguments)
    try:
        server.start()
        yield server
    finally:
        server.stop()


def program() -> str:
    """Return the server's path; without one, the test fails."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])
    found = os.environ.get("ALKSTORE_TEST_NATS_SERVER") or shutil.which(NAME, path=path)
    if found:
        return found
    assert UNPACKED.exists(), (
        f"no {NAME}: install it, name it in ALKSTORE_TEST_NATS_SERVER, or run "
        f"`.ci/servers {sys.executable}` where there is apt"
    )
    return str(UNPACKED)
