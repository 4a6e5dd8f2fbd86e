"""Durable background work for Django, in the database the project already has."""

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
    "Queue",
    "RetryJob",
    "StopToken",
    "Store",
    "StoreClosed",
    "SweepResult",
    "TransactionRequired",
    "declare_schedule",
    "run_schedules",
    "schedule",
    "unschedule",
]
