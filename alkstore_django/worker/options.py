"""How a worker works."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..conf import StoreSettings
from ..exceptions import InvalidOptions


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """How a worker works. Lengths are seconds.

    Attributes:
        threads: how many handlers run at once.
        async_jobs: how many ``async def`` handlers run at once, all on one event loop.
        limits: for each queue named here, how many of its handlers run at once at most.
        drain: return once nothing is ready and nothing runs.
        poll_interval_s: how often to look for jobs whatever the wake says; None: the setting.
        heartbeat_interval_s: how often to renew at the least; None: a third of each job's
            visibility timeout.
        shutdown_timeout_s: how long running handlers may go on after a stop.
        with_schedules: run a scheduler beside the worker; does not go with drain.
    """

    threads: int = 4
    worker_id: str | None = None
    drain: bool = False
    poll_interval_s: float | None = None
    heartbeat_interval_s: float | None = None
    shutdown_timeout_s: float = 30.0
    async_jobs: int = 100
    limits: Mapping[str, int] = field(default_factory=dict)
    with_schedules: bool = False

    def __post_init__(self) -> None:
        for name in ("threads", "async_jobs"):
            _check_count(name, getattr(self, name))
        for queue_name, limit in self.limits.items():
            _check_count(f"limits[{queue_name!r}]", limit)
        if self.with_schedules and self.drain:
            raise InvalidOptions("with_schedules", "does not go with drain", self.with_schedules)
        if not self.shutdown_timeout_s >= 0:
            raise InvalidOptions(
                "shutdown_timeout_s", "must be at least 0", self.shutdown_timeout_s
            )
        for name in ("poll_interval_s", "heartbeat_interval_s"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise InvalidOptions(name, "must be above 0", value)

    def resolved_poll_interval_s(self, settings: StoreSettings) -> float:
        """Return how often to look for jobs, by these options or else by the store's settings."""
        return self.poll_interval_s or settings.poll_interval_s


def _check_count(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidOptions(name, "must be an int of at least 1", value)


def new_worker_id() -> str:
    """Return an id that tells host and process, and is new for every worker."""
    return f"{socket.gethostname()[:100]}:{os.getpid()}:{secrets.token_hex(4)}"
