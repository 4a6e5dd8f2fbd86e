"""A worker that has nothing to do: its share of a processor, and its statements a minute."""

import time
from pathlib import Path

from .child import Child
from .measuring import Benchmark, Metric, Values, empty

TICKS_A_SECOND = 100.0  # of /proc/<pid>/stat


class IdleWorker(Benchmark):
    """Raw is a worker of the same kind whose re-poll is a minute away."""

    name = "idle_worker"
    metrics = (
        Metric("idle_cpu", "%", higher_is_better=False),
        Metric("idle_statements", "/min", higher_is_better=False),
    )

    def round(self) -> tuple[Values, Values]:
        empty(self.alias)
        return self._measured(1.0), self._measured(60.0)

    def _measured(self, poll_interval_s: float) -> Values:
        with Child("counting_worker", self.alias, poll_interval_s) as worker:
            pid = worker.read()
            time.sleep(min(1.0, self.sizes.idle_span_s))
            worker.go()
            before, cpu_before = worker.read(), _cpu_s(pid)
            time.sleep(self.sizes.idle_span_s)
            cpu_s = _cpu_s(pid) - cpu_before
            worker.go()
            statements = worker.read() - before
        span = self.sizes.idle_span_s
        return [100 * cpu_s / span, statements * 60 / span]


def _cpu_s(pid: int) -> float:
    """Return the processor time that a process has used; 0 where /proc does not tell."""
    file = Path(f"/proc/{pid}/stat")
    if not file.exists():
        return 0.0
    fields = file.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_A_SECOND
