"""Turns the outcomes of handlers into statements, acks in batches."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from ..commit_wake import wake_after_commit
from ..core.errortext import FAILED, MAX_ATTEMPTS_EXCEEDED, kept_error
from ..signals import (
    announce,
    claim_lost,
    is_heard,
    job_acked,
    job_died,
    job_given_back,
    job_retried,
)
from .running import Outcome, RunningJob
from .tally import Tally

if TYPE_CHECKING:
    from ..managers import JobManager

Settled: TypeAlias = tuple[RunningJob, Outcome]


class Settler:
    """Settles finished jobs on the connection of the calling thread, one thread at a time.

    A job whose statement fails for an outage stays here and is tried again: as every
    statement is fenced by its claim, a second try can do no harm.

    When an event that has a key leaves, the next of its key is promoted.

    Args:
        on_promoted: takes the queue in which that has happened.
    """

    def __init__(
        self,
        jobs: JobManager,
        tally: Tally,
        *,
        on_promoted: Callable[[str], None] = lambda queue: None,
    ) -> None:
        self._jobs = jobs
        self._tally = tally
        self._on_promoted = on_promoted
        self._waiting: list[Settled] = []
        self._left: dict[str, set[str]] = {}  # by queue: the keys of which an event has left

    def add(self, finished: Collection[Settled]) -> None:
        """Take finished jobs; ``settle`` does the rest."""
        self._waiting.extend(finished)

    @property
    def idle(self) -> bool:
        """Whether nothing waits to be settled."""
        return not (self._waiting or self._left)

    def settle(self) -> None:
        """Run the statements of all that wait.

        What an outage interrupts goes on waiting, and so does an ack whose row another
        transaction holds.
        """
        busy: list[Settled] = []
        acks = [entry for entry in self._waiting if entry[1].verb == "ack"]
        if acks:
            acked, held = self._jobs.ack_free([running.claim for running, _ in acks])
            self._waiting = [entry for entry in self._waiting if entry[1].verb != "ack"]
            self._note_left(acks, acked)
            busy = self._report_acks(acks, acked, held)
        self._promote()  # before the others: theirs are statements one by one
        while self._waiting:
            running, outcome = self._waiting[0]
            result = self._settle_one(running, outcome)
            del self._waiting[0]
            if result == "died":
                self._note_left([(running, outcome)], {running.row.id})
            self._report(running, result, outcome)
        self._promote()
        self._waiting = busy

    def lose(self, running: RunningJob, operation: str) -> None:
        """Close a job whose claim turned out to be no longer ours."""
        self._report(running, "lost", Outcome(operation))

    def give_back(self, abandoned: Sequence[RunningJob]) -> None:
        """Put jobs back whose handlers did not end in time, that claim's attempt returned."""
        given = self._jobs.engine.give_back([running.claim for running in abandoned])
        for running in abandoned:
            outcome = "given_back" if running.row.id in given else "lost"
            self._report(running, outcome, Outcome("give_back"))

    def _note_left(self, settled: Sequence[Settled], gone: Collection[int]) -> None:
        for running, _ in settled:
            row = running.row
            if row.key is not None and row.id in gone:
                self._left.setdefault(row.queue, set()).add(row.key)

    def _promote(self) -> None:
        """Promote the next events of the keys of which one has left, and tell who waits."""
        engine = self._jobs.engine
        while self._left:
            queue, keys = next(iter(self._left.items()))
            promoted = engine.outbox.promote(queue, keys)
            del self._left[queue]
            if promoted:
                self._on_promoted(queue)
                wake_after_commit(engine, queue)

    def _settle_one(self, running: RunningJob, outcome: Outcome) -> str:
        if outcome.verb == "acked":
            return "acked"
        if outcome.verb == "refused":
            return "lost"
        if outcome.verb == "fail":
            return "died" if self._jobs.fail(running.row, error=outcome.error) else "lost"
        row = running.row
        if not self._jobs.retry(row, error=outcome.error, delay_us=outcome.delay_us):
            return "lost"
        return "died" if row.attempts >= row.max_attempts else "retried"

    def _report_acks(self, acks: list[Settled], acked: set[int], held: set[int]) -> list[Settled]:
        """Report what became of a batch of acks; return those to try again."""
        if len(acked) == len(acks) and not is_heard(job_acked):  # as ever, and nobody listens
            queues = Counter([running.row.queue for running, _ in acks])
            for queue, n in queues.items():
                self._tally.add(queue, "acked", n)
            return []
        again = []
        for running, outcome in acks:
            if running.row.id in held:
                again.append((running, outcome))
            else:
                result = "acked" if running.row.id in acked else "lost"
                self._report(running, result, outcome)
        return again

    def _report(self, running: RunningJob, result: str, outcome: Outcome) -> None:
        self._tally.add(running.row.queue, result)
        about: dict[str, Any] = {"job": running.job, "using": self._jobs.db}
        match result:
            case "acked":
                began = running.started_at or running.renewed_at
                duration = time.monotonic() - began
                announce(job_acked, type(self), **about, duration_s=duration)
            case "given_back":
                announce(job_given_back, type(self), **about)
            case "lost":
                running.job._mark_lost()
                announce(claim_lost, type(self), **about, operation=outcome.verb)
            case "retried":
                error = kept_error(outcome.error, default="")
                about |= {"error": error, "exception": outcome.exception}
                announce(job_retried, type(self), **about)
            case "died":
                default = FAILED if outcome.verb == "fail" else MAX_ATTEMPTS_EXCEEDED
                error = kept_error(outcome.error, default=default)
                about |= {"error": error, "exception": outcome.exception}
                announce(job_died, type(self), **about)
