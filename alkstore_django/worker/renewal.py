"""Keeps the deadlines of running jobs ahead, from a thread and a connection of its own."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from django.db import Error, connections

from .running import RunningJob, RunningJobs
from .write_turn import WriteTurn

if TYPE_CHECKING:
    from ..managers import JobManager

logger = logging.getLogger("alkstore_django.worker")

RETRY_PAUSE_S = 0.5
FRESH_S = 1.0


class Renewer:
    """Renews the open claims, all that are due by one statement.

    Each is renewed after a third of its visibility timeout, or every ``interval_s`` if that
    is given and sooner. A job whose renewal is refused is handed to ``on_lost``. An outage is
    waited out; any other error ends the thread and is handed to ``on_death``. The connection
    is opened by the first renewal: a worker whose jobs are quick never has it.
    """

    def __init__(
        self,
        jobs: JobManager,
        running: RunningJobs,
        *,
        interval_s: float | None = None,
        write_turn: WriteTurn,
        on_lost: Callable[[RunningJob], None],
        on_death: Callable[[BaseException], None],
    ) -> None:
        self._jobs = jobs
        self._running = running
        self._interval_s = interval_s
        self._write_turn = write_turn
        self._on_lost = on_lost
        self._on_death = on_death
        self._poke = threading.Event()
        self._stopped = False
        self._wakes_at = float("inf")
        self._thread = threading.Thread(target=self._run, name="alkstore-renew", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; jobs still running are renewed no more."""
        self._stopped = True
        self._poke.set()
        self._thread.join(5)

    def expect(self, batch: Sequence[RunningJob]) -> None:
        """Take notice of claims that were just made."""
        visibility_s = min([running.row.visibility_timeout_s for running in batch])
        pause = visibility_s / 3 if self._interval_s is None else self._interval_s
        if batch[0].renewed_at + pause < self._wakes_at:
            self._poke.set()

    def renew_stale(self) -> None:
        """Renew now, in the calling thread, what was not renewed just before.

        For databases with one writer: a handler that is about to keep everybody else from
        writing leaves all of its worker's claims with a full deadline.
        """
        before = time.monotonic() - FRESH_S
        self._renew_unless_outage([job for job in self._renewed() if job.renewed_at < before])

    def _run(self) -> None:
        try:
            while not self._stopped:
                self._poke.wait(self._pause())
                self._poke.clear()
                now = time.monotonic()
                due = [job for job in self._renewed() if self._due(job) <= now]
                if not due:
                    continue
                with self._write_turn:
                    renewed = self._renew_unless_outage(due)
                if not renewed:
                    self._poke.wait(RETRY_PAUSE_S)
        except BaseException as error:
            self._on_death(error)
        finally:
            connections[self._jobs.db].close()

    def _renewed(self) -> list[RunningJob]:
        return [job for job in self._running.snapshot() if job.handler.heartbeat]

    def _pause(self) -> float | None:
        self._wakes_at = float("inf")  # whatever comes while we look pokes
        self._wakes_at = min(map(self._due, self._renewed()), default=float("inf"))
        if self._wakes_at == float("inf"):
            return None
        return max(self._wakes_at - time.monotonic(), 0)

    def _renew_unless_outage(self, due: list[RunningJob]) -> bool:
        engine = self._jobs.engine
        try:
            self._renew(due)
        except Error as error:
            if not engine.is_outage(error):
                raise
            logger.debug("Renewal failed, trying again: error=%s", error)
            engine.drop_stale_connection()
            return False
        return True

    def _renew(self, due: list[RunningJob]) -> None:
        if not due:
            return
        asked_at = time.monotonic()
        held = self._jobs.engine.renew([job.claim for job in due])
        for job in due:
            if job.claim.job_id in held:
                job.renewed_at = asked_at
            else:
                self._on_lost(job)

    def _due(self, running: RunningJob) -> float:
        due = running.renewal_due
        if self._interval_s is not None:
            due = min(due, running.renewed_at + self._interval_s)
        return due
