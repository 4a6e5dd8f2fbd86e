"""Four processes that enqueue flat out, each job in a transaction: with the wake, and without."""

import contextlib

from .child import Child
from .measuring import Benchmark, Metric, Values, empty

WRITERS = 4


class CommitRate(Benchmark):
    """Raw is the same with ``NOTIFY: False``; another process listens in both."""

    name = "commit_rate"
    metrics = (Metric(name, "jobs/s", higher_is_better=True),)

    def round(self) -> tuple[Values, Values]:
        return [self._rate("on")], [self._rate("off")]

    def _rate(self, wake: str) -> float:
        empty(self.alias)
        with contextlib.ExitStack() as stack:
            listener = stack.enter_context(Child("listener", self.alias))
            listener.read()
            writers = [
                stack.enter_context(Child("writer", self.alias, wake, self.sizes.writing_s))
                for _ in range(WRITERS)
            ]
            for writer in writers:
                writer.read()
            for writer in writers:
                writer.go()
            return float(sum(writer.read() for writer in writers))
