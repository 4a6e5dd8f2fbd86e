"""Options of queues and of single enqueues, checked before any SQL (CONTRACT section 2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..exceptions import InvalidOptions
from .instants import Instant, Length, epoch_s, length_s, length_us

INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1
INT64_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class QueueOptions:
    """What a queue stamps onto each job at enqueue; retention alone stays with the handle.

    Lengths are given in seconds or as ``timedelta`` and kept as whole seconds, rounded up.
    """

    visibility_timeout_s: Length = 300
    max_attempts: int = 3
    backoff_base_s: Length = 5
    dead_letter_retention_s: Length | None = None

    def __post_init__(self) -> None:
        timeout = length_s("visibility_timeout_s", self.visibility_timeout_s, at_least_s=1)
        base = length_s("backoff_base_s", self.backoff_base_s, at_least_s=0)
        retention = self.dead_letter_retention_s
        if retention is not None:
            retention = length_s("dead_letter_retention_s", retention, at_least_s=1)
        checked_max_attempts(self.max_attempts)
        object.__setattr__(self, "visibility_timeout_s", timeout)
        object.__setattr__(self, "backoff_base_s", base)
        object.__setattr__(self, "dead_letter_retention_s", retention)


@dataclass(frozen=True, slots=True)
class Stamps:
    """What one enqueue writes onto its rows, next to the payload.

    ``delay_us`` and ``expires_us`` are lengths that the statement adds to its own clock
    read; ``run_at`` is an absolute instant in epoch seconds. With neither delay nor run_at
    the job is ready now.
    """

    queue: str
    codec: str
    visibility_timeout_s: int
    backoff_base_s: int
    max_attempts: int
    priority: int
    delay_us: int | None
    run_at: int | None
    expires_us: int | None

    @property
    def ready_at_once(self) -> bool:
        """Whether the job is ready now, and never expires."""
        return self.delay_us is None and self.run_at is None and self.expires_us is None

    def as_dict(self) -> dict[str, Any]:
        """Return the stamps by name, as a statement takes them."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class EnqueueOptions:
    """The options of one enqueue call, as the caller gave them; ``None`` means default."""

    delay: Length | None = None
    run_at: Instant | None = None
    priority: int | None = 0
    max_attempts: int | None = None
    expires: Length | None = None

    def stamps(self, queue: str, codec: str, options: QueueOptions) -> Stamps:
        """Resolve against a queue's options; raise ``InvalidOptions`` for what breaks a rule.

        A given delay, 0 too, wins over run_at; both are checked.
        """
        delay_us = run_at = expires_us = None
        if self.run_at is not None:
            run_at = epoch_s("run_at", self.run_at)
        if self.delay is not None:
            delay_us = length_us("delay", self.delay, at_least_s=0)
            run_at = None
        if self.expires is not None:
            expires_us = length_us("expires", self.expires, at_least_s=1)
            if delay_us is not None and expires_us <= delay_us:
                raise InvalidOptions("expires", "must be greater than delay", self.expires)
        attempts = options.max_attempts if self.max_attempts is None else self.max_attempts
        return Stamps(
            queue=queue,
            codec=codec,
            visibility_timeout_s=_whole(options.visibility_timeout_s),
            backoff_base_s=_whole(options.backoff_base_s),
            max_attempts=checked_max_attempts(attempts),
            priority=checked_priority(0 if self.priority is None else self.priority),
            delay_us=delay_us,
            run_at=run_at,
            expires_us=expires_us,
        )


@dataclass(frozen=True, slots=True)
class ScheduleOptions:
    """The options of one ``schedule`` call: those of an enqueue that a boundary leaves open."""

    priority: int | None = 0
    max_attempts: int | None = None
    expires: Length | None = None

    def stamps(self, queue: str, codec: str, options: QueueOptions) -> Stamps:
        """Resolve against a queue's options; raise ``InvalidOptions`` for what breaks a rule."""
        enqueue = EnqueueOptions(
            priority=self.priority, max_attempts=self.max_attempts, expires=self.expires
        )
        return enqueue.stamps(queue, codec, options)


def checked_max_attempts(value: object) -> int:
    """Return a budget of attempts: an int from 1 to 2**31 - 1."""
    return _checked_int("max_attempts", value, at_least=1, at_most=INT32_MAX)


def checked_priority(value: object) -> int:
    """Return a priority: an int32; higher runs first."""
    return _checked_int("priority", value, at_least=INT32_MIN, at_most=INT32_MAX)


def checked_batch_size(value: object) -> int:
    """Return how many jobs a claim may take: any int; 0 and below claim nothing."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidOptions("n", "must be an int", value)
    return value


def checked_batch(value: object) -> int:
    """Return how many events a delivery takes at a time: an int from 1 to 10,000."""
    return _checked_int("batch", value, at_least=1, at_most=10_000)


def checked_job_id(value: object) -> int | None:
    """Return a job id, or ``None`` for an int that no job can carry (CONTRACT 1.5)."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidOptions("job id", "must be an int", value)
    return value if 1 <= value <= INT64_MAX else None


def _checked_int(field: str, value: object, *, at_least: int, at_most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidOptions(field, "must be an int", value)
    if value < at_least:
        raise InvalidOptions(field, f"must be at least {at_least}", value)
    if value > at_most:
        raise InvalidOptions(field, f"must be at most {at_most}", value)
    return int(value)


def _whole(length: Length) -> int:
    """A length that QueueOptions has already turned into whole seconds."""
    assert isinstance(length, int)
    return length
