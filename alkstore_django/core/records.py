"""The values that cross the engine border, and the public ``Job``."""

from __future__ import annotations

import datetime as dt
from enum import StrEnum
from typing import Any, NamedTuple

from .instants import as_datetime
from .payloads import Codec, decode_payload


class JobState(StrEnum):
    """Where a job is: waiting, claimed, or in dead storage."""

    PENDING = "pending"
    PROCESSING = "processing"
    DEAD = "dead"


class Claim(NamedTuple):
    """Which claim of which job: the fence of every operation on a handle (CONTRACT 3.5).

    The token is drawn at random for each claim call and never used twice, so neither a
    reclaim, nor a claim given back, nor one undone by a rollback can be mistaken for
    another.
    """

    job_id: int
    token: int


class JobRow(NamedTuple):
    """One row as an engine reads it, columns in the order of the engines' ``COLUMNS``.

    Instants are UTC epoch seconds, lengths seconds.
    """

    id: int
    queue: str
    state: str
    priority: int
    run_at: int
    expires_at: int | None
    attempts: int
    max_attempts: int
    visibility_timeout_s: int
    backoff_base_s: int
    enqueued_at: int
    worker_id: str | None
    claimed_at: int | None
    deadline: int | None
    claim_token: int | None
    codec: str
    payload: bytes
    last_error: str | None
    died_at: int | None
    key: str | None

    @property
    def claim(self) -> Claim:
        """The fence of the claim that this row was read under."""
        assert self.claim_token is not None
        return Claim(self.id, self.claim_token)


class SweepResult(NamedTuple):
    """What one sweep did: jobs moved to the dead as expired, dead jobs deleted."""

    expired: int
    purged: int


class Purged(NamedTuple):
    """How many dead jobs a batch deleted, and the latest instant of death among them."""

    n: int
    until: int


class Enqueued(NamedTuple):
    """A stored job's id, and whether it was ready at the statement's own clock read."""

    id: int
    ready: bool


class Job:
    """One job as it was when it was read: an immutable value.

    Instants are aware UTC datetimes on whole seconds, lengths are seconds, all options are
    resolved. ``worker_id``, ``claimed_at`` and ``deadline`` are ``None`` while pending;
    ``last_error`` and ``died_at`` are set only on dead jobs, which keep their last
    ``worker_id`` and ``claimed_at``. The text form never shows the payload. One thing moves:
    ``lost``, for a handler that wants to know whether its work still counts.
    """

    __slots__ = ("_codec", "_lost", "_row")

    def __init__(self, row: JobRow, codec: Codec | None = None) -> None:
        object.__setattr__(self, "_row", row)
        object.__setattr__(self, "_codec", codec)
        object.__setattr__(self, "_lost", False)

    _row: JobRow
    _codec: Codec | None
    _lost: bool

    @property
    def id(self) -> int:
        """A positive 64-bit integer, never used twice."""
        return self._row.id

    @property
    def queue(self) -> str:
        """The queue's name."""
        return self._row.queue

    @property
    def state(self) -> JobState:
        """``pending``, ``processing`` or ``dead``."""
        return JobState(self._row.state)

    @property
    def payload(self) -> Any:
        """The payload, decoded anew at each access by the codec that the row names.

        Raises:
            InvalidPayload: the stored bytes do not decode; ``payload_bytes`` has them.
        """
        row = self._row
        return decode_payload(row.codec, self._codec, row.payload, queue=row.queue)

    @property
    def payload_bytes(self) -> bytes:
        """The stored bytes, exactly."""
        return self._row.payload

    @property
    def codec(self) -> str:
        """The name of the codec that the payload was stored with."""
        return self._row.codec

    @property
    def priority(self) -> int:
        """Higher is claimed first."""
        return self._row.priority

    @property
    def attempts(self) -> int:
        """How often the job was claimed, reclaims included."""
        return self._row.attempts

    @property
    def max_attempts(self) -> int:
        """The budget of attempts, frozen at enqueue."""
        return self._row.max_attempts

    @property
    def visibility_timeout_s(self) -> int:
        """How long a claim of this job lasts, in seconds."""
        return self._row.visibility_timeout_s

    @property
    def backoff_base_s(self) -> int:
        """The base of this job's retry curve, in seconds."""
        return self._row.backoff_base_s

    @property
    def run_at(self) -> dt.datetime:
        """Not claimed before this instant."""
        return as_datetime(self._row.run_at)

    @property
    def enqueued_at(self) -> dt.datetime:
        """When the job was enqueued."""
        return as_datetime(self._row.enqueued_at)

    @property
    def expires_at(self) -> dt.datetime | None:
        """Not claimed at or after this instant."""
        return _datetime_or_none(self._row.expires_at)

    @property
    def worker_id(self) -> str | None:
        """Who holds the claim, or held the last one of a dead job."""
        return self._row.worker_id

    @property
    def claimed_at(self) -> dt.datetime | None:
        """When that claim was made."""
        return _datetime_or_none(self._row.claimed_at)

    @property
    def deadline(self) -> dt.datetime | None:
        """When the claim lapses unless it is renewed."""
        return _datetime_or_none(self._row.deadline)

    @property
    def lost(self) -> bool:
        """Whether the worker that runs this job has learnt that its claim is over.

        True after a refused renewal, after ``timeout_s``, and when a stopping worker has given
        the job back: it may be running elsewhere, and this run's result will be dropped. A
        long handler looks now and then, and returns. False says nothing for certain: only an
        accepted ack does.
        """
        return self._lost

    def _mark_lost(self) -> None:
        object.__setattr__(self, "_lost", True)

    @property
    def last_error(self) -> str | None:
        """Why the job died."""
        return self._row.last_error

    @property
    def died_at(self) -> dt.datetime | None:
        """When the job died."""
        return _datetime_or_none(self._row.died_at)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Job is immutable, {name} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a Job is immutable, {name} cannot be deleted")

    def __reduce__(self) -> tuple[type[Job], tuple[JobRow, Codec | None]]:
        return Job, (self._row, self._codec)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Job) and self._row == other._row

    def __hash__(self) -> int:
        return hash((self._row.id, self._row.claim_token, self._row.attempts))

    def __repr__(self) -> str:
        row = self._row
        return (
            f"<Job id={row.id} queue={row.queue!r} state={row.state} "
            f"attempts={row.attempts}/{row.max_attempts}>"
        )


def _datetime_or_none(seconds: int | None) -> dt.datetime | None:
    return None if seconds is None else as_datetime(seconds)
