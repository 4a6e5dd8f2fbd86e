"""The options of ``alkstore_worker``: what each means, and which values it takes."""

from __future__ import annotations

import argparse
import contextlib
import math
from collections.abc import Callable
from typing import Any

from django.core.management.base import CommandParser

from ...core.names import checked_worker_id
from ...exceptions import InvalidName
from ...worker.options import WorkerOptions
from ._ready import add_database

DEFAULTS = WorkerOptions()
EXIT_CODES = (
    "Exit codes: 0 after a stop that was asked for, or drained; 1 after an error, or when a "
    "process had to be killed or died during the stop; 2 for a wrong option."
)


def add_options(parser: CommandParser) -> None:
    """Add all options that are the worker's own."""
    _add_what(parser)
    _add_how(parser)
    _add_processes(parser)


def _add_what(parser: CommandParser) -> None:
    parser.add_argument(
        "--queue",
        action="append",
        metavar="NAME[:LIMIT]",
        dest="queues",
        help="serve this queue, with at most LIMIT handlers at once in each process; may be "
        "repeated. Default: every queue that has a handler and every outbox that has a delivery",
    )
    parser.add_argument(
        "--outbox",
        action="append",
        metavar="NAME[:LIMIT]",
        dest="outboxes",
        help="deliver the events of this outbox, with at most LIMIT deliveries at once in each "
        "process; may be repeated. With --queue or --outbox, what neither names is not served",
    )
    add_database(parser, "jobs")
    parser.add_argument(
        "--drain",
        action="store_true",
        help="return once nothing is ready and nothing runs; a retry that is due later does "
        "not hold it",
    )
    parser.add_argument(
        "--with-schedules",
        action="store_true",
        help="register the declared schedules, and run a scheduler beside the worker (with "
        "--processes, one in each: they elect a leader); does not go with --drain",
    )


def _add_how(parser: CommandParser) -> None:
    parser.add_argument(
        "--threads",
        type=_whole_number(1, 1000),
        default=DEFAULTS.threads,
        metavar="N",
        help="how many handlers run at once in each process (default: %(default)s)",
    )
    parser.add_argument(
        "--async-jobs",
        type=_whole_number(1, 100_000),
        default=DEFAULTS.async_jobs,
        metavar="N",
        help="how many async def handlers run at once in each process, beside the threads "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--worker-id",
        type=_worker_id,
        metavar="ID",
        help="the name stamped on claimed jobs; of several processes each adds its number. "
        "Default: host, process and a random part",
    )
    parser.add_argument(
        "--shutdown-timeout",
        type=_seconds,
        default=DEFAULTS.shutdown_timeout_s,
        metavar="S",
        help="seconds that running handlers may go on after a stop, before their jobs are "
        "given back (default: %(default)s)",
    )
    parser.add_argument(
        "--poll-interval",
        type=_positive_seconds,
        metavar="S",
        help="look for jobs every so many seconds, whatever the wake says. Default: the "
        "setting POLL_INTERVAL_S",
    )
    parser.add_argument(
        "--heartbeat-interval",
        type=_positive_seconds,
        metavar="S",
        help="renew the deadlines of running jobs at least every so many seconds. Default: a "
        "third of each job's visibility timeout",
    )


def _add_processes(parser: CommandParser) -> None:
    parser.add_argument(
        "--processes",
        type=_whole_number(1, 1000),
        default=1,
        metavar="P",
        help="how many processes, each with its threads; one that dies is replaced "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--max-jobs",
        type=_whole_number(1, 2**31),
        metavar="N",
        help="replace a process after it has settled N jobs. Default: never",
    )
    parser.add_argument(
        "--max-memory-mb",
        type=_whole_number(1, 2**31),
        metavar="M",
        help="replace a process that holds more than M mebibytes of memory. Default: never",
    )
    parser.add_argument(
        "--health-file",
        metavar="PATH",
        help="touch this file about once a second while every process reaches the database; "
        "remove it at the end",
    )
    parser.add_argument(
        "--reload",
        action="store_true",
        default=None,
        help="start anew when code changes, after what runs is finished. Default: on when "
        "DEBUG is, unless another option speaks against it",
    )
    parser.add_argument(
        "--no-reload",
        action="store_false",
        dest="reload",
        help="do not start anew when code changes",
    )


def _whole_number(least: int, most: int) -> Callable[[str], Any]:
    def parse(text: str) -> int:
        with contextlib.suppress(ValueError):
            if least <= int(text) <= most:
                return int(text)
        raise argparse.ArgumentTypeError(
            f"must be a whole number from {least} to {most}, got {text!r}"
        )

    return parse


def _seconds(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 0 <= float(text) < math.inf:
            return float(text)
    raise argparse.ArgumentTypeError(f"must be a number of seconds, at least 0, got {text!r}")


def _positive_seconds(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 0 < float(text) <= 3600:
            return float(text)
    raise argparse.ArgumentTypeError(
        f"must be a number of seconds, above 0 and at most 3600, got {text!r}"
    )


def _worker_id(text: str) -> str:
    try:
        return checked_worker_id(text)
    except InvalidName as error:
        raise argparse.ArgumentTypeError(str(error)) from None
