"""Wakes follow the commit: at most one per queue and transaction (CONTRACT 3.1, 6.2).

Django keeps the hooks of an open transaction in ``connection.run_on_commit``, and drops
those of a savepoint that is rolled back. A queue that has a hook on the current savepoint
or on an outer one needs no other: if that is dropped, so is the row that asked now.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Any

from django.db import transaction

from .engines.base import Engine


class WakeAfterCommit:
    """The hook of one queue in one transaction."""

    __slots__ = ("_engine", "_sent", "queue")

    def __init__(self, engine: Engine, queue: str, sent: set[str]) -> None:
        self._engine = engine
        self.queue = queue
        self._sent = sent  # shared by the hooks of one transaction

    def __call__(self) -> None:
        if self.queue not in self._sent:
            self._sent.add(self.queue)
            self._engine.wake(self.queue)


def wake_after_commit(engine: Engine, queue: str) -> None:
    """Wake the waiters of ``queue`` once the open transaction commits; now if there is none.

    Under manual transaction management Django offers no hook: then nobody is woken, and
    waiters find the job by their re-poll.
    """
    connection = engine.connection
    if not connection.in_atomic_block:
        if connection.get_autocommit():
            engine.wake(queue)
        return
    pending = _pending(connection)
    current = frozenset(connection.savepoint_ids)
    if any(outer <= current for outer in pending.hooked.get(queue, ())):
        return
    hook = WakeAfterCommit(engine, queue, pending.sent)
    transaction.on_commit(hook, using=engine.using, robust=True)
    pending.hooked.setdefault(queue, []).append(current)


class _Pending:
    """What is hooked in the transaction that ``hooks`` belongs to."""

    def __init__(self, hooks: list[Any]) -> None:
        self.hooks = hooks
        self.sent: set[str] = set()
        self.hooked: dict[str, list[Set[str]]] = {}


def _pending(connection: Any) -> _Pending:
    """Return the record of the open transaction, rebuilt whenever Django made a new list.

    Django puts a new list in place at each commit, rollback and savepoint rollback, so the
    list's identity tells whether the record is still true.
    """
    pending: _Pending | None = getattr(connection, "_alkstore_pending_wakes", None)
    if pending is None or pending.hooks is not connection.run_on_commit:
        pending = _Pending(connection.run_on_commit)
        for savepoints, hook, _ in connection.run_on_commit:
            if isinstance(hook, WakeAfterCommit):
                pending.sent = hook._sent
                pending.hooked.setdefault(hook.queue, []).append(frozenset(savepoints))
        connection._alkstore_pending_wakes = pending
    return pending
