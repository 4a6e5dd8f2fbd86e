"""For tests of projects that use the package: move the clock, run jobs in line."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from django.db import DatabaseError, connections, transaction

from .core.instants import MICROSECONDS
from .core.names import backing_name, described_queue
from .core.records import Job, JobRow
from .engines.registry import engine_for
from .handlers import Handler, handlers_on
from .managers import JobManager
from .models import Job as JobMirror
from .outbox import Outbox
from .queues import Queue
from .scheduling.ticking import Ticker
from .worker.execution import call, execute, execute_batch
from .worker.running import RunningBatch, RunningJob
from .worker.sessions import HandlerSession
from .worker.settling import Settler
from .worker.tally import Tally


class FrozenClock:
    """The clock of one alias while ``frozen_time`` holds it, in epoch seconds."""

    def __init__(self, using: str, now: float) -> None:
        self._using = using
        self.move_to(now)

    @property
    def now(self) -> float:
        """The frozen instant."""
        frozen = engine_for(self._using).frozen_now_us
        assert frozen is not None
        return frozen / MICROSECONDS

    def move_to(self, now: float) -> None:
        """Set the clock to an instant, forward or back."""
        engine_for(self._using).frozen_now_us = round(now * MICROSECONDS)

    def advance(self, seconds: float) -> None:
        """Move the clock on."""
        frozen = engine_for(self._using).frozen_now_us
        assert frozen is not None
        engine_for(self._using).frozen_now_us = frozen + round(seconds * MICROSECONDS)


@contextlib.contextmanager
def frozen_time(using: str = "default", now: float | None = None) -> Iterator[FrozenClock]:
    """Feed every statement on an alias a clock that only the test moves.

    It counts for this process, all threads included; other processes keep the database's
    own. ``None`` starts at the database's present second.
    """
    engine = engine_for(using)
    start = engine.clock_us() // MICROSECONDS if now is None else now
    before = engine.frozen_now_us
    try:
        yield FrozenClock(using, start)
    finally:
        engine_for(using).frozen_now_us = before


def drain(queue: Queue | Outbox, *, worker_id: str = "test") -> Tally:
    """Run the ready jobs of a queue in this thread, one after the other, until none is ready.

    Each is claimed, handed to the queue's handler and settled just as a worker would, and so
    are the events of an outbox, in batches if its delivery takes batches; but all of it on
    the caller's connection, so that it works inside ``TestCase``. Jobs that are due later
    stay; move the clock with ``frozen_time`` to reach them.

    Returns:
        what was done: ``drain(q).count("acked")``; ``str()`` shows all.
    Raises:
        LookupError: the queue has no handler.
    """
    handler = _handler_of(queue)
    jobs = JobMirror.objects.db_manager(queue.using)
    tally = Tally()
    settler = Settler(jobs, tally)
    session = HandlerSession()
    handler = replace(handler, function=_in_savepoint(handler.function, queue.using))
    with session.watching():
        while rows := _claim(jobs, handler, worker_id):
            now = time.monotonic()
            batch = [RunningJob(row, Job(row, queue.codec), handler, now) for row in rows]
            if handler.batch is None:
                outcomes = [execute(batch[0], session, jobs)]
            else:
                outcomes = execute_batch(RunningBatch(batch))
            settler.add(list(zip(batch, outcomes, strict=True)))
            settler.settle()
    return tally


def run_due_schedules(using: str = "default") -> int:
    """Fire every boundary that is due, as one tick of a scheduler does; return the jobs enqueued.

    On the caller's connection and without a lease, so that it works inside ``TestCase``. Move the
    clock with ``frozen_time`` to reach a boundary.
    """
    engine = engine_for(using)
    return Ticker(engine).tick(engine.clock_us() // MICROSECONDS).n_fired


def _handler_of(queue: Queue | Outbox) -> Handler:
    is_outbox = isinstance(queue, Outbox)
    name = backing_name(queue.name) if is_outbox else queue.name
    handler = handlers_on(queue.using).get(name)
    if handler is None:
        who = "delivery" if is_outbox else "handler"
        raise LookupError(f"{described_queue(name)} has no {who} on {queue.using!r}")
    return handler


def _claim(jobs: JobManager, handler: Handler, worker_id: str) -> list[JobRow]:
    """Claim what one call of the handler takes."""
    name, n = handler.queue.name, handler.batch or 1
    if not handler.is_delivery:
        return jobs.claim(name, worker_id=worker_id, n=n)
    jobs.engine.bury_spent(name)
    after = ""
    while after := jobs.promote_stranded(name, after=after)[1]:
        pass
    return jobs.claim_in_order(name, worker_id=worker_id, n=n)


def _in_savepoint(function: Callable[..., Any], using: str) -> Callable[..., Any]:
    """Keep a database error of the handler from spoiling the transaction of a ``TestCase``."""

    @functools.wraps(function)
    def run(job: Job | Sequence[Job]) -> Any:
        if not connections[using].in_atomic_block:
            return function(job)
        raised = result = None
        with transaction.atomic(using=using):
            try:
                result = call(function, job)
            except DatabaseError:
                raise
            except BaseException as error:  # no reason to undo anything: raised again outside
                raised = error
        if raised is not None:
            raise raised
        return result

    return run
