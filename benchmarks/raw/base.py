"""What the benchmarks ask of a raw store, and the values of its rows."""

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence

BATCH = 100  # how many the raw drain claims, and deletes, with one statement
QUEUE = "raw"
COLUMNS = (
    "queue, state, priority, run_at, attempts, max_attempts, visibility_timeout_s, "
    "backoff_base_s, enqueued_at, codec"
)
CLAIMED = (
    "state = 'processing', attempts = attempts + 1, worker_id = 'raw', claimed_at = {now}, "
    "deadline = {now} + visibility_timeout_s, claim_token = 1"
)


class RawStore(ABC):
    """A bare table beside the package's, and the least that can be sent to it."""

    @abstractmethod
    def create(self) -> None:
        """Create the tables, in the shape of those that the package has migrated."""

    @abstractmethod
    def enqueue_with_note(self, text: str, payload: bytes) -> None:
        """BEGIN, insert a business row, insert a job, COMMIT."""

    @abstractmethod
    def enqueue_many(self, payloads: Sequence[bytes]) -> None:
        """Insert many rows in one transaction, as many per statement as the package does.

        As there, the ids come back.
        """

    @abstractmethod
    def drain(self) -> int:
        """Claim and delete in batches until nothing is left; return how many jobs there were."""

    @abstractmethod
    def wake(self) -> None:
        """Do after a commit what the package's wake amounts to."""

    @abstractmethod
    def count(self) -> int:
        """Return how many jobs there are."""

    @abstractmethod
    def empty(self) -> None:
        """Delete all rows."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection."""


def job_values() -> tuple[object, ...]:
    """Return the values of ``COLUMNS`` for a job that is ready now."""
    now = int(time.time())
    return (QUEUE, "pending", 0, now, 0, 3, 300, 5, now, "json")


def chunks(payloads: Sequence[bytes], size: int) -> list[Sequence[bytes]]:
    """Split into runs of ``size``."""
    return [payloads[start : start + size] for start in range(0, len(payloads), size)]
