"""Drain the queue with a real worker, or a part of it; say how long that took and what was done."""

import sys
import time
from pathlib import Path

import django

from .speech import say, wait_for_line

SAMPLE_S = 0.25


def main(alias: str, threads: int, at_most: int) -> None:
    django.setup()
    from django.db import connections

    from alkstore_django import Queue, StopToken
    from alkstore_django.handlers import handlers_on
    from alkstore_django.models import Job
    from alkstore_django.worker.loop import Worker
    from alkstore_django.worker.options import WorkerOptions

    queue = Queue("bench", using=alias)
    queue.handler(do_nothing)
    stop = StopToken()
    samples: list[tuple[float, int]] = []

    def look() -> None:
        now = time.perf_counter()
        if not samples or now >= samples[-1][0] + SAMPLE_S or at_most:
            samples.append((now, worker.tally.count("acked")))
            if at_most and samples[-1][1] >= at_most:
                stop.stop()

    options = WorkerOptions(threads=threads, drain=True)
    worker = Worker(
        Job.objects.db_manager(alias),
        list(handlers_on(alias).values()),
        options,
        stop=stop,
        after_turn=look,
    )
    connections[alias].ensure_connection()
    say("ready")
    wait_for_line()
    began = time.perf_counter()
    tally = worker.run()
    seconds = time.perf_counter() - began
    say(
        {
            "seconds": seconds,
            "outcomes": tally.as_dict().get("bench", {}),
            "samples": [(at - began, acked) for at, acked in samples],
            "memory_mb": _memory_mb(),
        }
    )


def do_nothing(job: object) -> None:
    """The handler."""


def _memory_mb() -> float:
    """Return the resident memory of this process; 0 where /proc does not tell."""
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
    return 0.0


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 0)
