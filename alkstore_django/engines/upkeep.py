"""The contract of what maintenance and the admin ask of an engine, beside the life of jobs.

An engine carries one as ``engine.upkeep``. Statements join the caller's transaction, read the
database's clock, and are bounded: none of them walks a table, however many rows it has.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

from .statements import EnginePart


class EnqueuedAgain(NamedTuple):
    """A job that was dead, under both of its ids."""

    dead_id: int
    job_id: int
    queue: str
    ready: bool
    """Whether a claim may take it now; an event behind another of its key has to wait."""


class Upkeep(EnginePart):
    """Looking over all queues, and giving dead jobs another life."""

    def live_queue_names(self, *, at_most: int) -> list[str]:
        """Return the names of queues that have live jobs, none twice, in no promised order.

        Costs a few index look-ups for each name, whatever the number of jobs.
        """
        return [name for [name] in self.engine.rows(self.sql.LIVE_QUEUE_NAMES, at_most=at_most)]

    def dead_queue_names(self, *, at_most: int) -> list[str]:
        """Return the names of queues that have dead jobs, none twice, in no promised order.

        Costs one index look-up for each name, whatever the number of jobs.
        """
        return [name for [name] in self.engine.rows(self.sql.DEAD_QUEUE_NAMES, at_most=at_most)]

    def dead_count(self, queue: str, *, at_most: int) -> int:
        """Return how many dead jobs a queue has, none counted beyond ``at_most``."""
        return int(self.engine.rows(self.sql.DEAD_COUNT, queue=queue, at_most=at_most)[0][0])

    @abstractmethod
    def enqueue_again(self, dead_ids: Sequence[int]) -> list[EnqueuedAgain]:
        """Store each of these dead jobs as a fresh one, and delete the dead row.

        Both or neither, so that however often and by how many it is asked for, a dead job is
        enqueued again once. The payload's bytes never leave the database. The new job has an
        id of its own, ids ascending with those of the dead; the same queue, key, codec,
        payload, priority, max_attempts, visibility timeout and backoff; no attempts, no
        expiry, and is ready now. An event whose key has another one that is live, or that
        comes before it here, is stored behind that one.

        Ids that are not in dead storage (any more) are passed over, and so are rows that
        another session holds: that one is about to take them away.

        Args:
            dead_ids: few thousands at most; one call is one transaction.
        Returns:
            what was enqueued, in the order of the dead ids.
        Law: CONTRACT 3.10, 3.14.
        """
