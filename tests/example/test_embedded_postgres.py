"""The shop's own PostgreSQL server: shared in use, stopped by the last, started after any end."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.example.shops import PROJECT, TIMEOUT_S, Data, Shop

USE = """
import sys
from pathlib import Path
from project import embedded_postgres
embedded_postgres.join(Path(sys.argv[1]))
print("joined", flush=True)
sys.stdin.read()
"""


class User:
    """A process that uses the server until it is told to end."""

    def __init__(self, data: Path) -> None:
        environ = {name: value for name, value in os.environ.items() if name != "XDG_RUNTIME_DIR"}
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", USE, data],
            env={**environ, "PYTHONPATH": str(PROJECT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def joined(self) -> "User":
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "joined\n"
        return self

    def end(self) -> None:
        self.process.communicate("", timeout=TIMEOUT_S)
        assert self.process.returncode == 0

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=TIMEOUT_S)


@pytest.fixture
def data_dir(tmp_path: Path) -> Iterator[Path]:
    """The place of a server's data; its server has ended when the test ends."""
    folder = tmp_path / "postgres"
    yield folder
    assert not (folder / "postmaster.pid").exists()


def postmaster(data_dir: Path) -> psutil.Process:
    return psutil.Process(int((data_dir / "postmaster.pid").read_text().splitlines()[0]))


def test_processes_share_the_server_and_the_last_one_stops_it(data_dir: Path) -> None:
    """Three start at once on nothing; the server outlives the first to end and not the last."""
    users = [User(data_dir) for _ in range(3)]
    for user in users:
        user.joined()
    server = postmaster(data_dir)
    users[0].end()
    users[1].end()
    assert server.is_running()
    users[2].end()
    assert not server.is_running() or server.status() == psutil.STATUS_ZOMBIE


def test_a_killed_user_leaves_a_server_that_the_next_one_uses_and_stops(data_dir: Path) -> None:
    """Its share in the server ends with it, however it ends."""
    User(data_dir).joined().kill()
    server = postmaster(data_dir)
    user = User(data_dir).joined()
    assert postmaster(data_dir) == server
    user.end()


def test_a_killed_server_is_started_again(data_dir: Path) -> None:
    """The pid file that it leaves is no server, not even while it is a zombie."""
    first = User(data_dir).joined()
    server = postmaster(data_dir)
    server.kill()
    second = User(data_dir).joined()
    assert postmaster(data_dir) != server
    first.end()
    second.end()


def test_a_pid_file_that_names_another_process_is_no_server(data_dir: Path) -> None:
    """Process numbers are used again, soon in a container."""
    User(data_dir).joined().end()
    pid_file = data_dir / "postmaster.pid"
    pid_file.write_text(f"{os.getpid()}\n{data_dir}\n1700000000\n5432\n{data_dir}\n\n1 2\nready\n")
    os.chown(pid_file, data_dir.stat().st_uid, data_dir.stat().st_gid)
    User(data_dir).joined().end()


def test_a_killed_initdb_leaves_nothing_to_stumble_over(data_dir: Path) -> None:
    """A half-made folder is made anew."""
    half = data_dir.with_name("postgres.new")
    half.mkdir()
    (half / "PG_VERSION").write_text("18\n")
    User(data_dir).joined().end()


def test_any_path_will_do(tmp_path: Path) -> None:
    """Too long for a socket, with quotes and spaces, and closed to other accounts."""
    folder = tmp_path / ("it's a $HOME " + "x" * 90)
    folder.mkdir(mode=0o700)
    User(folder / "postgres").joined().end()
    assert not (folder / "postgres" / "postmaster.pid").exists()


@pytest.mark.slow
def test_the_demo_runs_on_it(tmp_path: Path, data: Data, data_dir: Path) -> None:
    """Issue 2: ENGINE=postgres needs no server of the user's own."""
    shop = Shop({"ENGINE": "postgres", "DATABASE_URL": "", "SHOP_VAR": str(tmp_path)})
    last = "orders=2 invoices=2 events=2 goods=176.42 freight=43.99 pending=0 dead=0"
    for _ in range(2):
        assert shop.succeed("demo", "--data", str(data.folder))[-1] == last
