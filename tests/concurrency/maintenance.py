"""A worker whose handler sweeps another queue: ``python -m tests.concurrency.maintenance ALIAS``.

The first attempt of each job is killed inside the sweep.
"""

import os
import signal
import sys

import django


def declare(alias):
    """Make the queues, register the handler, and return them."""
    from django.db import transaction

    from alkstore_django import Queue

    swept = Queue("swept", using=alias)
    maintenance = Queue("maintenance", using=alias, visibility_timeout_s=1, max_attempts=5)

    @maintenance.handler
    def sweep(job):
        with transaction.atomic(using=alias):
            swept.sweep_expired()
            if job.attempts == 1 and job.payload == "die":
                os.kill(os.getpid(), signal.SIGKILL)

    return swept, maintenance


def main():
    alias, *arguments = sys.argv[1:]
    django.setup()
    declare(alias)
    from django.core.management import execute_from_command_line

    execute_from_command_line(["serve", "alkstore_worker", "--database", alias, *arguments])


if __name__ == "__main__":
    main()
