"""Lengths and instants as integers (CONTRACT 1.4 and 2.3).

The database's clock is read in microseconds; stored instants are whole UTC seconds. The
present rounds down, a promised instant rounds up. Lengths come in as ``int``, finite
``float`` or ``timedelta`` and are turned into whole microseconds, rounded up: since the
clock is whole microseconds too, the sum rounded up to seconds is the same as if the exact
length had been added.
"""

from __future__ import annotations

import datetime as dt
import math
from fractions import Fraction
from typing import TypeAlias

from ..exceptions import InvalidOptions

Length: TypeAlias = int | float | dt.timedelta
Instant: TypeAlias = int | float | dt.datetime

MICROSECONDS = 1_000_000
UTC = dt.UTC
EPOCH = dt.datetime(1970, 1, 1, tzinfo=UTC)
FIRST_INSTANT = -62_135_596_800  # 0001-01-01T00:00:00Z
LAST_INSTANT = 253_402_300_799  # 9999-12-31T23:59:59Z
# No length may reach beyond the year 9999, counted from any now before the year 2100.
MAX_LENGTH_S = LAST_INSTANT - 4_102_444_800


def length_us(field: str, value: object, *, at_least_s: int) -> int:
    """Return a length in whole microseconds, rounded up, or raise ``InvalidOptions``.

    Args:
        field: the option's name, for the error.
        at_least_s: the lower bound in seconds, applied to the exact value.
    """
    exact = _exact_seconds(field, value)
    if exact < at_least_s:
        raise InvalidOptions(field, f"must be at least {at_least_s} s", value)
    if exact > MAX_LENGTH_S:
        raise InvalidOptions(field, "must not reach beyond the year 9999", value)
    return math.ceil(exact * MICROSECONDS)


def length_s(field: str, value: object, *, at_least_s: int) -> int:
    """Return a stored length: whole seconds, rounded up."""
    return -(-length_us(field, value, at_least_s=at_least_s) // MICROSECONDS)


def epoch_s(field: str, value: object) -> int:
    """Return a promised instant in epoch seconds, rounded up.

    Accepts an aware ``datetime`` or finite epoch seconds, years 1 to 9999.
    """
    if isinstance(value, dt.datetime):
        if value.utcoffset() is None:
            raise InvalidOptions(field, "must be an aware datetime", value)
        since_epoch = value - EPOCH
        seconds = math.ceil(Fraction(since_epoch // dt.timedelta.resolution, MICROSECONDS))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        if isinstance(value, float) and not math.isfinite(value):
            raise InvalidOptions(field, "must be finite", value)
        seconds = math.ceil(value)
    else:
        raise InvalidOptions(field, "must be an aware datetime or epoch seconds", value)
    if not FIRST_INSTANT <= seconds <= LAST_INSTANT:
        raise InvalidOptions(field, "must lie in the years 1 to 9999", value)
    return seconds


def as_datetime(seconds: int) -> dt.datetime:
    """Return the aware UTC datetime of an instant in epoch seconds."""
    return EPOCH + dt.timedelta(seconds=seconds)


def _exact_seconds(field: str, value: object) -> Fraction:
    if isinstance(value, bool):
        raise InvalidOptions(field, "must be a length of time, not a bool", value)
    if isinstance(value, int):
        return Fraction(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidOptions(field, "must be finite", value)
        return Fraction(value)
    if isinstance(value, dt.timedelta):
        return Fraction(value // dt.timedelta.resolution, MICROSECONDS)
    raise InvalidOptions(field, "must be an int, a float or a timedelta", value)
