"""``manage.py alkstore_worker``: parse, build, run; the work is in ``alkstore_django.worker``."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import logging
import math
import random
import time
from collections.abc import Iterator
from typing import Any, TextIO, cast

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import Error, connections

from ...conf import default_alias
from ...core.names import checked_worker_id
from ...core.stop import StopToken
from ...engines.base import Engine
from ...engines.registry import engine_for
from ...exceptions import InvalidName
from ...handlers import Handler, declared_names, handlers_on
from ...models import Job
from ...signals import announce, store_lost
from ...worker.loop import Worker, WorkerOptions
from ...worker.os_signals import stop_on_signals
from ...worker.tally import Tally

COUNTED_AT_MOST = 10_000
DEFAULTS = WorkerOptions()


class Command(BaseCommand):
    help = (
        "Run a worker: claim jobs, run their handlers, until stopped (SIGTERM or SIGINT; a "
        "second signal ends the grace period) or, with --drain, until nothing is ready."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--queue",
            action="append",
            metavar="NAME",
            dest="queues",
            help="serve this queue; may be repeated. Default: every queue that has a handler",
        )
        parser.add_argument(
            "--threads",
            type=_positive_int,
            default=DEFAULTS.threads,
            metavar="N",
            help="how many handlers run at once (default: %(default)s)",
        )
        parser.add_argument(
            "--database",
            metavar="ALIAS",
            help="the database alias that carries the jobs. Default: the only one that the "
            "setting ALKSTORE names, else 'default'",
        )
        parser.add_argument(
            "--drain",
            action="store_true",
            help="return once nothing is ready and nothing runs; a retry that is due later does "
            "not hold it",
        )
        parser.add_argument(
            "--worker-id",
            type=_worker_id,
            metavar="ID",
            help="the name stamped on claimed jobs. Default: host, process and a random part",
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

    def handle(self, **options: Any) -> None:
        using = options["database"] or default_alias()
        if using not in connections:
            raise CommandError(f"DATABASES has no alias {using!r}")
        engine = engine_for(using)
        handlers = _chosen_handlers(using, options["queues"])
        stop, stop_now = StopToken(), StopToken()
        with self._logging(options["verbosity"]), stop_on_signals(stop, stop_now):
            if not self._is_ready(engine, stop):
                return
            worker = Worker(
                Job.objects.db_manager(using),
                handlers,
                WorkerOptions(
                    threads=options["threads"],
                    worker_id=options["worker_id"],
                    drain=options["drain"],
                    poll_interval_s=options["poll_interval"],
                    heartbeat_interval_s=options["heartbeat_interval"],
                    shutdown_timeout_s=options["shutdown_timeout"],
                ),
                stop=stop,
                stop_now=stop_now,
            )
            if options["verbosity"] > 0:
                self._say_hello(worker, engine, handlers)
            started_at = time.monotonic()
            tally = worker.run()
            if options["verbosity"] > 0:
                self._say_goodbye(tally, engine, handlers, time.monotonic() - started_at)

    def _is_ready(self, engine: Engine, stop: StopToken) -> bool:
        """Wait for the database, then check it; return False if stopped meanwhile."""
        reported = False
        while not stop.stopped:
            try:
                if fault := engine.worker_fault():
                    raise CommandError(f"No worker can run on {engine.using!r}: {fault}.")
                if not engine.has_tables():
                    raise CommandError(
                        f"The tables of alkstore_django are missing on {engine.using!r}. Run: "
                        f"manage.py migrate alkstore_django --database {engine.using}"
                    )
            except Error as error:
                if not engine.is_outage(error):
                    raise
                if not reported:
                    announce(store_lost, type(self), using=engine.using, error=error)
                reported = True
                engine.drop_stale_connection()
                stop.wait(random.uniform(0.5, 2.0))
            else:
                return True
        return False

    def _say_hello(self, worker: Worker, engine: Engine, handlers: list[Handler]) -> None:
        options = worker.options
        names = ", ".join(handler.queue.name for handler in handlers)
        queues = "1 queue" if len(handlers) == 1 else f"{len(handlers)} queues"
        heartbeat = options.heartbeat_interval_s
        self.stdout.write(f"Worker {worker.worker_id}")
        self.stdout.write(f"  serves {queues} on {engine.display_name} ({engine.using}): {names}")
        self.stdout.write(
            f"  threads={options.threads} poll_interval={worker.poll_interval_s:g}s "
            f"heartbeat_interval={'auto' if heartbeat is None else f'{heartbeat:g}s'} "
            f"shutdown_timeout={options.shutdown_timeout_s:g}s drain={options.drain}"
        )
        for handler in handlers:
            stamps = handler.queue.options
            self.stdout.write(
                f"  {handler.queue.name}: {handler.name} atomic={handler.atomic} "
                f"heartbeat={handler.heartbeat} timeout={_or_none(handler.timeout_s)} "
                f"visibility_timeout={stamps.visibility_timeout_s}s "
                f"max_attempts={stamps.max_attempts}"
            )
        self.stdout.flush()

    def _say_goodbye(
        self, tally: Tally, engine: Engine, handlers: list[Handler], seconds: float
    ) -> None:
        self.stdout.write(
            f"Worker stopped after {seconds:.1f}s: {tally} left={_left(engine, handlers)}"
        )
        for queue, counts in sorted(tally.as_dict().items()):
            done = " ".join(f"{outcome}={n}" for outcome, n in sorted(counts.items()))
            self.stdout.write(f"  {queue}: {done}")

    @contextlib.contextmanager
    def _logging(self, verbosity: int) -> Iterator[None]:
        """Show the package's log on stderr, unless the project has its own arrangements."""
        logger = logging.getLogger("alkstore_django")
        if logger.hasHandlers():
            yield
            return
        handler = logging.StreamHandler(cast(TextIO, self.stderr))
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        level = logger.level
        logger.addHandler(handler)
        logger.setLevel({0: logging.ERROR, 1: logging.INFO}.get(verbosity, logging.DEBUG))
        try:
            yield
        finally:
            logger.removeHandler(handler)
            logger.setLevel(level)


def _chosen_handlers(using: str, names: list[str] | None) -> list[Handler]:
    """Return the handlers to serve, or end the command with an error that names the fault."""
    known = handlers_on(using)
    if names is None:
        if not known:
            raise CommandError(
                f"No queue on {using!r} has a handler. Declare one in an app's queues.py: "
                "@queue.handler above a function of one job."
            )
        return list(known.values())
    for name in names:
        if name in known:
            continue
        if name in declared_names(using):
            raise CommandError(
                f"Queue {name!r} has no handler: put @queue.handler above a function of one job."
            )
        close = difflib.get_close_matches(name, known, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        served = ", ".join(sorted(known)) or "none"
        raise CommandError(
            f"Queue {name!r} is unknown on {using!r}.{hint} Queues with a handler: {served}."
        )
    return [known[name] for name in dict.fromkeys(names)]


def _left(engine: Engine, handlers: list[Handler]) -> str:
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


def _positive_int(text: str) -> int:
    with contextlib.suppress(ValueError):
        if 1 <= int(text) <= 1000:
            return int(text)
    raise argparse.ArgumentTypeError(f"must be a whole number from 1 to 1000, got {text!r}")


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
