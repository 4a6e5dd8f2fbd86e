"""Workers that are killed, stopped, sent away and cut off at random, and the ledger they keep.

``python -m tests.concurrency.havoc`` is the long run: see ``make chaos``.
"""

import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field

from django.db import connections

from alkstore_django.engines.registry import engine_for
from tests.support import ground
from tests.support.processes import Child
from tests.support.rows import count_live

TERMINATE_ONE = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
    " AND pid <> pg_backend_pid() AND backend_type = 'client backend' ORDER BY random() LIMIT 1"
)
KINDS = (("--threads", "4"), ("--threads", "2", "--processes", "2"))


@dataclass
class Havoc:
    """Some workers on one queue, and what is done to them."""

    alias: str
    start_worker: Callable[..., AbstractContextManager[Child]]
    queue: str
    n_workers: int
    draw: random.Random
    env: dict[str, str] = field(default_factory=dict)
    done: Counter[str] = field(default_factory=Counter)

    def rage(self, seconds: float, *, pause_s: tuple[float, float] = (0.1, 0.6)) -> None:
        """Do harm for so long, or until all jobs are gone; then let the workers finish."""
        with ExitStack() as self._stack:
            workers = [self._start(place) for place in range(self.n_workers)]
            ends_at = time.monotonic() + seconds
            while time.monotonic() < ends_at and count_live(self.alias):
                time.sleep(self.draw.uniform(*pause_s))
                place = self.draw.randrange(self.n_workers)
                workers[place] = self._harm(workers[place], place)
            for worker in workers:
                worker.popen.send_signal(signal.SIGCONT)

    def _start(self, place: int) -> Child:
        options = ("--queue", self.queue, "--shutdown-timeout", "0.2", *KINDS[place % len(KINDS)])
        return self._stack.enter_context(self.start_worker(*options, env=self.env))

    def _harm(self, worker: Child, place: int) -> Child:
        kinds = ["kill", "term", "pause"]
        if engine_for(self.alias).supports_parallel_writers:
            kinds += ["cut off", "restart"]
        kind = self.draw.choice(kinds)
        self.done[kind] += 1
        if kind == "kill":
            worker.kill()
            return self._start(place)
        if kind == "term":
            worker.terminate()
            return self._start(place)
        if kind == "pause":  # beyond the deadline of what it runs
            worker.popen.send_signal(signal.SIGSTOP)
            time.sleep(3.2)
            worker.popen.send_signal(signal.SIGCONT)
        elif kind == "cut off":
            with connections[self.alias].cursor() as cursor:
                cursor.execute(TERMINATE_ONE)
        else:
            connections[self.alias].close()
            ground.postgres().restart(self.draw.choice(["fast", "immediate"]))
        return worker
