"""The life of one job inside a handler thread: call, classify, and for atomic handlers ack."""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from asgiref.sync import async_to_sync
from django.db import connections, transaction
from django.db.transaction import TransactionManagementError

from ..core.errortext import describe_exception
from ..core.instants import length_us
from ..core.records import Job
from ..exceptions import FailJob, RetryJob
from ..handlers import HandlerFunction
from .running import ACK, Outcome, RunningJob, timed_out
from .sessions import HandlerSession

if TYPE_CHECKING:
    from ..managers import JobManager

logger = logging.getLogger("alkstore_django.worker")


class AckRefusedError(Exception):
    """The ack inside an atomic handler's transaction was refused: roll all back."""


class TimedOutError(Exception):
    """The handler returned too late: its claim is over, even if nobody has said so yet."""


class SwallowedDatabaseError(Exception):
    """An atomic handler returned although a database error had spoilt its transaction."""


def execute(running: RunningJob, session: HandlerSession, jobs: JobManager) -> Outcome:
    """Run the handler and say what is to become of the claim. Raises nothing.

    Whatever the handler raises, ``SystemExit`` and ``KeyboardInterrupt`` included, is its
    job's failure and no more (CONTRACT 7.1).
    """
    try:
        if running.handler.atomic:
            return _run_atomic(running, session, jobs)
        _call(running)
    except TimedOutError:
        return timed_out(running)
    except BaseException as error:
        return _outcome_of(error)
    return ACK


async def execute_async(running: RunningJob) -> Outcome:
    """Like ``execute``, for a coroutine function, on the running event loop."""
    try:
        await running.handler.function(running.job)
        _check_time(running)
    except TimedOutError:
        return timed_out(running)
    except BaseException as error:
        return _outcome_of(error)
    return ACK


def _outcome_of(error: BaseException) -> Outcome:
    match error:
        case RetryJob():
            return _retry_outcome(error)
        case FailJob():
            return Outcome("fail", error=error.reason)
        case AckRefusedError():
            return Outcome("refused")
        case _:
            return Outcome("retry", error=describe_exception(error), exception=error)


def _run_atomic(running: RunningJob, session: HandlerSession, jobs: JobManager) -> Outcome:
    """Commit the handler's writes and the fenced ack together, or neither (CONTRACT 7.2)."""
    using = jobs.db
    committed = False

    def note_commit() -> None:
        nonlocal committed
        committed = True

    try:
        with transaction.atomic(using=using), session.aborting_on_errors(using):
            transaction.on_commit(note_commit, using=using)  # first, so it runs first
            depth = len(connections[using].savepoint_ids)
            _call(running)
            if connections[using].needs_rollback:
                raise SwallowedDatabaseError("a database error was swallowed by the handler")
            if len(connections[using].savepoint_ids) != depth:
                raise TransactionManagementError("the handler left an atomic block open")
            running.acking = True
            # Last, so that the row's lock is held for as short as can be: renewal goes on.
            if running.job.lost or not jobs.ack([running.claim]):
                raise AckRefusedError
    except BaseException:
        if not committed:
            raise
        text = "Job done, but an on_commit hook of it failed: id=%s queue=%s"
        logger.exception(text, running.job.id, running.job.queue)
    return Outcome("acked")


def _call(running: RunningJob) -> None:
    call(running.handler.function, running.job)
    _check_time(running)


def call(function: HandlerFunction, job: Job) -> None:
    """Call a handler's function in this thread; a coroutine is run to its end."""
    result = function(job)
    if result is not None and inspect.isawaitable(result):
        async_to_sync(_awaited)(result)


def _check_time(running: RunningJob) -> None:
    if running.handler.timeout_s is not None and running.is_overdue(time.monotonic()):
        raise TimedOutError


async def _awaited(result: Awaitable[Any]) -> None:
    await result


def _retry_outcome(signal: RetryJob) -> Outcome:
    """Read the delay that a handler asked for; a wrong one is the handler's mistake."""
    try:
        delay = None if signal.delay is None else length_us("delay", signal.delay, at_least_s=0)
    except ValueError as error:
        return Outcome("retry", error=describe_exception(error), exception=error)
    return Outcome("retry", error=signal.error, delay_us=delay)
