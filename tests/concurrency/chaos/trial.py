"""One round: jobs, workers, and what is done to them until the jobs are done."""

import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from django.db import OperationalError, connections

from alkstore_django.engines.registry import engine_for
from tests.concurrency.chaos.books import Books
from tests.concurrency.chaos.crew import Crew, Member
from tests.concurrency.chaos.serve import ATOMIC, OPTIONS, PLAIN, queues
from tests.support import ground
from tests.support.rows import count_live

BEYOND_DEADLINE_S = OPTIONS["visibility_timeout_s"] + 2.5  # and beyond the next exact claim
PATIENCE_MS = 60_000
DONE_WITHIN_S = 120
TOP_UP = 200
TERMINATE = (
    "SELECT count(pg_terminate_backend(pid)) FROM (SELECT pid FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    " AND backend_type = 'client backend' ORDER BY random() LIMIT %s) AS found"
)
EVERYWHERE = ("kill", "kill a child", "pause", "pause a child", "deploy")
WITH_A_SERVER = ("cut one off", "cut all off", "restart fast", "restart immediate")


@dataclass
class Trial:
    """Args:
    n_strikes: at least so many, with jobs added as long as they are not through.
    fence: False for the tampered run, which must be found out.
    strikes: the kinds to choose from; by default all that the database allows.
    nap_s: how long every atomic handler sleeps before it does its work.
    """

    alias: str
    n_jobs: int
    n_strikes: int
    draw: random.Random
    pause_s: tuple[float, float] = (0.2, 1.0)
    size: int = 3
    fence: bool = True
    strikes: tuple[str, ...] = ()
    nap_s: float = 0.0
    on_progress: Callable[[str], None] = lambda text: None
    struck: Counter[str] = field(default_factory=Counter)
    n_done: int = 0
    n_later: int = 0

    def run(self) -> list[str]:
        """Run it, and return its faults."""
        books = Books(self.alias)
        self._be_patient()
        books.open()
        self._queues = queues(self.alias)
        self._ids: dict[str, list[int]] = {ATOMIC: [], PLAIN: []}
        with tempfile.TemporaryDirectory(prefix="alkstore-chaos-") as folder:
            self._crew = Crew(self.alias, self.size, Path(folder), fence=self.fence)
            try:
                self._rage()
                self._finish()
                self._crew.stop()
                faults = [*self._crew.faults, *books.faults(*self._ids.values())]
                if locked := self._crew.said("database is locked"):
                    faults.append(f"{locked} lines say that the database is locked")
                self.n_done = sum(map(len, self._ids.values()))
                self.n_later = books.n_later_attempts()
            finally:
                self._crew.end()
                books.close()
        return faults

    def _be_patient(self) -> None:
        """A process that pauses may hold the one write lock: here that is our own doing."""
        if not engine_for(self.alias).supports_parallel_writers:
            with connections[self.alias].cursor() as cursor:
                cursor.execute(f"PRAGMA busy_timeout = {PATIENCE_MS}")

    def _rage(self) -> None:
        self._enqueue(self.n_jobs)
        plan = self._plan()
        while (left := count_live(self.alias)) or plan:
            self._tell(left)
            if plan and left < TOP_UP:
                self._enqueue(2 * TOP_UP)
            self._rest(self.draw.uniform(*self.pause_s))
            self._strike(plan.pop() if plan else self.draw.choice(self.kinds))

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of strikes that may come."""
        if self.strikes:
            return self.strikes
        has_server = engine_for(self.alias).supports_parallel_writers
        return EVERYWHERE + (WITH_A_SERVER if has_server else ())

    def _plan(self) -> list[str]:
        """Each kind in turn, in any order."""
        kinds = self.kinds
        plan = [kinds[place % len(kinds)] for place in range(self.n_strikes)]
        self.draw.shuffle(plan)
        return plan

    def _enqueue(self, n: int) -> None:
        self._ids[ATOMIC] += self._enqueued(ATOMIC, [self.nap_s] * (n - n // 4))
        self._ids[PLAIN] += self._enqueued(PLAIN, [None] * (n // 4))

    def _enqueued(self, name: str, payloads: list[float | None]) -> list[int]:
        """Enqueue; on SQLite a worker that was paused in its transaction holds up all writers,
        maybe for longer than the patience of one statement."""
        give_up_at = time.monotonic() + DONE_WITHIN_S
        while True:
            try:
                return self._queues[name].enqueue_many(payloads)
            except OperationalError:
                if time.monotonic() >= give_up_at:
                    raise
                self._crew.look_after()

    def _finish(self) -> None:
        """No more harm: what is left is soon done."""
        self._crew.resume_all()
        give_up_at = time.monotonic() + DONE_WITHIN_S
        while count_live(self.alias) and time.monotonic() < give_up_at:
            self._rest(0.1)

    def _rest(self, seconds: float) -> None:
        ends_at = time.monotonic() + seconds
        while time.monotonic() < ends_at:
            time.sleep(0.05)
            self._crew.look_after()

    def _tell(self, left: int) -> None:
        n = sum(map(len, self._ids.values()))
        self.on_progress(f"{n - left} of {n} jobs done, {self.struck.total()} strikes")

    # -- strikes --------------------------------------------------------------------------

    def _strike(self, kind: str) -> None:
        self.struck[kind] += 1
        member = self.draw.choice(self._crew.members)
        match kind:
            case "kill":
                member.kill()
            case "kill a child":
                self.draw.choice(self._parents()).kill_a_child(self.draw)
            case "pause":
                self._crew.pause(member, member.popen.pid, BEYOND_DEADLINE_S)
            case "pause a child":
                self._crew.pause(member, self.draw.choice(member.pids), BEYOND_DEADLINE_S)
            case "deploy":
                self._crew.dismiss(member)
            case "cut one off":
                self._cut_off(1)
            case "cut all off":
                self._cut_off(1_000)
            case _:
                connections[self.alias].close()
                ground.postgres().restart(kind.removeprefix("restart "))

    def _parents(self) -> list[Member]:
        members = self._crew.members
        return [member for member in members if len(member.pids) > 1] or members

    def _cut_off(self, n: int) -> None:
        with connections[self.alias].cursor() as cursor:
            cursor.execute(TERMINATE, [n])
