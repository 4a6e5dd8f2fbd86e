"""The grammar of specs, and which boundaries a tick fires (CONTRACT 4.2 and 4.5)."""

from __future__ import annotations

import re
from typing import NamedTuple

from ..exceptions import InvalidSpec

MAX_INTERVAL_S = 3650 * 86_400
CATCH_UP = 64
"""How many missed boundaries of a schedule one tick replays at most: the oldest."""

_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_SPEC = re.compile(r"@every ([1-9][0-9]{0,8})([smhd])")


def interval_s(spec: object) -> int:
    """Return the seconds between two boundaries of ``@every <n><unit>``.

    The unit is s, m, h or d; n is a positive number in ASCII digits without sign or leading
    zeros; the whole is at most 3,650 days; nothing stands around it. A day is always 86,400
    seconds.

    Raises:
        InvalidSpec: it is anything else; carries the spec.
    """
    match = _SPEC.fullmatch(spec) if isinstance(spec, str) else None
    if match is None:
        raise InvalidSpec(spec)
    seconds = int(match[1]) * _UNITS[match[2]]
    if seconds > MAX_INTERVAL_S:
        raise InvalidSpec(spec)
    return seconds


class Plan(NamedTuple):
    """What a tick does to one schedule.

    Attributes:
        boundaries: those to fire, in order.
        n_skipped: how many elapsed ones are passed over.
        next_boundary_at: the first one ahead, on the same grid.
    """

    boundaries: range
    n_skipped: int
    next_boundary_at: int


def elapsed(next_boundary_at: int, interval: int, now: int) -> int:
    """Return how many boundaries have elapsed and were not fired; one at ``now`` has."""
    return max((now - next_boundary_at) // interval + 1, 0)


def plan(next_boundary_at: int, interval: int, now: int) -> Plan:
    """Return which boundaries to fire at ``now``: the oldest, 64 at most; the rest is skipped."""
    n_elapsed = elapsed(next_boundary_at, interval, now)
    n_fired = min(n_elapsed, CATCH_UP)
    fired_until = next_boundary_at + n_fired * interval
    return Plan(
        range(next_boundary_at, fired_until, interval),
        n_elapsed - n_fired,
        next_boundary_at + n_elapsed * interval,
    )
