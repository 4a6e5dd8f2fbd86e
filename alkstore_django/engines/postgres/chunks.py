"""Many payloads in a few statements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

# One statement carries at most so many rows, and about so many bytes.
MANY_ROWS = 5_000
MANY_BYTES = 8 * 1024 * 1024


def chunks(payloads: Sequence[bytes]) -> Iterator[list[bytes]]:
    """Split into runs of bounded rows and bytes, each with at least one payload."""
    chunk: list[bytes] = []
    size = 0
    for payload in payloads:
        if chunk and (len(chunk) == MANY_ROWS or size + len(payload) > MANY_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(payload)
        size += len(payload)
    if chunk:
        yield chunk
