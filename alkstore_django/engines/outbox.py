"""The contract of what an engine does for outboxes and inboxes; the docstring is the law.

Events are jobs of a backing queue that may carry a key. Of one key, an event is handed out
only when no earlier one is in the way: each of them has left, or can never be claimed again
(past ``expires_at`` and not held; or lapsed on its last attempt). This is decided by each
claim from the rows themselves, so nothing that was forgotten or crashed can break the order.

All else is there to make it cheap. An event that is enqueued while another of its key is in
the way is stored ``behind``: no claim walks over it. Whoever sees an event leave promotes the
next of its key to pending; what nobody saw is found as stranded.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from types import ModuleType

from ..core.options import Stamps
from ..core.records import Enqueued, JobRow
from .statements import TABLES, StatementRunner, Statements


class Outboxes(ABC):
    """A part of an engine; it speaks through the engine's connections and clock."""

    def __init__(self, engine: StatementRunner, sql: ModuleType) -> None:
        self._engine = engine
        self.sql = Statements(sql, {name: engine.table(name) for name in TABLES})

    @abstractmethod
    def enqueue(self, stamps: Stamps, payload: bytes, *, key: str) -> Enqueued:
        """Store one event of a key and return its id.

        Ids of one key become visible in their order: its producers take turns, from here to
        the end of their transactions.
        Law: CONTRACT 5.1, 5.3.
        """

    @abstractmethod
    def enqueue_many(
        self, stamps: Stamps, payloads: Sequence[bytes], *, key: str
    ) -> list[Enqueued]:
        """Store one event per payload, all of one key, all or none; ids in the order given.

        Law: CONTRACT 3.2, 5.3.
        """

    @abstractmethod
    def claim(self, queue: str, *, worker_id: str, n: int, token: int) -> list[JobRow]:
        """Like ``Engine.claim``, but of each key at most one event, and none out of order.

        The rows carry their keys. Need not be durable by itself: see ``Engine.claim_ahead``.
        Law: CONTRACT 3.3, 5.3.
        """

    @abstractmethod
    def promote(self, queue: str, keys: Collection[str]) -> int:
        """Make the first event of each key pending, if it is behind; return how many were.

        Passes over a row that another transaction holds. Need not be durable by itself.
        """

    @abstractmethod
    def waiting_keys(self, queue: str, *, after: str, limit: int) -> list[tuple[str, bool]]:
        """Return up to ``limit`` keys above ``after`` that have events behind, in their order.

        Returns:
            each key, and whether it is stranded: nothing is in the way of its first event.
        """

    @abstractmethod
    def note_seen(self, consumer: str, event_id: str) -> bool:
        """Note that a consumer has seen an event; return whether it was the first time.

        Waits for a transaction that has noted the same and is still open.
        Law: CONTRACT 5.4.
        """

    @abstractmethod
    def forget_seen(self, consumer: str, *, retention_s: int, limit: int) -> int:
        """Delete up to ``limit`` notes with seen_at + retention <= now; return how many.

        Passes over rows that another session holds.
        """


def with_keys(rows: Sequence[JobRow], keys: dict[int, str | None]) -> list[JobRow]:
    """Return claimed rows with the keys of their ids."""
    return [row if (key := keys[row.id]) is None else row._replace(key=key) for row in rows]
