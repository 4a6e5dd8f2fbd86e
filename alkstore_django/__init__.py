"""Durable background work for Django, in the database the project already has."""

from .core.events import Event
from .core.payloads import BYTES, JSON, BytesCodec, Codec, JSONCodec
from .core.records import Job, JobState, SweepResult
from .core.stop import StopToken
from .exceptions import (
    AlkstoreError,
    FailJob,
    InvalidName,
    InvalidOptions,
    InvalidPayload,
    InvalidSpec,
    LeadershipLost,
    RetryJob,
    StoreClosed,
    TransactionRequired,
)
from .handles import JobHandle, Listener
from .inbox import inbox, sweep_inbox
from .outbox import Outbox
from .queues import Queue
from .schedules import declare_schedule, run_schedules, schedule, unschedule
from .stores import Store

__version__ = "0.1.0"

__all__ = [
    "BYTES",
    "JSON",
    "AlkstoreError",
    "BytesCodec",
    "Codec",
    "Event",
    "FailJob",
    "InvalidName",
    "InvalidOptions",
    "InvalidPayload",
    "InvalidSpec",
    "JSONCodec",
    "Job",
    "JobHandle",
    "JobState",
    "LeadershipLost",
    "Listener",
    "Outbox",
    "Queue",
    "RetryJob",
    "StopToken",
    "Store",
    "StoreClosed",
    "SweepResult",
    "TransactionRequired",
    "declare_schedule",
    "inbox",
    "run_schedules",
    "schedule",
    "sweep_inbox",
    "unschedule",
]
