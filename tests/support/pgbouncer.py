"""A PgBouncer of a test's own, in front of the run's server.

It is the one on the path, the one that ALKSTORE_TEST_PGBOUNCER names, or the one that
``.ci/servers`` has unpacked into the virtual environment.
"""

import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from tests.support import ground
from tests.support.postgres_server import USER, _account
from tests.support.waiting import eventually

PORT = 6432  # only a part of the socket's name
UNPACKED = Path(sys.prefix) / "pgbouncer"


@dataclass(frozen=True)
class PgBouncer:
    """A running one."""

    folder: Path

    @property
    def route(self) -> dict[str, str]:
        """What ``DATABASES`` says of a database that is reached through it."""
        return {"HOST": str(self.folder), "PORT": str(PORT)}

    def is_up(self) -> bool:
        """Return whether it answers."""
        try:
            self.connect("pgbouncer").close()
        except psycopg.OperationalError:
            return False
        return True

    def connect(self, name: str) -> psycopg.Connection:
        """Connect through it; the database ``pgbouncer`` is its own console."""
        return psycopg.connect(
            host=str(self.folder), port=PORT, user=USER, dbname=name, autocommit=True
        )


@contextmanager
def pgbouncer(*, pool_size: int) -> Iterator[PgBouncer]:
    """Run one in transaction mode for the block, with so many connections to the server."""
    program = _program()
    account = _account()
    folder = ground.folder() / f"pgbouncer-{secrets.token_hex(3)}"
    folder.mkdir(mode=0o755)
    server = ground.postgres()
    (folder / "pgbouncer.ini").write_text(
        "[databases]\n"
        f"* = host={server.host} port={server.port} user={server.user}\n"
        "[pgbouncer]\n"
        f"unix_socket_dir = {folder}\n"
        f"listen_port = {PORT}\n"
        "listen_addr =\n"
        "auth_type = any\n"
        f"admin_users = {USER}\n"
        "pool_mode = transaction\n"
        f"default_pool_size = {pool_size}\n"
        "max_client_conn = 200\n"
        "ignore_startup_parameters = extra_float_digits\n"
    )
    arguments = [program, str(folder / "pgbouncer.ini")]
    if account is not None:  # like the server, it does not run as root
        os.chown(folder, account.pw_uid, account.pw_gid)
        arguments += ["--user", account.pw_name]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(arguments, env=_environ(), stdout=log, stderr=log)
    try:
        bouncer = PgBouncer(folder)
        eventually(lambda: bouncer.is_up() or process.poll() is not None)
        assert process.poll() is None, (folder / "log").read_text()
        yield bouncer
    finally:
        process.terminate()
        process.wait(20)
        shutil.rmtree(folder, ignore_errors=True)


def _program() -> str:
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])
    found = os.environ.get("ALKSTORE_TEST_PGBOUNCER") or shutil.which("pgbouncer", path=path)
    if found:
        return found
    unpacked = UNPACKED / "usr" / "sbin" / "pgbouncer"
    assert unpacked.exists(), (
        "no PgBouncer: install it, name it in ALKSTORE_TEST_PGBOUNCER, or run "
        f"`.ci/servers {sys.executable}` where there is apt"
    )
    return str(unpacked)


def _environ() -> dict[str, str]:
    libraries = [str(folder) for folder in UNPACKED.glob("usr/lib/*-linux-*")]
    given = [os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ]
    return {**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(given + libraries)}
