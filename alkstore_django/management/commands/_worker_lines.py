"""What ``alkstore_worker`` says at its start and at its end, and where its log is seen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from django.db import Error

from ...core.names import shown_queue
from ...engines.base import Engine
from ...handlers import Handler
from ...worker.options import WorkerOptions
from ...worker.tally import Tally

COUNTED_AT_MOST = 10_000


def hello(
    title: str,
    engine: Engine,
    handlers: Sequence[Handler],
    options: WorkerOptions,
    n_processes: int = 1,
) -> Iterator[str]:
    """Tell who serves what, and every limit in use (FR-007)."""
    yield title
    names = ", ".join(shown_queue(handler.queue.name) for handler in handlers)
    yield f"  serves {_counted(handlers)} on {engine.display_name} ({engine.using}): {names}"
    heartbeat = options.heartbeat_interval_s
    poll_interval_s = options.resolved_poll_interval_s(engine.settings)
    yield (
        f"  processes={n_processes} threads={options.threads} async_jobs={options.async_jobs} "
        f"poll_interval={poll_interval_s:g}s "
        f"heartbeat_interval={'auto' if heartbeat is None else f'{heartbeat:g}s'} "
        f"shutdown_timeout={options.shutdown_timeout_s:g}s drain={options.drain}"
        + (" with_schedules=True" if options.with_schedules else "")
    )
    for handler in handlers:
        stamps = handler.queue.options
        limit = options.limits.get(handler.queue.name)
        yield (
            f"  {shown_queue(handler.queue.name)}: {handler.name} {_kind(handler)} "
            f"heartbeat={handler.heartbeat} timeout={_or_none(handler.timeout_s)} "
            f"visibility_timeout={stamps.visibility_timeout_s}s "
            f"max_attempts={stamps.max_attempts}" + (f" limit={limit}" if limit else "")
        )


def goodbye(
    tally: Tally, engine: Engine, handlers: Sequence[Handler], seconds: float
) -> Iterator[str]:
    """Tell what was done and what is left."""
    yield f"Worker stopped after {seconds:.1f}s: {tally} left={_left(engine, handlers)}"
    for queue, counts in sorted(tally.as_dict().items()):
        done = " ".join(f"{outcome}={n}" for outcome, n in sorted(counts.items()))
        yield f"  {shown_queue(queue)}: {done}"


def _counted(handlers: Sequence[Handler]) -> str:
    """Return ``2 queues``, ``1 queue and 1 outbox``."""
    n_outboxes = sum(handler.is_delivery for handler in handlers)
    n_queues = len(handlers) - n_outboxes
    queues = "1 queue" if n_queues == 1 else f"{n_queues} queues"
    outboxes = "1 outbox" if n_outboxes == 1 else f"{n_outboxes} outboxes"
    return " and ".join([queues] * bool(n_queues) + [outboxes] * bool(n_outboxes))


def _kind(handler: Handler) -> str:
    if handler.is_delivery:
        return f"batch={'none' if handler.batch is None else handler.batch}"
    return f"atomic={handler.atomic}"


def _left(engine: Engine, handlers: Sequence[Handler]) -> str:
    """Return how many jobs are left in the queues served, bounded so that it is always quick."""
    try:
        left = sum(
            engine.live_count(handler.queue.name, at_most=COUNTED_AT_MOST) for handler in handlers
        )
    except Error:
        return "unknown"
    return f"{left}" if left < COUNTED_AT_MOST else f"{COUNTED_AT_MOST}+"


def _or_none(seconds: float | None) -> str:
    return "none" if seconds is None else f"{seconds:g}s"
