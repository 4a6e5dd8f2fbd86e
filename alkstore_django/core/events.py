"""The public ``Event``: what a delivery gets to see of a claimed job of an outbox."""

from __future__ import annotations

import datetime as dt
from typing import Any

from .names import outbox_of
from .payloads import decode_payload
from .records import Job


class Event:
    """One event on its way out: an immutable value.

    Every delivery of one event carries the same ``id``, for the receiver to tell a second one
    by. The text form never shows the payload.
    """

    __slots__ = ("_job",)

    _job: Job

    def __init__(self, job: Job) -> None:
        object.__setattr__(self, "_job", job)

    @property
    def id(self) -> int:
        """A positive 64-bit integer, never used twice, the same in every delivery."""
        return self._job.id

    @property
    def outbox(self) -> str:
        """The outbox's name."""
        name = outbox_of(self._job.queue)
        assert name is not None
        return name

    @property
    def key(self) -> str | None:
        """Events of one key are delivered one at a time, in the order of their ids."""
        return self._job._row.key

    @property
    def payload(self) -> Any:
        """The payload, decoded anew at each access by the codec that the row names.

        Raises:
            InvalidPayload: the stored bytes do not decode; ``payload_bytes`` has them.
        """
        row = self._job._row
        return decode_payload(row.codec, self._job._codec, row.payload, queue=self.outbox)

    @property
    def payload_bytes(self) -> bytes:
        """The stored bytes, exactly."""
        return self._job.payload_bytes

    @property
    def attempts(self) -> int:
        """How often a delivery was begun, this one included."""
        return self._job.attempts

    @property
    def max_attempts(self) -> int:
        """The budget of attempts, frozen at enqueue."""
        return self._job.max_attempts

    @property
    def enqueued_at(self) -> dt.datetime:
        """When the event was enqueued; an aware UTC datetime."""
        return self._job.enqueued_at

    @property
    def lost(self) -> bool:
        """Whether the worker has learnt that this delivery's claim is over; see ``Job.lost``."""
        return self._job.lost

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"an Event is immutable, {name} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"an Event is immutable, {name} cannot be deleted")

    def __reduce__(self) -> tuple[type[Event], tuple[Job]]:
        return Event, (self._job,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Event) and self._job == other._job

    def __hash__(self) -> int:
        return hash(self._job)

    def __repr__(self) -> str:
        return (
            f"<Event id={self.id} outbox={self.outbox!r} key={self.key!r} "
            f"attempts={self.attempts}/{self.max_attempts}>"
        )
