"""Every error of the package, and the two signals that a handler may raise.

::

    AlkstoreError
    ├── InvalidName(ValueError)        a queue, worker, outbox or schedule name breaks the rule
    ├── InvalidOptions(ValueError)     an option is of the wrong type or out of range
    ├── InvalidSpec(ValueError)        a schedule's spec is not "@every <n><unit>"
    ├── InvalidPayload(ValueError)     a payload cannot be stored, or stored bytes cannot be read
    ├── LeadershipLost                 the scheduler's lease could not be renewed
    ├── StoreClosed                    the store was closed by its owner
    ├── TransactionRequired            the operation needs an open transaction
    ├── DeliveryFailed                 a ready delivery did not reach its receiver, or was refused
    └── InvalidSignature               a webhook is not signed with the secret, or is too old
    JobSignal                          raised by handlers: an outcome, not an error
    ├── RetryJob                       run this job again later
    └── FailJob                        bury this job now

A refused operation returns ``False``, an absent job is ``None``; only misuse raises.
Database errors stay Django's own (``django.db.OperationalError`` and its kin). No message
ever holds a payload.
"""

from __future__ import annotations

from typing import Any


class AlkstoreError(Exception):
    """Base of every error that the package raises itself."""


class InvalidName(AlkstoreError, ValueError):
    """A name breaks the rule of CONTRACT 1.3.

    Attributes:
        kind: which name: ``queue``, ``worker_id``, ``outbox``, ``schedule``.
        name: the value that was refused.
    """

    def __init__(self, kind: str, name: object, rule: str) -> None:
        super().__init__(kind, name, rule)
        self.kind = kind
        self.name = name
        self.rule = rule

    def __str__(self) -> str:
        return f"{self.kind} name {self.rule}, got {_shown(self.name)}"


class InvalidOptions(AlkstoreError, ValueError):
    """An option breaks its rule; nothing was sent to the database.

    Attributes:
        field: the option's name.
        value: the value that was refused.
    """

    def __init__(self, field: str, rule: str, value: object) -> None:
        super().__init__(field, rule, value)
        self.field = field
        self.rule = rule
        self.value = value

    def __str__(self) -> str:
        return f"{self.field} {self.rule}, got {_shown(self.value)}"


class InvalidSpec(AlkstoreError, ValueError):
    """A schedule's spec is not of the one accepted form; carries it as ``spec``."""

    def __init__(self, spec: object) -> None:
        super().__init__(spec)
        self.spec = spec

    def __str__(self) -> str:
        return f'spec must look like "@every 5m" (unit s, m, h or d), got {_shown(self.spec)}'


class InvalidPayload(AlkstoreError, ValueError):
    """A payload cannot be encoded, or stored bytes cannot be decoded.

    The text names the place (``$.order.items[3]``), never the value.

    Attributes:
        reason: what is wrong, and where.
        queue: the queue's name, where it is known.
    """

    def __init__(self, reason: str, queue: str | None = None) -> None:
        super().__init__(reason, queue)
        self.reason = reason
        self.queue = queue

    def __str__(self) -> str:
        return self.reason if self.queue is None else f"queue {self.queue!r}: {self.reason}"


class LeadershipLost(AlkstoreError):
    """The scheduler's lease is no longer ours; carries the lease's ``name``."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return f"leadership of {self.name!r} was lost"


class StoreClosed(AlkstoreError):
    """The store behind this object was closed; nothing was done."""

    def __init__(self, using: str) -> None:
        super().__init__(using)
        self.using = using

    def __str__(self) -> str:
        return f"the store on {self.using!r} is closed"


class TransactionRequired(AlkstoreError):
    """The operation must join a transaction, and none is open on the alias."""

    def __init__(self, operation: str, using: str) -> None:
        super().__init__(operation, using)
        self.operation = operation
        self.using = using

    def __str__(self) -> str:
        return (
            f"{self.operation} must run inside transaction.atomic(using={self.using!r}); "
            "no transaction is open there"
        )


class DeliveryFailed(AlkstoreError):
    """An event was not taken by its receiver; it is delivered again by the curve.

    Attributes:
        receiver: the host, without user, path or query.
        reason: what went wrong there; never the payload, never a secret.
    """

    def __init__(self, receiver: str, reason: str) -> None:
        super().__init__(receiver, reason)
        self.receiver = receiver
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.receiver} {self.reason}"


class InvalidSignature(AlkstoreError):
    """A webhook is not from who holds the secret, or is not fresh; carries the ``reason``."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"the webhook is refused: {self.reason}"


class JobSignal(Exception):
    """Base of what a handler raises to choose its job's outcome."""


class RetryJob(JobSignal):
    """Raised by a handler: run this job again later (dead if no attempt is left).

    Args:
        delay: length until then (``int``, finite ``float`` or ``timedelta``, at least 0);
            ``None`` draws from the queue's backoff curve.
        error: why; kept as ``last_error`` when the job dies of it.
    """

    def __init__(self, delay: Any = None, error: object = None) -> None:
        super().__init__(delay, error)
        self.delay = delay
        self.error = error


class FailJob(JobSignal):
    """Raised by a handler: the job is dead now, with ``reason`` as its ``last_error``."""

    def __init__(self, reason: object = None) -> None:
        super().__init__(reason)
        self.reason = reason


def _shown(value: object) -> str:
    """A short, safe picture of a refused value: hostile values must not break the message."""
    try:
        text = repr(value)
    except Exception:
        text = f"<{type(value).__name__}>"
    return text if len(text) <= 120 else text[:117] + "..."
