"""The receiving side: whether a consumer has seen an event before."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from django.db import transaction

from .access import StoreAccess, require_transaction
from .core.instants import Length, length_s
from .core.names import checked_event_id, checked_name

SWEEP_BATCH = 500


@contextlib.contextmanager
def inbox(consumer: str, event_id: int | str, using: str | None = None) -> Iterator[bool]:
    """Note within the open transaction that ``consumer`` sees an event; yield if it is the first time.

    The note commits with what the block does, or neither does: so its effects in this database
    happen exactly once, however often the event is delivered. If another open transaction has
    noted the same event, this waits for its end: False when that one commits, True when it
    rolls back. An error that leaves the block undoes the note, even if it is caught further out.

    Args:
        consumer: who sees it; obeys the rule for names. Each consumer has notes of its own.
        event_id: ``Event.id``, or a text of 1 to 200 characters; 5 and "5" are the same event.
        using: the database alias; ``None`` is the only one that ``ALKSTORE`` names, else "default".

    Raises:
        TransactionRequired: no transaction is open on the alias.
        InvalidName, InvalidOptions: before any SQL.
    """
    name, event = checked_name("consumer", consumer), checked_event_id(event_id)
    jobs = StoreAccess(using).jobs()
    require_transaction("inbox", jobs.db)
    with transaction.atomic(using=jobs.db):
        yield jobs.engine.outbox.note_seen(name, event)


def sweep_inbox(consumer: str, retention: Length, using: str | None = None) -> int:
    """Forget what a consumer saw ``retention`` ago or earlier (at least 1 s); return how much.

    An event that is delivered again after that counts as new: keep notes for longer than any
    sender retries. Works in short batches, may run anywhere at the same time, and passes over
    rows that other sessions hold.
    """
    name = checked_name("consumer", consumer)
    retention_s = length_s("retention", retention, at_least_s=1)
    engine = StoreAccess(using).jobs().engine
    forgotten = 0
    while gone := engine.outbox.forget_seen(name, retention_s=retention_s, limit=SWEEP_BATCH):
        forgotten += gone
    return forgotten
