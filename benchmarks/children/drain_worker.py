"""Drain the queue with a real worker; say how long that took and what was done."""

import sys
import time

import django

from .speech import say, wait_for_line


def main(alias: str, threads: int) -> None:
    django.setup()
    from django.db import connections

    from alkstore_django import Queue
    from alkstore_django.handlers import handlers_on
    from alkstore_django.models import Job
    from alkstore_django.worker.loop import Worker
    from alkstore_django.worker.options import WorkerOptions

    queue = Queue("bench", using=alias)
    queue.handler(do_nothing)
    options = WorkerOptions(threads=threads, drain=True)
    worker = Worker(Job.objects.db_manager(alias), list(handlers_on(alias).values()), options)
    connections[alias].ensure_connection()
    say("ready")
    wait_for_line()
    began = time.perf_counter()
    tally = worker.run()
    seconds = time.perf_counter() - began
    say({"seconds": seconds, "outcomes": tally.as_dict().get("bench", {})})


def do_nothing(job: object) -> None:
    """The handler."""


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
