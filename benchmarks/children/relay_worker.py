"""Deliver the events of an outbox with a real worker; say how long that took and what was done."""

import sys
import time

import django

from .speech import say, wait_for_line


def main(alias: str, threads: int, batch: int) -> None:
    django.setup()
    from django.db import connections

    from alkstore_django import Outbox
    from alkstore_django.handlers import handlers_on
    from alkstore_django.models import Job
    from alkstore_django.worker.loop import Worker
    from alkstore_django.worker.options import WorkerOptions

    outbox = Outbox("bench", using=alias)
    outbox.deliver(batch=batch or None)(do_nothing)
    worker = Worker(
        Job.objects.db_manager(alias),
        list(handlers_on(alias).values()),
        WorkerOptions(threads=threads, drain=True),
    )
    connections[alias].ensure_connection()
    say("ready")
    wait_for_line()
    began = time.perf_counter()
    tally = worker.run()
    say({"seconds": time.perf_counter() - began, "acked": tally.count("acked")})


def do_nothing(events: object) -> None:
    """The delivery."""


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
