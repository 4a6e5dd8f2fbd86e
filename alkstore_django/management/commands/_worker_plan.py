"""From the options of ``alkstore_worker`` to what is to be done, or the user's mistake."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from ...core.names import checked_worker_id
from ...exceptions import InvalidName
from ...models import Job
from ...worker.health import HealthFile
from ...worker.options import WorkerOptions
from ...worker.processes import fork_fault
from ...worker.recycling import RecyclingLimits, resident_memory_mb
from ...worker.supervised import Assignment
from ._worker_queues import chosen_handlers

# Under these the code is not watched, with their values when they are not given.
SPEAK_AGAINST_RELOAD = {"drain": False, "processes": 1, "max_jobs": None, "max_memory_mb": None}


def assignment(using: str, options: dict[str, Any]) -> Assignment:
    """Return what the worker serves, and how."""
    handlers, limits = chosen_handlers(using, options["queues"], options["outboxes"])
    if options["with_schedules"] and options["drain"]:
        raise CommandError("--with-schedules does not go with --drain, which ends.")
    n_processes, worker_id = options["processes"], options["worker_id"]
    if worker_id is not None and n_processes > 1:
        try:
            checked_worker_id(f"{worker_id}-{n_processes}")
        except InvalidName as error:
            raise CommandError(f"--worker-id with the number of a process: {error}") from None
    return Assignment(
        Job.objects.db_manager(using),
        handlers,
        WorkerOptions(
            threads=options["threads"],
            async_jobs=options["async_jobs"],
            worker_id=worker_id,
            drain=options["drain"],
            poll_interval_s=options["poll_interval"],
            heartbeat_interval_s=options["heartbeat_interval"],
            shutdown_timeout_s=options["shutdown_timeout"],
            limits=limits,
            with_schedules=options["with_schedules"],
        ),
        RecyclingLimits(options["max_jobs"], options["max_memory_mb"]),
    )


def health_file(path: str | None) -> HealthFile | None:
    """Return the health file, known to be writable and not there yet."""
    if path is None:
        return None
    health = HealthFile(path)
    try:
        health.prepare()
    except OSError as error:
        raise CommandError(f"--health-file {path} cannot be written: {error.strerror}.") from None
    return health


def check_processes(limits: RecyclingLimits) -> None:
    """End the command if no process can be started, or each would be replaced at once."""
    if fault := fork_fault():
        raise CommandError(f"No worker processes can be started here: {fault}.")
    limit, resident = limits.max_memory_mb, resident_memory_mb()
    if limit is not None and resident >= limit:
        raise CommandError(
            f"--max-memory-mb {limit} is less than the project takes before its first job: "
            f"{resident} MiB."
        )


def is_reloading(options: dict[str, Any], *, from_command_line: bool) -> bool:
    """Decide on --reload; by default only a command that was typed under DEBUG has it."""
    fault = _reload_fault(options, from_command_line)
    if options["reload"] is None:
        return settings.DEBUG and fault is None
    if options["reload"] and fault is not None:
        raise CommandError(f"--reload {fault}.")
    return bool(options["reload"])


def _reload_fault(options: dict[str, Any], from_command_line: bool) -> str | None:
    for name, usual in SPEAK_AGAINST_RELOAD.items():
        if options[name] != usual:
            return f"does not go with --{name.replace('_', '-')}"
    if not from_command_line:
        return "is for a command that was typed, not for call_command"
    fault = fork_fault()
    return None if fault is None else f"is not possible here: {fault}"
