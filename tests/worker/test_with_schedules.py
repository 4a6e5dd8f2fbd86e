"""``alkstore_worker --with-schedules``: a scheduler beside the worker."""

import threading

import pytest
from django.core.management import CommandError, call_command

from alkstore_django import (
    InvalidOptions,
    LeadershipLost,
    Queue,
    StopToken,
    declare_schedule,
    schedule,
)
from alkstore_django.engines.registry import engine_for
from alkstore_django.handlers import handlers_on
from alkstore_django.models import Job
from alkstore_django.scheduling import declarations
from alkstore_django.scheduling.leadership import LEASE_NAME
from alkstore_django.scheduling.runner import Runner
from alkstore_django.worker.loop import Worker
from alkstore_django.worker.options import WorkerOptions
from tests.support.rows import schedule_row


@pytest.fixture
def worker(alias):
    """Make a worker with a scheduler, whose handler notes what it got."""
    queue = Queue("q", using=alias)
    done = []

    def make(stop):
        @queue.handler
        def handle(job):
            done.append(job.payload)
            stop.stop()

        return Worker(
            Job.objects.db_manager(alias),
            list(handlers_on(alias).values()),
            WorkerOptions(threads=1, with_schedules=True),
            stop=stop,
        )

    make.done = done
    return make


def test_it_fires_what_the_worker_handles(alias, clock, worker):
    """4.4 One process does both; at the end the lease is given back."""
    schedule("s", "@every 1m", "q", "hello", using=alias)
    clock.advance(60)
    worker(StopToken()).run()
    assert worker.done == ["hello"]
    assert engine_for(alias).schedules.is_lease_free(LEASE_NAME)


def test_a_loss_ends_no_worker(alias, clock, worker, monkeypatch):
    """4.4 Leadership that is lost is stood by for again."""
    schedule("s", "@every 1m", "q", "hello", using=alias)
    clock.advance(60)
    real, calls = Runner.run, []

    def run(self):
        calls.append(1)
        if len(calls) < 3:
            raise LeadershipLost(LEASE_NAME)
        real(self)

    monkeypatch.setattr(Runner, "run", run)
    worker(StopToken()).run()
    assert (worker.done, len(calls)) == (["hello"], 3)


def test_a_bug_ends_the_worker_loudly(alias, worker, monkeypatch):
    """FR-118 The worker ends with the scheduler's error."""

    def fail(self):
        raise ZeroDivisionError

    monkeypatch.setattr(Runner, "run", fail)
    with pytest.raises(ZeroDivisionError):
        worker(StopToken()).run()


def test_without_it_there_is_no_thread(alias, worker):
    """4.4 A plain worker schedules nothing."""
    stop = StopToken()
    made = worker(stop)
    plain = Worker(made._jobs, made._handlers, WorkerOptions(threads=1), stop=stop)
    names = []
    plain._after_turn = lambda: (names.extend(t.name for t in threading.enumerate()), stop.stop())
    plain.run()
    assert names
    assert "alkstore-schedules" not in names


def test_not_with_drain(alias):
    """7.1 A drain ends, a scheduler does not: refused."""
    with pytest.raises(InvalidOptions):
        WorkerOptions(drain=True, with_schedules=True)
    Queue("q", using=alias).handler(print)
    with pytest.raises(CommandError, match="--with-schedules does not go with --drain"):
        call_command("alkstore_worker", "--with-schedules", "--drain", database=alias)


def test_the_schedule_is_registered_at_start(alias, monkeypatch, capsys):
    """4.1 --with-schedules brings the declared ones in, as alkstore_schedules does."""
    monkeypatch.setattr(declarations, "_declared", {})
    monkeypatch.setattr(Worker, "run", lambda self: self.tally)
    Queue("q", using=alias).handler(print)
    declare_schedule("s", "@every 1m", "q", None, using=alias)
    call_command("alkstore_worker", "--with-schedules", database=alias)
    out = capsys.readouterr().out
    assert "Schedule 's' added" in out
    assert "with_schedules=True" in out
    assert schedule_row(alias, "s") is not None
