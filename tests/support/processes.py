"""Real processes on the test databases. One that takes too long is killed, and fails the test."""

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.db import connections

from tests.support.ground import NAME_VARIABLE

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 120
PRELUDE = "import django; django.setup()\n"


def child_environ(env: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment in which a process finds the tests' settings and databases."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    names = {
        NAME_VARIABLE.format(alias.upper()): str(connections[alias].settings_dict["NAME"])
        for alias in connections
    }
    settings = {"DJANGO_SETTINGS_MODULE": "tests.settings", "PYTHONUNBUFFERED": "1"}
    return {**os.environ, **settings, **names, "PYTHONPATH": path, **(env or {})}


def run_python(
    code_or_args: str | Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    timeout_s: float = TIMEOUT_S,
    check: bool = True,
) -> subprocess.CompletedProcess[str]:
    """Run code (in which Django is set up), or Python with arguments, to its end.

    ``check`` fails the test, with all that the process printed, if its exit code is not 0.
    """
    try:
        done = subprocess.run(
            _command(code_or_args),
            env=child_environ(env),
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )
    except subprocess.TimeoutExpired as late:
        raise AssertionError(
            f"not done in {timeout_s} s: {late.stdout!r} {late.stderr!r}"
        ) from None
    assert not check or done.returncode == 0, _told(done.returncode, done.stdout, done.stderr)
    return done


def manage(*command: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a management command to its end; the options are those of ``run_python``."""
    return run_python(["-m", "django", *command], **options)


class Child:
    """A running process. Its output is read by threads, so it never blocks on a full pipe."""

    def __init__(self, popen: subprocess.Popen[str]) -> None:
        self.popen = popen
        self.pid = popen.pid
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._output: dict[str, list[str]] = {"stdout": [], "stderr": []}
        self._readers = [
            threading.Thread(target=self._read, args=(name,), name=f"child-{name}", daemon=True)
            for name in self._output
        ]
        for reader in self._readers:
            reader.start()

    @property
    def stdout(self) -> str:
        """All that it has printed so far."""
        return "".join(self._output["stdout"])

    @property
    def stderr(self) -> str:
        """All that it has complained of so far."""
        return "".join(self._output["stderr"])

    def read_line(self, timeout_s: float = TIMEOUT_S) -> str:
        """Return the next line of its output that was not asked for yet, without the line's end."""
        try:
            line = self._lines.get(timeout=timeout_s)
        except queue.Empty:
            raise AssertionError(f"no line within {timeout_s} s: {self._told()}") from None
        assert line is not None, f"no more lines: {self._told()}"
        return line.rstrip("\n")

    def wait_for_line(self, text: str, timeout_s: float = TIMEOUT_S) -> str:
        """Read lines until one contains ``text``, and return that one."""
        give_up_at = time.monotonic() + timeout_s
        while True:
            line = self.read_line(max(0, give_up_at - time.monotonic()))
            if text in line:
                return line

    def say(self, line: str) -> None:
        """Send a line to its standard input."""
        assert self.popen.stdin is not None
        self.popen.stdin.write(line + "\n")
        self.popen.stdin.flush()

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.popen.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL and wait for the end."""
        self.popen.kill()
        self.popen.wait(TIMEOUT_S)

    def wait(self, timeout_s: float = TIMEOUT_S, *, code: int | None = 0) -> int:
        """Wait for its end and return the exit code; one that is not ``code`` fails the test."""
        try:
            found = self.popen.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"not done in {timeout_s} s: {self._told()}") from None
        for reader in self._readers:
            reader.join(TIMEOUT_S)
        assert code is None or found == code, self._told()
        return found

    def close(self) -> None:
        """Kill it if it still runs, and release the pipes."""
        if self.popen.poll() is None:
            self.kill()
        for reader in self._readers:
            reader.join(TIMEOUT_S)
        for pipe in (self.popen.stdin, self.popen.stdout, self.popen.stderr):
            if pipe is not None:
                pipe.close()

    def _read(self, name: str) -> None:
        for line in getattr(self.popen, name):
            self._output[name].append(line)
            if name == "stdout":
                self._lines.put(line)
        if name == "stdout":
            self._lines.put(None)

    def _told(self) -> str:
        return _told(self.popen.poll(), self.stdout, self.stderr)


@contextmanager
def started_python(
    code_or_args: str | Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    within: Callable[..., list[str]] | None = None,
) -> Iterator[Child]:
    """Start a process like ``run_python``'s; whatever happens, it does not outlive the block.

    ``within`` turns its command into one that runs it elsewhere.
    """
    command = _command(code_or_args)
    popen = subprocess.Popen(
        within(*command) if within else command,
        env=child_environ(env),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    child = Child(popen)
    try:
        yield child
    finally:
        child.close()


@contextmanager
def started_command(*command: str, env: Mapping[str, str] | None = None) -> Iterator[Child]:
    """Start a management command; it does not outlive the block."""
    with started_python(["-m", "django", *command], env=env) as child:
        yield child


def _command(code_or_args: str | Sequence[str]) -> list[str]:
    if isinstance(code_or_args, str):
        return [sys.executable, "-c", PRELUDE + code_or_args]
    return [sys.executable, *code_or_args]


def _told(code: int | None, stdout: str, stderr: str) -> str:
    return f"exit code {code}\n--- stdout\n{stdout}\n--- stderr\n{stderr}"
