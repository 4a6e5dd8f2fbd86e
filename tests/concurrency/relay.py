"""A relay process for the tests: ``python -m tests.concurrency.relay ALIAS [worker options]``.

The receiver is the same database: it uses the inbox, and notes each delivery in the test app's
table. A delivery may fail before or after its effect, or take its process with it.
"""

import os
import random
import signal
import sys

import django

OPTIONS = {"visibility_timeout_s": 2, "backoff_base_s": 0, "max_attempts": 1_000}
FAILURES = 0.05


def declare(alias):
    """Make the outbox and register its delivery."""
    from django.db import transaction

    from alkstore_django import Outbox, RetryJob, inbox
    from tests.testapp.models import Note

    events = Outbox("events", using=alias, **OPTIONS)

    @events.deliver
    def deliver(event):
        fails = random.random() < FAILURES and not isinstance(event.payload, str)
        if fails and random.random() < 0.5:
            raise RetryJob(delay=0)
        with (
            transaction.atomic(using=alias),
            inbox("receiver", event.id, using=alias) as first,
        ):
            word = "first" if first else "again"
            Note.objects.using(alias).create(text=f"{word} {event.key} {event.payload} {event.id}")
        if event.payload == "die" and event.attempts == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        if fails:
            raise RetryJob(delay=0)


def main():
    alias, *arguments = sys.argv[1:]
    django.setup()
    declare(alias)
    from django.core.management import execute_from_command_line

    command = ["relay", "alkstore_worker", "--database", alias, "--outbox", "events", *arguments]
    execute_from_command_line(command)


if __name__ == "__main__":
    main()
