"""A process that is measured: a program of ``benchmarks.children``, spoken to line by line."""

import json
import os
import select
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

from .measuring import BrokenMeasurement

ROOT = Path(__file__).resolve().parent.parent
TIMEOUT_S = 300.0


class Child:
    """A running ``python -m benchmarks.children.<program>``; says one JSON value per line."""

    def __init__(self, program: str, *arguments: object) -> None:
        self._program = program
        self._buffer = b""
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"benchmarks.children.{program}", *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            cwd=ROOT,
        )

    def read(self, timeout_s: float = TIMEOUT_S) -> Any:
        """Return the next value that it says; raise if it dies or says nothing."""
        pipe = self._process.stdout
        assert pipe is not None
        while b"\n" not in self._buffer:
            if not select.select([pipe], [], [], timeout_s)[0]:
                raise BrokenMeasurement(f"{self._program} said nothing for {timeout_s:g} s")
            data = os.read(pipe.fileno(), 65536)
            if not data:
                raise BrokenMeasurement(f"{self._program} ended too early")
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return json.loads(line)

    def go(self) -> None:
        """Let it go on: it waits for a line."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")

    def __enter__(self) -> "Child":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End it: by closing its input, which it takes for its end; by force after a fault."""
        if kind is not None:
            self._process.kill()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            code = self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        self._process.stdout.close()
        if kind is None and code:
            raise BrokenMeasurement(f"{self._program} ended with exit code {code}")
