"""Domain events, and the log lines that they become.

The code sends signals; this module alone writes the lines. No event ever carries a payload,
except inside the ``job`` value, whose text form hides it.

Signals about one job are sent with ``job`` (the ``Job`` as claimed) and ``using``;
the sender is the class that acts. A receiver runs in the thread that sends, must be quick,
and is not allowed to hurt: what it raises is logged and goes no further.

=================  ==================================================  =====================
signal             sent when                                           also carries
=================  ==================================================  =====================
job_claimed        a worker took a job
job_acked          its handler succeeded and the ack was accepted      duration_s
job_retried        it will run again                                   error, exception
job_died           it was moved to the dead by its worker              error, exception
job_given_back     a stopping worker put it back unharmed
claim_lost         an operation on its claim was refused               operation
wake_lost          the LISTEN connection broke                         error (no job)
wake_restored      it is back                                          (no job)
store_lost         a worker cannot reach its database                  error (no job)
store_restored     it can again                                        (no job)
leadership_gained  a scheduler begins to lead                          (no job)
leadership_lost    its lease could not be renewed                      (no job)
schedule_fired     a schedule's boundaries became jobs                 schedule, queue,
                                                                       n_fired (no job)
boundaries_skipped too many had been missed                            schedule, queue,
                                                                       n_skipped (no job)
schedule_failed    a schedule cannot be fired; within a minute told    schedule, queue,
                   only once                                           exception (no job)
=================  ==================================================  =====================
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from django.dispatch import Signal

from .core.names import outbox_of
from .core.records import Job

job_claimed = Signal(use_caching=True)
job_acked = Signal(use_caching=True)
job_retried = Signal(use_caching=True)
job_died = Signal(use_caching=True)
job_given_back = Signal(use_caching=True)
claim_lost = Signal(use_caching=True)
wake_lost = Signal(use_caching=True)
wake_restored = Signal(use_caching=True)
store_lost = Signal(use_caching=True)
store_restored = Signal(use_caching=True)
leadership_gained = Signal(use_caching=True)
leadership_lost = Signal(use_caching=True)
schedule_fired = Signal(use_caching=True)
boundaries_skipped = Signal(use_caching=True)
schedule_failed = Signal(use_caching=True)

worker_logger = logging.getLogger("alkstore_django.worker")
wake_logger = logging.getLogger("alkstore_django.wake")
scheduler_logger = logging.getLogger("alkstore_django.scheduler")


def is_heard(signal: Signal, logger: logging.Logger = worker_logger) -> bool:
    """Return whether ``announce`` would do anything for a signal that is logged as DEBUG."""
    return bool(signal.receivers) or logger.isEnabledFor(logging.DEBUG)


def announce(signal: Signal, sender: type, **event: Any) -> None:
    """Write the event's log line, then tell whoever listens.

    A receiver that raises is logged by Django and hurts nobody.
    """
    _LOG_LINES[signal](**event)
    if signal.receivers:
        signal.send_robust(sender, **event)


def _log_job(level: int, what: str, job: Job, using: str, **more: Any) -> None:
    if not worker_logger.isEnabledFor(level):
        return
    exception = more.pop("exception", None)
    outbox = outbox_of(job.queue)
    kind, place, name = (
        ("Job", "queue", job.queue) if outbox is None else ("Event", "outbox", outbox)
    )
    fields = {"job_id": job.id, place: name, "attempt": job.attempts, "using": using}
    text = f"{kind} {what} id=%s {place}=%s attempt=%s/%s"
    values: list[Any] = [job.id, name, job.attempts, job.max_attempts]
    for name, value in more.items():
        text += f" {name}=%s"
        values.append(value)
    worker_logger.log(level, text, *values, extra=fields | more, exc_info=exception)


def _log_claimed(job: Job, using: str, **_: Any) -> None:
    _log_job(logging.DEBUG, "claimed", job, using)


def _log_acked(job: Job, using: str, duration_s: float, **_: Any) -> None:
    if worker_logger.isEnabledFor(logging.DEBUG):
        _log_job(logging.DEBUG, "acked", job, using, duration_s=round(duration_s, 6))


def _log_retried(
    job: Job, using: str, error: str, exception: BaseException | None, **_: Any
) -> None:
    level = logging.INFO if exception is None else logging.ERROR
    _log_job(level, "retried", job, using, error=error, exception=exception)


def _log_died(job: Job, using: str, error: str, exception: BaseException | None, **_: Any) -> None:
    _log_job(logging.ERROR, "died", job, using, error=error, exception=exception)


def _log_given_back(job: Job, using: str, **_: Any) -> None:
    _log_job(logging.INFO, "given back", job, using)


def _log_claim_lost(job: Job, using: str, operation: str, **_: Any) -> None:
    _log_job(logging.ERROR, "claim lost", job, using, operation=operation)


def _log_wake_lost(using: str, error: Exception, **_: Any) -> None:
    wake_logger.warning("Wake lost, re-polling by the clock: using=%s error=%s", using, error)


def _log_wake_restored(using: str, **_: Any) -> None:
    wake_logger.warning("Wake restored: using=%s", using)


def _log_store_lost(using: str, error: Exception, **_: Any) -> None:
    text = "Database lost, trying again: using=%s error=%s: %s"
    worker_logger.warning(text, using, type(error).__name__, error)


def _log_store_restored(using: str, **_: Any) -> None:
    worker_logger.warning("Database restored: using=%s", using)


def _log_leadership_gained(using: str, **_: Any) -> None:
    scheduler_logger.info("Leadership gained: using=%s", using)


def _log_leadership_lost(using: str, **_: Any) -> None:
    scheduler_logger.warning("Leadership lost: using=%s", using)


def _log_schedule_fired(using: str, schedule: str, queue: str, n_fired: int, **_: Any) -> None:
    extra = {"using": using, "schedule": schedule, "queue": queue, "n_fired": n_fired}
    text = "Schedule fired name=%s queue=%s n=%s"
    scheduler_logger.debug(text, schedule, queue, n_fired, extra=extra)


def _log_boundaries_skipped(
    using: str, schedule: str, queue: str, n_skipped: int, **_: Any
) -> None:
    extra = {"using": using, "schedule": schedule, "queue": queue, "n_skipped": n_skipped}
    text = "Schedule skipped boundaries name=%s queue=%s n=%s"
    scheduler_logger.warning(text, schedule, queue, n_skipped, extra=extra)


def _log_schedule_failed(
    using: str, schedule: str, queue: str, exception: BaseException, **_: Any
) -> None:
    extra = {"using": using, "schedule": schedule, "queue": queue}
    text = "Schedule failed, the others go on: name=%s queue=%s error=%s"
    error = type(exception).__name__
    scheduler_logger.error(text, schedule, queue, error, extra=extra, exc_info=exception)


_LOG_LINES: dict[Signal, Callable[..., None]] = {
    job_claimed: _log_claimed,
    job_acked: _log_acked,
    job_retried: _log_retried,
    job_died: _log_died,
    job_given_back: _log_given_back,
    claim_lost: _log_claim_lost,
    wake_lost: _log_wake_lost,
    wake_restored: _log_wake_restored,
    store_lost: _log_store_lost,
    store_restored: _log_store_restored,
    leadership_gained: _log_leadership_gained,
    leadership_lost: _log_leadership_lost,
    schedule_fired: _log_schedule_fired,
    boundaries_skipped: _log_boundaries_skipped,
    schedule_failed: _log_schedule_failed,
}
