"""The life of one job inside a handler thread: call, classify, and for atomic handlers ack."""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from asgiref.sync import async_to_sync
from django.db import connections, transaction
from django.db.transaction import TransactionManagementError

from ..core.errortext import describe_exception
from ..core.instants import length_us
from ..core.records import Job
from ..exceptions import FailJob, RetryJob
from ..handlers import HandlerFunction
from .running import ACK, Outcome, RunningBatch, RunningJob, timed_out
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


def execute_batch(batch: RunningBatch) -> list[Outcome]:
    """Call a delivery with all of its events; return an outcome for each. Raises nothing."""
    try:
        failed = call(batch.handler.function, [running.job for running in batch.jobs])
        _check_time(batch.jobs[0])
        return _outcomes(batch, failed)
    except BaseException as error:
        return _all_failed(batch, error)


async def execute_batch_async(batch: RunningBatch) -> list[Outcome]:
    """Like ``execute_batch``, for a coroutine function, on the running event loop."""
    try:
        failed = await batch.handler.function([running.job for running in batch.jobs])
        _check_time(batch.jobs[0])
        return _outcomes(batch, failed)
    except BaseException as error:
        return _all_failed(batch, error)


def _outcomes(batch: RunningBatch, failed: object) -> list[Outcome]:
    """Read what a delivery of many returned: nothing, or which of them failed, and why."""
    if failed is None:
        return [ACK] * len(batch.jobs)
    if not isinstance(failed, Mapping):
        raise TypeError(f"a batch delivery returns None or a mapping, not {_kind(failed)}")
    unknown = len(failed.keys() - {running.row.id for running in batch.jobs})
    if unknown:
        raise ValueError(f"a batch delivery returned {unknown} ids that are not in its batch")
    for error in failed.values():
        if not isinstance(error, BaseException):
            raise TypeError(f"a batch delivery maps ids to exceptions, not to {_kind(error)}")
    errors = [failed.get(running.row.id) for running in batch.jobs]
    return [ACK if error is None else _outcome_of(error) for error in errors]


def _all_failed(batch: RunningBatch, error: BaseException) -> list[Outcome]:
    """One error for all of them; its traceback is told once."""
    if isinstance(error, TimedOutError):
        return [timed_out(running) for running in batch.jobs]
    outcome = _outcome_of(error)
    return [outcome] + [replace(outcome, exception=None)] * (len(batch.jobs) - 1)


def _kind(value: object) -> str:
    return type(value).__name__


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


def call(function: HandlerFunction, job: Job | Sequence[Job]) -> Any:
    """Call a handler's function in this thread; a coroutine is run to its end."""
    result = function(job)
    if result is not None and inspect.isawaitable(result):
        return async_to_sync(_awaited)(result)
    return result


def _check_time(running: RunningJob) -> None:
    if running.handler.timeout_s is not None and running.is_overdue(time.monotonic()):
        raise TimedOutError


async def _awaited(result: Awaitable[Any]) -> Any:
    return await result


def _retry_outcome(signal: RetryJob) -> Outcome:
    """Read the delay that a handler asked for; a wrong one is the handler's mistake."""
    try:
        delay = None if signal.delay is None else length_us("delay", signal.delay, at_least_s=0)
    except ValueError as error:
        return Outcome("retry", error=describe_exception(error), exception=error)
    return Outcome("retry", error=signal.error, delay_us=delay)
