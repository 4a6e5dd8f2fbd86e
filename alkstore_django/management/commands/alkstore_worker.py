"""``manage.py alkstore_worker``: parse, build, run; the work is in ``alkstore_django.worker``."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any, TextIO, cast

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ...core.stop import StopToken
from ...worker import reloading
from ...worker.channel import RELOADED, ChildEnd
from ...worker.health import BEAT_EVERY_S, at_most_every
from ...worker.loop import Worker
from ...worker.os_signals import stop_on_signals
from ...worker.processes import Process, Run, close_connections, start_process
from ...worker.supervised import run_supervised
from ...worker.supervisor import Supervisor
from ...worker.tally import Tally
from ._ready import engine_of, wait_until_ready
from ._schedule_lines import register_and_tell
from ._shown_log import shown_log
from ._worker_lines import goodbye, hello
from ._worker_options import EXIT_CODES, add_options
from ._worker_plan import assignment, check_processes, health_file, is_reloading


class Command(BaseCommand):
    help = (
        "Run a worker: claim jobs, run their handlers, until stopped (SIGTERM or SIGINT; a "
        "second signal ends the grace period) or, with --drain, until nothing is ready."
    )

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        return super().create_parser(prog_name, subcommand, **{"epilog": EXIT_CODES, **kwargs})

    def add_arguments(self, parser: CommandParser) -> None:
        add_options(parser)

    def handle(self, **options: Any) -> None:
        self._verbosity = options["verbosity"]
        self._engine = engine_of(options["database"])
        self._assignment = assignment(self._engine.using, options)
        self._n_processes = options["processes"]
        self._health = health_file(options["health_file"])
        run = self._way_to_run(options)
        log = shown_log(cast(TextIO, self.stderr), self._verbosity)
        stop, stop_now = StopToken(), StopToken()
        with log, stop_on_signals(stop, stop_now):
            run(stop, stop_now)

    def _way_to_run(self, options: dict[str, Any]) -> Callable[[StopToken, StopToken], None]:
        legacy = reloading.inherited()
        if legacy is not None:
            return partial(self._run_reloadable, legacy)
        if is_reloading(
            options, from_command_line=getattr(self, "_called_from_command_line", False)
        ):
            return self._supervise_reloading
        if self._n_processes > 1 or self._assignment.limits:
            return self._supervise
        return self._run_alone

    # -- ways to run -----------------------------------------------------------------------

    def _run_alone(self, stop: StopToken, stop_now: StopToken) -> None:
        if not self._is_ready(stop):
            return
        worker = Worker(
            self._assignment.jobs,
            self._assignment.handlers,
            self._assignment.options,
            stop=stop,
            stop_now=stop_now,
            after_turn=at_most_every(BEAT_EVERY_S, self._beat),
        )
        self._say_hello(f"Worker {worker.worker_id}")
        started_at = time.monotonic()
        try:
            tally = worker.run()
        finally:
            if self._health is not None:
                self._health.remove()
        self._say_goodbye(tally, started_at)

    def _supervise(self, stop: StopToken, stop_now: StopToken) -> None:
        """Run several processes, or one that makes room for the next."""
        check_processes(self._assignment.limits)
        if not self._is_ready(stop):
            return
        close_connections()
        self._say_hello(f"Worker of {_counted(self._n_processes, 'process', 'processes')}")
        supervisor = self._supervisor(self._run_forked, stop, stop_now, health=self._health)
        started_at = time.monotonic()
        self._say_goodbye(supervisor.run(), started_at)
        if n := supervisor.n_failed:
            failed = _counted(n, "process", "processes")
            raise CommandError(f"{failed} died, or had to be killed, during the stop.")

    def _run_forked(
        self, number: int, channel: ChildEnd, asked: StopToken, asked_now: StopToken
    ) -> None:
        """The whole work of a forked process."""
        options = self._assignment.options
        if self._n_processes > 1 and options.worker_id is not None:
            options = replace(options, worker_id=f"{options.worker_id}-{number}")

        def say_who(worker: Worker) -> None:
            self._say([f"Worker process {number}: pid={os.getpid()} id={worker.worker_id}"])

        assignment = replace(self._assignment, options=options)
        run_supervised(assignment, channel, asked, asked_now, on_start=say_who)

    def _supervise_reloading(self, stop: StopToken, stop_now: StopToken) -> None:
        """Run one process that is started anew when its code changes."""
        supervisor = self._supervisor(
            reloading.start_anew, stop, stop_now, may_hurry=reloading.code_changed_since
        )
        supervisor.run()  # one that Ctrl-C has met while it was loading is no failure

    def _run_reloadable(
        self, legacy: reloading.Legacy, stop: StopToken, stop_now: StopToken
    ) -> None:
        """The whole work of a process under ``_supervise_reloading``."""
        watch = reloading.CodeWatch(stop.stop, since=legacy.started_at)
        started_at = time.monotonic()
        tally = run_supervised(
            self._assignment,
            legacy.channel,
            stop,
            stop_now,
            get_ready=self._is_ready,
            on_start=lambda worker: self._say_hello(f"Worker {worker.worker_id}"),
            on_beat=self._beat,
            other_end=lambda: RELOADED if watch.has_changed else None,
        )
        watch.stop()
        if self._health is not None:
            self._health.remove()
        self._say_goodbye(tally, started_at)

    def _supervisor(
        self, run: Run, stop: StopToken, stop_now: StopToken, **more: Any
    ) -> Supervisor:
        return Supervisor(
            lambda number, siblings: start_process(number, run, cast(list[Process], siblings)),
            n_processes=self._n_processes,
            stop=stop,
            stop_now=stop_now,
            grace_s=self._assignment.options.shutdown_timeout_s,
            **more,
        )

    def _is_ready(self, stop: StopToken) -> bool:
        """Wait for the database, check it, register schedules; False if stopped meanwhile."""

        def register() -> None:
            if self._assignment.options.with_schedules:
                self._say(register_and_tell(self._engine))

        return wait_until_ready(self._engine, stop, type(self), "worker", register)

    def _beat(self) -> None:
        if self._health is not None:
            self._health.touch(time.time())

    # -- what it says ----------------------------------------------------------------------

    def _say_hello(self, title: str) -> None:
        handlers, options = self._assignment.handlers, self._assignment.options
        self._say(hello(title, self._engine, handlers, options, self._n_processes))

    def _say_goodbye(self, tally: Tally, started_at: float) -> None:
        seconds = time.monotonic() - started_at
        self._say(goodbye(tally, self._engine, self._assignment.handlers, seconds))

    def _say(self, lines: Iterable[str]) -> None:
        """Print, unless told to be silent; a generator that is not printed asks for nothing."""
        if self._verbosity > 0:
            for line in lines:
                self.stdout.write(line)
            self.stdout.flush()


def _counted(n: int, one: str, many: str) -> str:
    return f"{n} {one if n == 1 else many}"
