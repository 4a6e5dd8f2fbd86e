"""The retry curve: equal jitter on an exponential, capped at one hour (CONTRACT 3.8)."""

from __future__ import annotations

import random
from collections.abc import Callable

MAX_BACKOFF_S = 3600
# backoff_base_s * 2**12 is beyond the cap for every base of at least 1.
_MAX_DOUBLINGS = 12

_system_random = random.SystemRandom()  # safe after a fork: no state to share


def backoff_range(base_s: int, attempts: int) -> tuple[int, int]:
    """Return the least and greatest delay in seconds after the ``attempts``-th claim.

    The greatest is ``min(base_s * 2**(attempts - 1), 3600)``, the least its half, rounded
    up. Never overflows, whatever ``attempts`` is.
    """
    doublings = min(max(attempts - 1, 0), _MAX_DOUBLINGS)
    cap = min(base_s << doublings, MAX_BACKOFF_S)
    return (cap + 1) // 2, cap


def backoff_s(
    base_s: int, attempts: int, draw: Callable[[int, int], int] = _system_random.randint
) -> int:
    """Draw a delay in whole seconds evenly from the range, both ends reachable."""
    return draw(*backoff_range(base_s, attempts))
