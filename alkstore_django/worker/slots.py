"""How many more handlers may run: of each kind, and of each queue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ..handlers import Handler


class Slots:
    """Counts the handlers that run, and says how many more may. The loop's thread alone uses it.

    A handler takes its slot until it has ended, even if its claim was over before.

    Args:
        sizes: how many handlers may run at once, for each kind of handler.
        limits: the same for single queues.
    """

    def __init__(
        self, handlers: Sequence[Handler], sizes: Mapping[bool, int], limits: Mapping[str, int]
    ) -> None:
        self._sizes = sizes
        self._limits = limits
        self._kinds = {handler.queue.name: handler.on_event_loop for handler in handlers}
        self._busy: Counter[str] = Counter()
        self._busy_of_kind: Counter[bool] = Counter()

    def take(self, queue: str, n: int) -> None:
        """Count ``n`` more handlers of a queue."""
        self._busy[queue] += n
        self._busy_of_kind[self._kinds[queue]] += n

    def release(self, ended: Mapping[str, int]) -> None:
        """Count handlers as ended, per queue."""
        for queue, n in ended.items():
            self.take(queue, -n)

    def free_of_kind(self, on_event_loop: bool) -> int:
        """Return how many more handlers of a kind may run."""
        return self._sizes[on_event_loop] - self._busy_of_kind[on_event_loop]

    def free(self, queue: str) -> int:
        """Return how many more handlers of a queue may run."""
        free = self.free_of_kind(self._kinds[queue])
        if (limit := self._limits.get(queue)) is not None:
            free = min(free, limit - self._busy[queue])
        return free
