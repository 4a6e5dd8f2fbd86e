"""A supervised worker for the tests: like ``serve``, with further queues and some mishaps.

``python -m tests.concurrency.supervised ALIAS [worker options]``. The environment says what is
to go wrong.
"""

import importlib
import os
import sys

import django

from tests.concurrency import serve

NAMES = (*serve.NAMES, "hog", "fresh")
OPTIONS = serve.OPTIONS
KILL_MARGIN = "ALKSTORE_TEST_KILL_MARGIN_S"
DIE_AT_ONCE = "ALKSTORE_TEST_DIE_AT_ONCE"
MODULE = "ALKSTORE_TEST_MODULE"


def declare_more(alias):
    """Make the queues that only these tests use."""
    import time

    from alkstore_django import Queue
    from tests.testapp.models import Note

    hog, fresh = Queue("hog", using=alias), Queue("fresh", using=alias)
    kept = []

    @hog.handler
    def hold(job):
        kept.append(bytearray(os.urandom(1024)) * 1024 * job.payload)

    if name := os.environ.get(MODULE):
        module = importlib.import_module(name)

        @fresh.handler
        def tell(job):
            time.sleep(job.payload)
            Note.objects.using(alias).create(text=f"fresh {module.TEXT} {job.attempts} {job.id}")


def arrange_mishaps():
    """Shorten the margin, or let every process die as soon as it works."""
    from alkstore_django.worker import loop, supervisor

    if margin := os.environ.get(KILL_MARGIN):
        supervisor.KILL_MARGIN_S = float(margin)
    if os.environ.get(DIE_AT_ONCE):
        loop.Worker.run = lambda self: os._exit(7)


def main():
    alias, *arguments = sys.argv[1:]
    django.setup()
    serve.declare(alias)
    declare_more(alias)
    arrange_mishaps()
    from django.core.management import execute_from_command_line

    execute_from_command_line(["serve", "alkstore_worker", "--database", alias, *arguments])


if __name__ == "__main__":
    main()
