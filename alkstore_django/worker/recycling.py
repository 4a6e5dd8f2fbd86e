"""A worker process that has done much, or grown large, makes room for a new one."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from ..core.stop import StopToken
from . import process_log
from .tally import Tally

MEBIBYTE = 1024 * 1024
LOOK_AT_MEMORY_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class RecyclingLimits:
    """When a process makes room; None: never.

    Attributes:
        max_jobs: after so many settled jobs.
        max_memory_mb: when so many mebibytes are resident.
    """

    max_jobs: int | None = None
    max_memory_mb: int | None = None

    def __bool__(self) -> bool:
        return self.max_jobs is not None or self.max_memory_mb is not None


class Recycler:
    """Asks the worker to stop when a limit is reached. Called after each turn of its loop.

    Memory is looked at once a second at most, and not before a job was settled: a process that
    is too large from the start would be replaced for ever.
    """

    def __init__(
        self,
        tally: Tally,
        limits: RecyclingLimits,
        stop: StopToken,
        *,
        resident_mb: Callable[[], int] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.has_stopped = False
        self._tally = tally
        self._limits = limits
        self._stop = stop
        self._resident_mb = resident_mb or resident_memory_mb
        self._clock = clock
        self._look_at = 0.0

    def __call__(self) -> None:
        if self._stop.stopped or not (n_jobs := settled(self._tally)):
            return
        max_jobs, max_memory_mb = self._limits.max_jobs, self._limits.max_memory_mb
        if max_jobs is not None and n_jobs >= max_jobs:
            self._make_room("jobs", n_jobs, max_jobs)
        elif max_memory_mb is not None and self._clock() >= self._look_at:
            self._look_at = self._clock() + LOOK_AT_MEMORY_EVERY_S
            if (resident_mb := self._resident_mb()) > max_memory_mb:
                self._make_room("memory_mb", resident_mb, max_memory_mb)

    def _make_room(self, what: str, value: int, limit: int) -> None:
        self.has_stopped = True
        process_log.recycling(what, value, limit)
        self._stop.stop()


def settled(tally: Tally) -> int:
    """Return how many jobs came to an end here; those given back did not."""
    return sum(
        n
        for counts in tally.as_dict().values()
        for outcome, n in counts.items()
        if outcome != "given_back"
    )


def resident_memory_mb() -> int:
    """Return how much memory this process holds, in mebibytes; its peak where only that is known."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // MEBIBYTE
    except (OSError, ValueError, IndexError):
        return _peak_mb()


def _peak_mb() -> int:
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak // MEBIBYTE if sys.platform == "darwin" else peak // 1024
