"""Fire all schedules that are due, as a leading scheduler does; say how long and how much memory."""

import sys
import time
from pathlib import Path

import django

from .speech import say, wait_for_line


def main(alias: str, now_us: int) -> None:
    django.setup()
    from django.db import connections

    from alkstore_django.engines.registry import engine_for
    from alkstore_django.scheduling.leadership import Leadership
    from alkstore_django.scheduling.ticking import Ticker

    engine = engine_for(alias)
    connections[alias].ensure_connection()
    engine.frozen_now_us = now_us
    leadership = Leadership(engine.schedules, engine.settings.lease_s)
    if not leadership.try_to_take():
        raise RuntimeError("another scheduler leads")

    def keep() -> bool:
        leadership.keep()
        return True

    say("ready")
    wait_for_line()
    before_mb = _peak_memory_mb()
    began = time.perf_counter()
    done = Ticker(engine, keep=keep).tick(now_us // 1_000_000)
    seconds = time.perf_counter() - began
    leadership.release()
    say(
        {
            "seconds": seconds,
            "fired": done.n_fired,
            "before_mb": before_mb,
            "peak_mb": _peak_memory_mb(),
        }
    )


def _peak_memory_mb() -> float:
    """Return the most memory that this process has had resident; 0 where /proc does not tell."""
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return 0.0


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
