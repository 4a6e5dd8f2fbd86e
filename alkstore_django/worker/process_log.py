"""What is told of worker processes: this module alone writes the lines."""

from __future__ import annotations

import logging

from ..signals import worker_logger


def process_started(number: int, pid: int) -> None:
    worker_logger.info(
        "Worker process started: number=%s pid=%s",
        number,
        pid,
        extra={"number": number, "pid": pid},
    )


def process_ended(number: int, pid: int, how: str, uptime_s: float, *, expected: bool) -> None:
    """One line per end; ``how`` is the reason it gave, an exit code or a signal's name."""
    fields = {"number": number, "pid": pid, "how": how, "uptime_s": round(uptime_s, 3)}
    worker_logger.log(
        logging.INFO if expected else logging.ERROR,
        "Worker process ended: number=%s pid=%s how=%s uptime_s=%s",
        *fields.values(),
        extra=fields,
    )


def process_not_started(number: int, error: OSError) -> None:
    worker_logger.error(
        "Worker process cannot start, trying again: number=%s error=%s", number, error
    )


def process_overdue(number: int, pid: int) -> None:
    worker_logger.error(
        "Worker process did not stop in time, killing it: number=%s pid=%s", number, pid
    )


def process_failed() -> None:
    """Told by the process itself, with the traceback of what it failed with."""
    worker_logger.exception("Worker process failed")


def supervisor_gone() -> None:
    worker_logger.warning("Supervisor is gone, stopping")


def recycling(reason: str, value: int, limit: int) -> None:
    worker_logger.info(
        "Worker process makes room for a new one: %s=%s limit=%s", reason, value, limit
    )


def health_file_failed(path: str, error: OSError) -> None:
    worker_logger.warning("Health file cannot be written: path=%s error=%s", path, error)


def code_watch_failed() -> None:
    worker_logger.exception("Code is watched no more, restart by hand")
