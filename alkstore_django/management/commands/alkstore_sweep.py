"""``manage.py alkstore_sweep``: parse, sweep, tell; the work is in ``alkstore_django.maintenance``."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import time
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ...core.instants import MAX_LENGTH_S
from ...core.names import backing_name, shown_queue
from ...core.records import SweepResult
from ...engines.base import Engine
from ...maintenance import retentions, swept, unknown_dead
from ._ready import add_database, check_tables, engine_of

COUNTED_AT_MOST = 10_000
NAMES_AT_MOST = 1_000
TELL_EVERY_S = 0.5


class Command(BaseCommand):
    help = (
        "Move expired jobs to the dead, and delete dead jobs beyond their queue's retention. "
        "Sweeps all queues and outboxes that the code declares, in short batches; safe to run "
        "anywhere, at any time, beside workers and other sweeps."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--queue",
            action="append",
            default=[],
            metavar="NAME",
            dest="queues",
            help="sweep this queue; may be repeated. Default: all that the code declares",
        )
        parser.add_argument(
            "--outbox",
            action="append",
            default=[],
            metavar="NAME",
            dest="outboxes",
            help="sweep this outbox; may be repeated",
        )
        add_database(parser, "jobs")
        parser.add_argument(
            "--retention",
            type=_seconds,
            metavar="SECONDS",
            help="delete dead jobs after so long: of the queues named, instead of their own "
            "retention; without names, of the queues that the code declares no more",
        )

    def handle(self, **options: Any) -> None:
        engine = engine_of(options["database"])
        check_tables(engine)
        self._verbosity = options["verbosity"]
        named = [*options["queues"], *map(backing_name, options["outboxes"])]
        if named:
            self._sweep(_plan(engine, named, options["retention"]), engine.using)
        else:
            self._sweep_all(engine.using, options["retention"])

    def _sweep_all(self, using: str, retention_s: int | None) -> None:
        """Sweep what is declared; report the rest, or sweep it too if told a retention."""
        unknown = unknown_dead(using, names_at_most=NAMES_AT_MOST, jobs_at_most=COUNTED_AT_MOST)
        known = retentions(using)
        if retention_s is None:
            self._sweep(known, using)
            for queue, n in unknown.items():
                many = f"{n}+" if n == COUNTED_AT_MOST else f"{n}"
                self._say(f"  {shown_queue(queue)}: not declared any more, dead={many} kept")
            if unknown:
                self._say("Dead jobs of queues that the code declares no more go with --retention.")
        else:
            self._sweep(known | dict.fromkeys(unknown, retention_s), using)

    def _sweep(self, plan: dict[str, int | None], using: str) -> None:
        total = SweepResult(0, 0)
        progress = _Progress(self.stderr) if self._verbosity and self.stderr.isatty() else None
        for queue, done in swept(plan, using=using, progress=progress):
            if progress is not None:
                progress.clear()
            total = SweepResult(total.expired + done.expired, total.purged + done.purged)
            self._say(f"  {shown_queue(queue)}: expired={done.expired} purged={done.purged}")
        queues = "1 queue" if len(plan) == 1 else f"{len(plan)} queues"
        self._say(f"Swept {queues}: expired={total.expired} purged={total.purged}")

    def _say(self, line: str) -> None:
        if self._verbosity > 0:
            self.stdout.write(line)


class _Progress:
    """One line on a terminal that tells how far a long sweep is."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._told_at = time.monotonic()
        self._width = 0

    def __call__(self, queue: str, done: SweepResult) -> None:
        if time.monotonic() - self._told_at < TELL_EVERY_S:
            return
        self._told_at = time.monotonic()
        self._show(f"  {shown_queue(queue)}: expired={done.expired} purged={done.purged} ...")

    def clear(self) -> None:
        if self._width:
            self._show("")
            self._stream.write("\r", ending="")

    def _show(self, text: str) -> None:
        self._stream.write("\r" + text.ljust(self._width), ending="")
        self._stream.flush()
        self._width = len(text)


def _plan(engine: Engine, named: list[str], retention_s: int | None) -> dict[str, int | None]:
    """Return the queues named with their retentions; complain of one that nobody knows.

    With a retention given, a queue that the code declares no more may be named too.
    """
    known = retentions(engine.using)
    if retention_s is not None:
        upkeep = engine.upkeep
        for names in (upkeep.live_queue_names, upkeep.dead_queue_names):
            for name in names(at_most=NAMES_AT_MOST):
                known.setdefault(name, None)
    for name in named:
        if name not in known:
            raise CommandError(_complaint(engine.using, name, known))
    return {name: known[name] if retention_s is None else retention_s for name in named}


def _complaint(using: str, name: str, known: dict[str, int | None]) -> str:
    labels = {shown_queue(queue) for queue in known}
    label = shown_queue(name)
    close = difflib.get_close_matches(label, labels, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    names = ", ".join(sorted(labels)) or "none"
    return f"Queue {label!r} is unknown on {using!r}.{hint} Known: {names}."


def _seconds(text: str) -> int:
    with contextlib.suppress(ValueError):
        if 1 <= int(text) <= MAX_LENGTH_S:
            return int(text)
    raise argparse.ArgumentTypeError(f"must be a whole number of seconds, at least 1, got {text!r}")
