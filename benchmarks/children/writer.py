"""Enqueue flat out for some seconds; say how many jobs a second that were."""

import sys
import time

import django
from django.conf import settings

from .speech import say, wait_for_line


def main(alias: str, wake: str, seconds: float) -> None:
    if wake == "off":
        settings.ALKSTORE[alias] = {**settings.ALKSTORE[alias], "NOTIFY": False}
    django.setup()
    from django.db import transaction

    from alkstore_django import Queue

    queue = Queue("bench", using=alias)

    def enqueue() -> None:
        with transaction.atomic(using=alias):
            queue.enqueue({"order": 1})

    enqueue()
    say("ready")
    wait_for_line()
    done = 0
    began = time.perf_counter()
    while time.perf_counter() < began + seconds:
        enqueue()
        done += 1
    say(done / (time.perf_counter() - began))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
