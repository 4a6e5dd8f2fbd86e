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

from abc import abstractmethod
from collections.abc import Collection, Sequence

from ..core.options import Stamps
from ..core.records import Enqueued, JobRow
from .statements import EnginePart, claimed_rows


class Outboxes(EnginePart):
    """The events and the inboxes of one database alias."""

    def enqueue(self, stamps: Stamps, payload: bytes, *, key: str) -> Enqueued:
        """Store one event of a key and return its id.

        Ids of one key become visible in their order: its producers take turns, from here to
        the end of their transactions.
        Law: CONTRACT 5.1, 5.3.
        """
        values = {**stamps.as_dict(), "key": key}
        [[event_id, ready]] = self.engine.rows(self.sql.ENQUEUE_KEYED, **values, payload=payload)
        return Enqueued(event_id, bool(ready))

    @abstractmethod
    def enqueue_many(
        self, stamps: Stamps, payloads: Sequence[bytes], *, key: str
    ) -> list[Enqueued]:
        """Store one event per payload, all of one key, all or none; ids in the order given.

        Law: CONTRACT 3.2, 5.3.
        """

    def claim(self, queue: str, *, worker_id: str, n: int, token: int) -> list[JobRow]:
        """Like ``Engine.claim``, but of each key at most one event, and none out of order.

        The rows carry their keys. Need not be durable by itself: see ``Engine.claim_ahead``.
        Law: CONTRACT 3.3, 5.3.
        """
        values = {"queue": queue, "worker_id": worker_id, "n": n, "token": token}
        rows = self.engine.rows(self.sql.CLAIM_IN_ORDER, **values)
        keys = {row[0]: row[-1] for row in rows}
        claimed = claimed_rows([row[:-1] for row in rows], queue, worker_id, token)
        return [row._replace(key=keys[row.id]) for row in claimed]

    @abstractmethod
    def promote(self, queue: str, keys: Collection[str]) -> int:
        """Make the first event of each key pending, if it is behind; return how many were.

        Passes over a row that another transaction holds. Need not be durable by itself.
        """

    def waiting_keys(self, queue: str, *, after: str, limit: int) -> list[tuple[str, bool]]:
        """Return up to ``limit`` keys above ``after`` that have events behind, in their order.

        Returns:
            each key, and whether it is stranded: nothing is in the way of its first event.
        """
        values = {"queue": queue, "after": after, "limit": limit}
        rows = self.engine.rows(self.sql.WAITING_KEYS, **values)
        return [(key, bool(is_stranded)) for key, is_stranded in rows]

    def note_seen(self, consumer: str, event_id: str) -> bool:
        """Note that a consumer has seen an event; return whether it was the first time.

        Waits for a transaction that has noted the same and is still open.
        Law: CONTRACT 5.4.
        """
        values = {"consumer": consumer, "event_id": event_id}
        return self.engine.count(self.sql.NOTE_SEEN, **values) == 1

    def forget_seen(self, consumer: str, *, retention_s: int, limit: int) -> int:
        """Delete up to ``limit`` notes with seen_at + retention <= now; return how many.

        Passes over rows that another session holds.
        """
        values = {"consumer": consumer, "retention_s": retention_s, "limit": limit}
        return self.engine.count(self.sql.FORGET_SEEN, **values)
