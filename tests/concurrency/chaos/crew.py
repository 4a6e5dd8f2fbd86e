"""Workers of all kinds that are replaced when they die, and watched for dying wrongly."""

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from tests.concurrency.chaos.serve import WITHOUT_FENCE
from tests.support.processes import child_environ

KINDS = (("--threads", "4"), ("--threads", "2", "--processes", "2"))
GRACE_S = 0.3
STOP_WITHIN_S = 30


class Member:
    """One worker command, its processes, and what it may end with."""

    def __init__(self, alias: str, kind: tuple[str, ...], log: Path, fence: bool) -> None:
        self.log = log
        self.killed = False
        self.harmed_child = False
        self.asked_at: float | None = None
        options = ("--shutdown-timeout", str(GRACE_S), "--poll-interval", "0.5", *kind)
        env = {} if fence else {WITHOUT_FENCE: "1"}
        with log.open("ab") as out:
            self.popen = subprocess.Popen(
                [sys.executable, "-m", "tests.concurrency.chaos.serve", alias, *options],
                env=child_environ(env),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )

    @property
    def pids(self) -> list[int]:
        """The command's process, and those that it has started."""
        return [self.popen.pid, *children_of(self.popen.pid)]

    def resume(self) -> None:
        """Let all of its processes run."""
        for pid in self.pids:
            send(pid, signal.SIGCONT)

    def terminate(self) -> None:
        """Ask it to stop, as a deploy does."""
        self.resume()
        send(self.popen.pid, signal.SIGTERM)
        self.asked_at = time.monotonic()

    def kill(self) -> None:
        """End the command's process without asking."""
        self.killed = True
        send(self.popen.pid, signal.SIGKILL)

    def kill_a_child(self, draw: random.Random) -> None:
        """End one of the processes that it has started, if there is one."""
        if children := self.pids[1:]:
            self.harmed_child = True
            send(draw.choice(children), signal.SIGKILL)

    def fault(self) -> str | None:
        """Return what is wrong with the way it ended, or has not ended."""
        code = self.popen.poll()
        if code is None:
            late = self.asked_at is not None and time.monotonic() > self.asked_at + STOP_WITHIN_S
            return "a worker did not stop" if late else None
        if code in self._expected():
            return None
        return f"a worker ended with {code}: {self._said()[-2000:]}"

    def _expected(self) -> set[int]:
        if self.killed:
            return {-signal.SIGKILL}
        if self.asked_at is None:
            return set()
        if self.harmed_child and "during the stop" in self._said():
            return {1}  # it stopped just then, and tells
        # Before it serves it has no handlers of its own, and there is nothing to tidy up.
        return {0} if "serves" in self._said() else {0, -signal.SIGTERM}

    def _said(self) -> str:
        return self.log.read_text(errors="replace")


class Crew:
    """So many workers, whatever happens to them."""

    def __init__(self, alias: str, size: int, folder: Path, *, fence: bool = True) -> None:
        self.faults: list[str] = []
        self._alias = alias
        self._folder = folder
        self._fence = fence
        self._n_started = 0
        self._paused: list[tuple[float, int]] = []
        self._leaving: list[Member] = []
        self.members = [self._new(place) for place in range(size)]

    def pause(self, member: Member, pid: int, seconds: float) -> None:
        """Stop a process of a worker for a while."""
        member.harmed_child |= pid != member.popen.pid
        send(pid, signal.SIGSTOP)
        self._paused.append((time.monotonic() + seconds, pid))

    def dismiss(self, member: Member) -> None:
        """Ask a worker to stop, and have another at once, as in a rolling deploy."""
        member.terminate()
        self._leaving.append(member)
        place = self.members.index(member)
        self.members[place] = self._new(place)

    def look_after(self) -> None:
        """Resume whoever has paused long enough, and replace whoever has died."""
        now = time.monotonic()
        for entry in list(self._paused):
            if entry[0] <= now:
                self._paused.remove(entry)
                send(entry[1], signal.SIGCONT)
        for place, member in enumerate(self.members):
            if member.popen.poll() is not None:
                self._note(member)
                self.members[place] = self._new(place)
        for member in list(self._leaving):
            if member.popen.poll() is not None or member.fault():
                self._note(member)
                self._leaving.remove(member)

    def resume_all(self) -> None:
        """Let everybody run."""
        for _, pid in self._paused:
            send(pid, signal.SIGCONT)
        self._paused.clear()

    def stop(self) -> None:
        """Stop everybody, and note who does not as it should."""
        self.resume_all()
        self.look_after()
        for member in self.members:
            member.terminate()
        for member in [*self.members, *self._leaving]:
            with suppress(subprocess.TimeoutExpired):
                member.popen.wait(STOP_WITHIN_S)
            self._note(member)
        self.end()

    def end(self) -> None:
        """Leave nobody behind."""
        for member in [*self.members, *self._leaving]:
            for pid in member.pids if member.popen.poll() is None else ():
                send(pid, signal.SIGKILL)
            member.popen.wait(STOP_WITHIN_S)

    def said(self, text: str) -> int:
        """Return how many lines of all workers contain a text."""
        logs = [log.read_text(errors="replace") for log in self._folder.glob("worker-*.log")]
        return sum(text in line for log in logs for line in log.splitlines())

    def _new(self, place: int) -> Member:
        self._n_started += 1
        log = self._folder / f"worker-{self._n_started}.log"
        return Member(self._alias, KINDS[place % len(KINDS)], log, self._fence)

    def _note(self, member: Member) -> None:
        fault = member.fault()
        if fault is not None:
            self.faults.append(fault)


def send(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process that may be gone."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def children_of(pid: int) -> list[int]:
    """Return the processes that a process has started and that still run."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
            if int(parent) == pid and state != "Z":
                found.append(int(stat.parent.name))
    return found
