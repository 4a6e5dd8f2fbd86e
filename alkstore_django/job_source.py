"""What queues and outboxes have in common: stored jobs of one name, with options and a codec."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from .access import StoreAccess
from .core.options import QueueOptions, checked_job_id
from .core.payloads import Codec, checked_codec, encode_payload
from .core.records import Job, SweepResult

if TYPE_CHECKING:
    from .managers import JobManager


class JobSource:
    """Where jobs come from. Making one runs no SQL and creates nothing.

    Args:
        name: what people call it.
        stored_name: the queue that its jobs' rows carry.
    """

    def __init__(
        self,
        name: str,
        stored_name: str,
        options: QueueOptions,
        codec: Codec,
        access: StoreAccess,
    ) -> None:
        self._name = name
        self._stored_name = stored_name
        self._options = options
        self._codec = checked_codec(codec)
        self._access = access

    @property
    def name(self) -> str:
        """Its name."""
        return self._name

    @property
    def using(self) -> str:
        """The alias of the database that it lives on."""
        return self._access.using

    @property
    def options(self) -> QueueOptions:
        """The options as resolved: lengths in whole seconds."""
        return self._options

    @property
    def codec(self) -> Codec:
        """The codec of the payloads that this handle enqueues."""
        return self._codec

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name!r} using={self.using!r}>"

    def sweep_expired(self) -> SweepResult:
        """Move what has expired to the dead, delete the dead beyond retention.

        Works in short batches, may run anywhere at the same time, and passes over rows that
        other sessions hold.
        """
        retention = self._options.dead_letter_retention_s
        assert retention is None or isinstance(retention, int)
        return self._access.jobs().sweep(self._stored_name, retention_s=retention)

    def _cancel(self, job_id: object) -> bool:
        jobs = self._access.jobs()
        checked = checked_job_id(job_id)
        return checked is not None and jobs.engine.cancel(checked)

    def _get_job(self, job_id: object) -> Job | None:
        jobs = self._access.jobs()
        checked = checked_job_id(job_id)
        row = None if checked is None else jobs.engine.get_job(checked)
        return None if row is None else Job(row, self._codec)

    def _encoded(self, payloads: Iterable[Any], jobs: JobManager) -> list[bytes]:
        limit = jobs.engine.settings.max_payload_bytes
        return [
            encode_payload(self._codec, payload, queue=self._name, max_bytes=limit)
            for payload in payloads
        ]
