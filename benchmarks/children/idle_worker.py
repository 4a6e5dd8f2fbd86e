"""Be a worker with the default options; say for each job at what instant its handler began."""

import sys
import threading
import time

import django

from .speech import say, wait_for_line


def main(alias: str) -> None:
    django.setup()
    from alkstore_django import Queue, StopToken
    from alkstore_django.handlers import handlers_on
    from alkstore_django.models import Job
    from alkstore_django.worker.loop import Worker
    from alkstore_django.worker.options import WorkerOptions

    Queue("bench", using=alias).handler(note_start)
    stop = StopToken()
    worker = Worker(
        Job.objects.db_manager(alias), list(handlers_on(alias).values()), WorkerOptions(), stop=stop
    )
    runner = threading.Thread(target=worker.run)
    runner.start()
    say("ready")
    while wait_for_line():
        pass
    stop.stop()
    runner.join()


def note_start(job: object) -> None:
    """The handler. The monotonic clock is the same in all processes."""
    say(time.monotonic())


if __name__ == "__main__":
    main(sys.argv[1])
