"""A reader's folder: what the documents tell to write is written, what they tell to run is run."""

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

from tests.docs.pages import ROOT, Block

TIMEOUT_S = 120
# What needs the network, or an environment of its own; the tests have one already.
_SET_UP = ("python3 -m venv", "source ", "pip install")


class Folder:
    """An empty folder, and a shell in it that finds Python and the package."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.running: subprocess.Popen[str] | None = None
        keep = {n: v for n, v in os.environ.items() if not n.startswith(("DJANGO_", "ALKSTORE_"))}
        bin_folder = str(Path(sys.executable).parent)
        self.environ = {
            **keep,
            "PATH": os.pathsep.join([bin_folder, keep.get("PATH", "")]),
            "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), keep.get("PYTHONPATH")])),
            "PYTHONUNBUFFERED": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def write(self, block: Block) -> None:
        """Store a block as the file that its first line names, or add it to the file's end."""
        assert block.file is not None
        path = self.path / block.file
        path.parent.mkdir(parents=True, exist_ok=True)
        at_the_end = "(at the end)" in block.text.partition("\n")[0]
        before = path.read_text() if at_the_end else ""
        path.write_text(before + "\n" + block.text)

    def shell(self, command: str) -> str:
        """Run a command to its end and return what it printed; it must succeed."""
        done = subprocess.run(
            ["bash", "-c", f"set -eo pipefail; {command}"],
            cwd=self.path,
            env=self.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_S,
        )
        assert done.returncode == 0 or "2>&1 |" in command, f"$ {command}\n{done.stdout}"
        return done.stdout

    def follow(self, block: Block) -> None:
        """Do what a block of the terminal does, and see that it shows what the block shows."""
        for command, shown in _commands(block.text):
            if command.startswith(_SET_UP):
                continue
            if block.mark == "start":
                self._start(command)
                continue
            output = self.shell(command)
            assert has_lines(output, shown), f"{block}: $ {command}\nprinted\n{output}"

    def stop(self, block: Block) -> None:
        """Wait for the block's first line from what was started, stop it, expect the others."""
        first, *others = block.text.splitlines()
        process = self.running
        assert process is not None
        assert process.stdout is not None
        killer = threading.Timer(TIMEOUT_S, process.kill)
        killer.start()
        printed = []
        with process:
            for line in process.stdout:
                printed.append(line)
                if line.rstrip() == first:
                    process.send_signal(signal.SIGINT)
        code = process.returncode
        killer.cancel()
        killer.join()
        self.running = None
        assert has_lines("".join(printed), [first, *others]), f"{block}: {printed}"
        assert code == 0, printed

    def close(self) -> None:
        """End what still runs, as after a test that failed."""
        if self.running is not None:
            self.running.kill()
            self.running.communicate()

    def _start(self, command: str) -> None:
        self.running = subprocess.Popen(
            ["bash", "-c", f"exec {command}"],
            cwd=self.path,
            env=self.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )


def has_lines(output: str, shown: list[str]) -> bool:
    """Return whether the lines shown occur in the output in that order, times aside."""
    lines = iter(map(_timeless, output.splitlines()))
    return all(_timeless(line) in lines for line in shown)


def _timeless(line: str) -> str:
    return re.sub(r"\b\d+\.\d+s\b", "…s", line.rstrip())


def _commands(text: str) -> list[tuple[str, list[str]]]:
    """Split a terminal's text into commands and the lines that each one shows."""
    commands: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            commands.append((line[2:].partition("    # ")[0], []))
        elif line:
            commands[-1][1].append(line)
    return commands
