"""What queues are called where people read."""

from __future__ import annotations

from .names import RESERVED_PREFIX

OUTBOX_PREFIX = f"{RESERVED_PREFIX}outbox_"


def queue_label(queue: str) -> str:
    """Return the name of a queue, or ``outbox x`` for the queue that backs the outbox x."""
    outbox = queue.removeprefix(OUTBOX_PREFIX)
    return queue if outbox == queue else f"outbox {outbox}"
