"""A network of two hosts with a router between them, whose wires can be cut without a word.

Each is a network namespace of its own, which lasts as long as the process that holds it. The
run's server is moved to one of the hosts; the tests themselves go on talking to it over its
socket. Linux only, and only for root.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from tests.support import ground
from tests.support.processes import child_environ
from tests.support.waiting import eventually

# Addresses that are set aside for documentation, so they lead nowhere else.
SERVER, SERVERS_ROUTER = "192.0.2.2", "192.0.2.1"
WORKER, WORKERS_ROUTER = "192.0.2.18", "192.0.2.17"
PREFIX = 28

START_SERVER = (
    "from tests.support import ground; ground.postgres().start_again(listen_addresses={!r})"
)


@dataclass(frozen=True)
class Host:
    """One namespace, named by the process that holds it."""

    pid: int

    def run(self, *command: str, **options: object) -> None:
        """Run a command on this host to its end."""
        subprocess.run(self.command(*command), check=True, timeout=60, **options)  # type: ignore[call-overload]

    def command(self, *command: str) -> list[str]:
        """Return the command that runs a command on this host."""
        return ["nsenter", f"--net=/proc/{self.pid}/ns/net", *command]


@dataclass(frozen=True)
class Network:
    """Two hosts: the server's, and that of its worker."""

    server: Host
    worker: Host
    router: Host

    @property
    def route(self) -> dict[str, str]:
        """What ``DATABASES`` says of a database that is reached over this network."""
        return {"HOST": SERVER, "PORT": str(ground.postgres().port)}

    def cut(self) -> None:
        """From now on the router drops what it is to pass on, and tells nobody."""
        self._forward(False)

    def mend(self) -> None:
        """The router passes on again."""
        self._forward(True)

    def _forward(self, does: bool) -> None:
        self.router.run("sh", "-c", f"echo {int(does)} > /proc/sys/net/ipv4/ip_forward")


@contextmanager
def network() -> Iterator[Network]:
    """Lay the network, and move the run's server to its host for the block."""
    assert sys.platform == "linux" and os.geteuid() == 0, "network namespaces need root on Linux"
    with ExitStack() as stack:
        made = Network(*(stack.enter_context(_host()) for _ in range(3)))
        _connect(made.router, "to-server", SERVERS_ROUTER, made.server, SERVER)
        _connect(made.router, "to-worker", WORKERS_ROUTER, made.worker, WORKER)
        made.mend()
        stack.enter_context(_server_on(made.server))
        yield made


@contextmanager
def _host() -> Iterator[Host]:
    """Make a namespace; it ends when its holder does, at the latest with this process."""
    holder = subprocess.Popen(["unshare", "--net", "cat"], stdin=subprocess.PIPE)
    assert holder.stdin is not None
    ours = os.readlink("/proc/self/ns/net")
    try:
        eventually(lambda: os.readlink(f"/proc/{holder.pid}/ns/net") != ours)
        yield Host(holder.pid)
    finally:
        holder.stdin.close()
        holder.wait(20)


def _connect(router: Host, wire: str, routers: str, host: Host, address: str) -> None:
    end = f"peer name eth0 netns {host.pid}".split()
    router.run("ip", "link", "add", wire, "type", "veth", *end)
    router.run("ip", "address", "add", f"{routers}/{PREFIX}", "dev", wire)
    router.run("ip", "link", "set", wire, "up")
    host.run("ip", "link", "set", "lo", "up")
    host.run("ip", "address", "add", f"{address}/{PREFIX}", "dev", "eth0")
    host.run("ip", "link", "set", "eth0", "up")
    host.run("ip", "route", "add", "default", "via", routers)


@contextmanager
def _server_on(host: Host) -> Iterator[None]:
    server = ground.postgres()
    rules = server.data / "pg_hba.conf"
    before = rules.read_text()
    server.stop("fast")
    try:
        rules.write_text(f"{before}\nhost all all {WORKER}/32 trust\n")
        host.run(sys.executable, "-c", START_SERVER.format(SERVER), env=child_environ())
        yield
    finally:
        server.stop("immediate")
        rules.write_text(before)
        server.start_again()
