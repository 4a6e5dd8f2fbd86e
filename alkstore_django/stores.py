"""The handle on the store of one database alias."""

from __future__ import annotations

from typing import Any

from .access import StoreAccess, require_transaction
from .core.instants import Length
from .core.names import checked_name
from .core.options import ScheduleOptions, checked_job_id
from .core.records import Job
from .core.stop import StopToken
from .outbox import Outbox
from .queues import Queue
from .schedules import access_for, register_in, run_in, unregister_in


class Store:
    """The jobs of one alias. Making one runs no SQL.

    ``close()`` shuts this object and all that was made from it: every operation then raises
    ``StoreClosed`` and touches nothing. Other stores on the same alias go on.

    Args:
        using: the database alias; ``None`` is the only one that ``ALKSTORE`` names, else "default".
    """

    def __init__(self, using: str | None = None) -> None:
        self._access = StoreAccess(using)

    @property
    def using(self) -> str:
        """The database alias."""
        return self._access.using

    def __repr__(self) -> str:
        return f"<Store using={self.using!r}{' closed' if self._access.closed else ''}>"

    def queue(self, name: str, **options: Any) -> Queue:
        """Return a queue of this store; the options are those of ``Queue``, without ``using``."""
        return Queue(name, **self._own(options, "queue"))

    def enqueue_tx(self, name: str, payload: Any, **options: Any) -> int:
        """Enqueue into the open transaction, with the engine's default stamps.

        The options are those of ``Queue.enqueue``.

        Raises:
            TransactionRequired: no transaction is open on the alias.
        """
        queue = self.queue(name)
        require_transaction("enqueue_tx", self.using)
        return queue.enqueue(payload, **options)

    def outbox(self, name: str, **options: Any) -> Outbox:
        """Return an outbox of this store; the options are those of ``Outbox``, without ``using``."""
        return Outbox(name, **self._own(options, "outbox"))

    def outbox_enqueue_tx(self, name: str, payload: Any, **options: Any) -> int:
        """Enqueue an event into the open transaction, with an outbox's default stamps.

        The options are those of ``Outbox.enqueue``.

        Raises:
            TransactionRequired: no transaction is open on the alias.
        """
        outbox = self.outbox(name)
        require_transaction("outbox_enqueue_tx", self.using)
        return outbox.enqueue(payload, **options)

    def _own(self, options: dict[str, Any], method: str) -> dict[str, Any]:
        """Return the options of what is made from this store, bound to it."""
        self._access.jobs()  # raises StoreClosed
        if "using" in options:
            raise TypeError(f"store.{method}() takes no 'using': the store has its alias")
        return {**options, "_access": self._access}

    def get_job_tx(self, name: str, job_id: int) -> Job | None:
        """Read a job of the queue ``name``, in the open transaction if there is one."""
        jobs = self._access.jobs()
        queue = checked_name("queue", name)
        checked = checked_job_id(job_id)
        row = None if checked is None else jobs.engine.get_job(checked, queue=queue)
        return None if row is None else Job(row)

    def schedule(
        self,
        name: str,
        spec: str,
        queue: str | Queue,
        payload: Any,
        *,
        priority: int | None = 0,
        max_attempts: int | None = None,
        expires: Length | None = None,
    ) -> None:
        """Like ``alkstore_django.schedule``, in this store."""
        self._access.jobs()  # raises StoreClosed
        access_for(queue, self.using)
        options = ScheduleOptions(priority, max_attempts, expires)
        register_in(self._access, name, spec, queue, payload, options)

    def unschedule(self, name: str) -> bool:
        """Like ``alkstore_django.unschedule``, in this store."""
        return unregister_in(self._access, name)

    def run_schedules(self, stop: StopToken) -> None:
        """Like ``alkstore_django.run_schedules``, in this store; go on until ``stop`` is set."""
        run_in(self._access, stop)

    def close(self) -> None:
        """Shut the store; a second call changes nothing."""
        self._access.closed = True
