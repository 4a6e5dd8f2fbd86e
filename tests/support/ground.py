"""The ground of one test run: a folder with its databases, and the server in it.

The first process names the folder in the environment. Whatever it starts finds it there, so
a run has one ground, however many processes take part. ``tests.settings`` only computes
names: importing it (as mypy's plugin does) starts nothing.
"""

import fcntl
import os
import secrets
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from tests.support.postgres_server import PostgresServer, joined, start

FOLDER_VARIABLE = "ALKSTORE_TEST_RUN_DIR"
NAME_VARIABLE = "ALKSTORE_TEST_DATABASE_{}"
PREFIX = "alkstore-test-"
LONGEST_FOLDER = 60  # what a Unix socket's path leaves of its 107 bytes


def folder() -> Path:
    """Return the run's folder, chosen by the first process that asks; it need not exist yet."""
    chosen = Path(_temporary()) / f"{PREFIX}{secrets.token_hex(6)}"
    return Path(os.environ.setdefault(FOLDER_VARIABLE, str(chosen)))


def database_name(alias: str, default: str) -> str:
    """Return the name of a test database, from the environment in a process that a test started."""
    return os.environ.get(NAME_VARIABLE.format(alias.upper()), default)


def postgres_folder() -> Path:
    """Return the folder of the run's server, which is also that of its socket."""
    return folder() / "postgres"


def postgres() -> PostgresServer:
    """Return the run's server."""
    return joined(postgres_folder())


class Ground:
    """What the process that began the run has made, and removes."""

    def __init__(self) -> None:
        self._made = folder()
        self._lock: int | None = None
        self._server: PostgresServer | None = None

    def make(self) -> None:
        """Make the folder and start the server; another process's ground is used as it is."""
        if self._made.exists():
            return
        _remove_leftovers(self._made.parent)
        # Under its own name only when it is locked: so it is never taken for a leftover.
        unlocked = self._made.with_name(f".{self._made.name}")
        unlocked.mkdir(mode=0o711)
        self._lock = os.open(unlocked / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        unlocked.rename(self._made)
        self._server = start(postgres_folder())

    def remove(self) -> None:
        """Stop the server and remove everything; a second call does nothing."""
        if self._lock is None:
            return
        lock, self._lock = self._lock, None
        _remove(self._made)
        os.close(lock)


def _remove_leftovers(parent: Path) -> None:
    """Remove what a killed run has left: a folder of ours that nobody locks."""
    for left in parent.glob(f"{PREFIX}*"):
        # Another run may remove it at the same time, and a server that died needs no stop.
        with suppress(FileNotFoundError, BlockingIOError, RuntimeError):
            if left.stat().st_uid == os.geteuid():
                _remove_leftover(left)


def _remove_leftover(left: Path) -> None:
    lock = os.open(left / "lock", os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _remove(left)
    finally:
        os.close(lock)


def _remove(made: Path) -> None:
    try:
        if (made / "postgres" / "data" / "postmaster.pid").exists():
            joined(made / "postgres").stop()
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _temporary() -> str:
    found = tempfile.gettempdir()
    return found if len(os.fsencode(found)) <= LONGEST_FOLDER else "/tmp"
