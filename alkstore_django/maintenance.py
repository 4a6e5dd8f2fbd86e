"""Sweeping all that the code has declared, from a job of your own or by hand (CONTRACT 3.13)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .conf import default_alias
from .core.names import shown_queue
from .core.records import Job, SweepResult
from .exceptions import FailJob
from .handlers import declared_on
from .models import Job as JobMirror

Progress = Callable[[str, SweepResult], None]


def sweep(
    *, queues: Iterable[str] | None = None, using: str | None = None
) -> dict[str, SweepResult]:
    """Sweep the declared queues and outboxes of an alias, each with its own retention.

    Works in short batches. Outside a transaction each commits by itself.

    Args:
        queues: only these, by name; ``"outbox x"`` is the outbox x.
        using: the alias; ``None`` is the only one that ``ALKSTORE`` names, else "default".
    Returns:
        for each queue what was moved to the dead and what was purged.
    Raises:
        LookupError: the code declares no such queue; nothing was swept.
    """
    alias = default_alias() if using is None else using
    declared = retentions(alias)
    labels = {shown_queue(queue): queue for queue in declared}
    chosen = list(labels) if queues is None else list(dict.fromkeys(queues))
    for label in chosen:
        if label not in labels:
            known = ", ".join(sorted(labels)) or "none"
            raise LookupError(f"no queue {label!r} is declared on {alias!r}; declared: {known}")
    plan = {labels[label]: declared[labels[label]] for label in chosen}
    return {shown_queue(queue): done for queue, done in swept(plan, using=alias)}


def sweep_handler(job: Job) -> None:
    """Sweep; a ready handler for a queue of your own.

    The payload is a dict: ``{}`` for all that is declared on the default alias,
    ``{"queues": ["receipts"]}`` for some of it, ``{"using": "archive"}`` for another alias.
    """
    payload: Any = job.payload
    if not isinstance(payload, dict) or not set(payload) <= {"queues", "using"}:
        raise FailJob('the payload of a sweep is a dict that has "queues" and "using" at most')
    sweep(**payload)


def retentions(using: str) -> dict[str, int | None]:
    """Return the queues that the code declares on an alias, with the retention of their dead.

    Of several handles on one queue, one without a retention says nothing, and of several
    retentions the longest counts.
    """
    found: dict[str, int | None] = {}
    for queue in declared_on(using):
        retention, other = queue.options.dead_letter_retention_s, found.get(queue.name)
        assert retention is None or isinstance(retention, int)  # resolved by QueueOptions
        lengths = [length for length in (retention, other) if length is not None]
        found[queue.name] = max(lengths, default=None)
    return found


def swept(
    plan: dict[str, int | None], *, using: str, progress: Progress | None = None
) -> Iterator[tuple[str, SweepResult]]:
    """Sweep queues with the retentions given, and yield what was done to each."""
    jobs = JobMirror.objects.db_manager(using)
    for queue, retention_s in plan.items():

        def tell(done: SweepResult, queue: str = queue) -> None:
            if progress is not None:
                progress(queue, done)

        yield queue, jobs.sweep(queue, retention_s=retention_s, after_batch=tell)


def unknown_dead(using: str, *, names_at_most: int, jobs_at_most: int) -> dict[str, int]:
    """Return the queues that the code declares no more and that have dead jobs, with how many."""
    jobs = JobMirror.objects.db_manager(using)
    upkeep = jobs.engine.upkeep
    known = {queue.name for queue in declared_on(using)}
    names = upkeep.dead_queue_names(at_most=len(known) + names_at_most)
    unknown = sorted(name for name in names if name not in known)[:names_at_most]
    return {name: upkeep.dead_count(name, at_most=jobs_at_most) for name in unknown}
