"""A worker of the chaos: ``python -m tests.concurrency.chaos.serve ALIAS [worker options]``."""

import os
import random
import sys
import time

import django

ATOMIC, PLAIN = "chaos-atomic", "chaos-plain"
OPTIONS = {"visibility_timeout_s": 2, "max_attempts": 1_000, "backoff_base_s": 1}
WITHOUT_FENCE = "ALKSTORE_TEST_WITHOUT_FENCE"


def queues(alias):
    """Return the two queues."""
    from alkstore_django import Queue

    return {name: Queue(name, using=alias, **OPTIONS) for name in (ATOMIC, PLAIN)}


def declare(alias):
    """Register the handlers. Each takes a moment, and now and then a long one."""
    from alkstore_django.engines.registry import engine_for
    from tests.concurrency.chaos.books import Books

    books = Books(alias)
    declared = queues(alias)
    many_writers = engine_for(alias).supports_parallel_writers
    moment_s, long_s = (0.005, 0.5) if many_writers else (0.001, 0.05)

    def take_a_moment():
        time.sleep(long_s if random.random() < 0.01 else random.uniform(0, moment_s))

    @declared[ATOMIC].handler(atomic=True)
    def enter(job):
        take_a_moment()
        time.sleep(job.payload)
        books.enter(job.id, job.attempts)
        if random.random() < 0.2:
            take_a_moment()

    @declared[PLAIN].handler
    def note_run(job):
        books.note_run(job.id)
        take_a_moment()


def take_the_fence_out():
    """Let atomic handlers commit whatever their ack says: what the audit must notice."""
    from alkstore_django.managers import JobManager

    ack = JobManager.ack

    def ack_anyhow(self, claims):
        ack(self, claims)
        return {claim.job_id for claim in claims}

    JobManager.ack = ack_anyhow


def main():
    alias, *arguments = sys.argv[1:]
    django.setup()
    declare(alias)
    if os.environ.get(WITHOUT_FENCE):
        take_the_fence_out()
    from django.core.management import execute_from_command_line

    execute_from_command_line(["serve", "alkstore_worker", "--database", alias, *arguments])


if __name__ == "__main__":
    main()
