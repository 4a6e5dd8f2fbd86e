"""The way from queues and handles to the jobs of one alias."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import connections

from .conf import default_alias
from .exceptions import InvalidOptions, StoreClosed, TransactionRequired

if TYPE_CHECKING:
    from .managers import JobManager


def require_transaction(operation: str, using: str) -> None:
    """Raise ``TransactionRequired`` if no transaction is open on the alias."""
    connection = connections[using]
    if not connection.in_atomic_block and connection.get_autocommit():
        raise TransactionRequired(operation, using)


class StoreAccess:
    """The way from queues and handles to one alias's jobs; shut for good when closed."""

    def __init__(self, using: str | None) -> None:
        self.using = default_alias() if using is None else using
        if not isinstance(self.using, str) or self.using not in connections.settings:
            raise InvalidOptions("using", "must name an alias of DATABASES", using)
        self.closed = False
        self._jobs: JobManager | None = None

    def jobs(self) -> JobManager:
        """Return the manager bound to the alias; ``StoreClosed`` once the store is closed."""
        if self.closed:
            raise StoreClosed(self.using)
        if self._jobs is None:
            from .models import Job as JobMirror  # models need the app registry, queues do not

            self._jobs = JobMirror.objects.db_manager(self.using)
        return self._jobs
