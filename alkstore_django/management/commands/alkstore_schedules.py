"""``manage.py alkstore_schedules``: register what is declared, then run it; or look at it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TextIO, cast

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ...core.stop import StopToken
from ...engines.base import Engine
from ...exceptions import LeadershipLost
from ...scheduling.runner import Runner
from ...worker.os_signals import stop_on_signals
from ._ready import add_database, check_tables, engine_of, wait_until_ready
from ._schedule_lines import accounts, listing, register_and_tell
from ._shown_log import shown_log

EXIT_CODES = (
    "Exit codes: 0 after a stop that was asked for, or when there was nothing to run; 1 after "
    "an error, when leadership was lost, or when --audit finds a schedule that does not add up; "
    "2 for a wrong option."
)


class Command(BaseCommand):
    help = (
        "Register the schedules that the apps' schedules.py declare, then fire what is due until "
        "stopped (SIGTERM or SIGINT). Any number may run: one leads, the others stand by."
    )

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        return super().create_parser(prog_name, subcommand, **{"epilog": EXIT_CODES, **kwargs})

    def add_arguments(self, parser: CommandParser) -> None:
        add_database(parser, "schedules")
        parser.add_argument(
            "--prune",
            action="store_true",
            help="remove stored schedules that were declared once and are declared no more; those "
            "of schedule() stay",
        )
        parser.add_argument(
            "--on-lost",
            choices=("exit", "stand-by"),
            default="exit",
            help="what to do when leadership is lost: end with exit code 1, for a supervisor to "
            "start anew, or stand by again (default: %(default)s)",
        )
        instead = parser.add_mutually_exclusive_group()
        instead.add_argument(
            "--register-only",
            action="store_true",
            help="register, prune if told to, and end",
        )
        instead.add_argument(
            "--list",
            action="store_true",
            help="show what is registered: next and last boundary, and lag; change nothing",
        )
        instead.add_argument(
            "--audit",
            action="store_true",
            help="show what became of every boundary; change nothing",
        )

    def handle(self, **options: Any) -> None:
        engine = engine_of(options["database"])
        if options["prune"] and (options["list"] or options["audit"]):
            raise CommandError("--prune does not go with --list or --audit, which change nothing.")
        self._verbosity = options["verbosity"]
        if options["list"] or options["audit"] or options["register_only"]:
            check_tables(engine)
            self._look_or_register(engine, options)
        else:
            with shown_log(cast(TextIO, self.stderr), self._verbosity):
                self._run(engine, options)

    def _look_or_register(self, engine: Engine, options: dict[str, Any]) -> None:
        if options["register_only"]:
            self._register(engine, options)
            return
        lines = engine.schedules.audit()
        for text in listing(lines) if options["list"] else accounts(lines):
            self.stdout.write(text)
        wrong = [line.name for line in lines if not line.adds_up]
        if options["audit"] and wrong:
            names = ", ".join(map(repr, wrong[:10])) + (", ..." if len(wrong) > 10 else "")
            raise CommandError(f"{len(wrong)} of {len(lines)} schedules do not add up: {names}")

    def _run(self, engine: Engine, options: dict[str, Any]) -> None:
        stop = StopToken()
        with stop_on_signals(stop, StopToken()):
            if not wait_until_ready(
                engine, stop, type(self), "scheduler", lambda: self._register(engine, options)
            ):
                return
            runner = Runner(engine.using, stop, on_gained=lambda: self._say(["Leading"]))
            self._say([f"Scheduler on {engine.display_name} ({engine.using}), standing by"])
            runner.keep_running(self._end if options["on_lost"] == "exit" else self._stand_by)
            self._say(["Scheduler stopped"])

    def _end(self, lost: LeadershipLost) -> None:
        raise CommandError(f"{lost}; another scheduler may lead now.") from None

    def _stand_by(self, lost: LeadershipLost) -> None:
        self._say(["Leadership lost, standing by"])

    def _register(self, engine: Engine, options: dict[str, Any]) -> None:
        self._say(register_and_tell(engine, pruning=options["prune"]))

    def _say(self, lines: Iterable[str]) -> None:
        if self._verbosity > 0:
            for line in lines:
                self.stdout.write(line)
            self.stdout.flush()
