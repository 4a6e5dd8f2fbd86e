"""A worker process for the tests: ``python -m tests.concurrency.serve ALIAS [worker options]``.

The kinds of jobs are queues of their own; what a handler did is a note in the test app's table.
"""

import os
import signal
import sys
import time

import django

NAMES = ("plain", "ledger", "slow", "stubborn", "trip", "late")


def declare(alias):
    """Make the queues and register their handlers."""
    from django.db import transaction

    from alkstore_django import Queue
    from tests.testapp.models import Note

    queues = {name: Queue(name, using=alias, **OPTIONS.get(name, {})) for name in NAMES}

    def note(text):
        Note.objects.using(alias).create(text=text)

    @queues["plain"].handler
    def plain(job):
        note(f"plain {job.id}")

    @queues["ledger"].handler(atomic=True)
    def ledger(job):
        note(f"ledger {job.id}")
        if job.payload:
            time.sleep(job.payload)

    @queues["slow"].handler
    def slow(job):
        note(f"begun {job.id}")
        time.sleep(job.payload)
        note(f"ended {job.id}")

    @queues["stubborn"].handler
    def stubborn(job):
        note(f"begun {job.id}")
        print("begun", flush=True)
        time.sleep(120)

    @queues["trip"].handler
    def trip(job):
        """Die as hard as can be in the middle of the first attempt."""
        note(f"attempt {job.attempts} {job.id}")
        if job.attempts == 1 and job.payload == "die":
            os.kill(os.getpid(), signal.SIGKILL)

    @queues["late"].handler(atomic=True, timeout_s=0.2)
    def late(job):
        with transaction.atomic(using=alias):
            note(f"late {job.id}")
        if job.attempts == 1:
            time.sleep(1.2)

    return queues


OPTIONS = {
    "slow": {"visibility_timeout_s": 2},
    "trip": {"visibility_timeout_s": 1, "max_attempts": 5},
    "ledger": {"visibility_timeout_s": 2, "max_attempts": 50},
    "stubborn": {"visibility_timeout_s": 30},
    "late": {"backoff_base_s": 600},
}


def main():
    alias, *arguments = sys.argv[1:]
    django.setup()
    declare(alias)
    from django.core.management import execute_from_command_line

    command = ["serve", "alkstore_worker", "--database", alias, *arguments]
    execute_from_command_line(command)


if __name__ == "__main__":
    main()
