"""Claiming and settling events step by step, as a worker does it, without its threads."""

from alkstore_django import Event, FailJob, Outbox
from alkstore_django.core.names import backing_name
from alkstore_django.core.records import Job, JobRow
from alkstore_django.handlers import Handler
from alkstore_django.models import Job as JobMirror
from alkstore_django.worker.running import ACK, Outcome, RunningJob
from alkstore_django.worker.settling import Settler
from alkstore_django.worker.tally import Tally


class Relay:
    """One relay of an outbox.

    ``claim`` first looks for what is spent and what is stranded, as a worker does by the clock;
    ``claim_at_once`` does not.
    """

    def __init__(self, outbox: Outbox, name: str = "relay") -> None:
        self.queue = backing_name(outbox.name)
        self.jobs = JobMirror.objects.db_manager(outbox.using)
        self.woken: list[str] = []
        self._name = name
        self._handler = Handler(outbox._queue, print)
        self._settler = Settler(self.jobs, Tally(), on_promoted=self.woken.append)

    def look(self) -> int:
        """Bury what is spent, promote what is stranded; return how many were stranded."""
        self.jobs.engine.bury_spent(self.queue)
        promoted, after = self.jobs.promote_stranded(self.queue)
        while after:
            more, after = self.jobs.promote_stranded(self.queue, after=after)
            promoted += more
        return promoted

    def claim_at_once(self, n: int = 100) -> list[JobRow]:
        """Claim what a claim finds by itself."""
        return self.jobs.claim_in_order(self.queue, worker_id=self._name, n=n)

    def claim(self, n: int = 100) -> list[JobRow]:
        """Claim all that there is to claim."""
        self.look()
        return self.claim_at_once(n)

    def events(self, n: int = 100) -> list[Event]:
        """Claim as above, and show what a delivery would get."""
        return [Event(Job(row)) for row in self.claim(n)]

    def settle(self, row: JobRow, outcome: Outcome = ACK) -> None:
        """Do with a claim what the outcome says."""
        running = RunningJob(row, Job(row), self._handler, 0.0)
        self._settler.add([(running, outcome)])
        self._settler.settle()

    def ack(self, *rows: JobRow) -> None:
        """Settle as delivered, all together."""
        entries = [(RunningJob(row, Job(row), self._handler, 0.0), ACK) for row in rows]
        self._settler.add(entries)
        self._settler.settle()

    def retry(self, row: JobRow, delay_s: int = 0) -> None:
        """Settle as failed, to be delivered again."""
        self.settle(row, Outcome("retry", error="again", delay_us=delay_s * 1_000_000))

    def fail(self, row: JobRow) -> None:
        """Settle as failed for good."""
        self.settle(row, Outcome("fail", error=FailJob("gone").reason))


def ids(rows: list[JobRow]) -> list[int]:
    """The ids of claimed rows, in their order."""
    return [row.id for row in rows]
