"""Sections 1.4 and 2.3, the pure arithmetic of lengths and instants."""

import datetime as dt
import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alkstore_django.core.instants import as_datetime, epoch_s, length_s, length_us
from alkstore_django.exceptions import InvalidOptions
from tests.core.hostile import BAD_INSTANTS, BAD_LENGTHS, BELOW_ONE, cases

YEAR_1, YEAR_9999 = -62_135_596_800, 253_402_300_799
LENGTHS = (
    st.integers(0, 10**10)
    | st.floats(0, 1e10)
    | st.timedeltas(dt.timedelta(), dt.timedelta(days=100_000))
)
NOW_US = st.integers(0, 4_102_444_800_000_000)
ZONES = st.timedeltas(dt.timedelta(hours=-23), dt.timedelta(hours=23)).map(dt.timezone)


def exact(length):
    """A length in seconds, without any rounding."""
    if isinstance(length, dt.timedelta):
        return Fraction(length // dt.timedelta(microseconds=1), 1_000_000)
    return Fraction(length)


@given(NOW_US, LENGTHS)
def test_a_promised_instant_is_the_exact_sum_rounded_up_once(now_us, length):
    """2.3 run_at = ceil(now + delay): the sum is exact, and is rounded once."""
    added = now_us + length_us("delay", length, at_least_s=0)
    assert -(-added // 1_000_000) == math.ceil(Fraction(now_us, 1_000_000) + exact(length))


@given(LENGTHS)
def test_a_stored_length_rounds_up_to_whole_seconds(length):
    """2.3 Stored lengths round up."""
    stored = length_s("backoff_base_s", length, at_least_s=0)
    assert type(stored) is int
    assert stored == math.ceil(exact(length))


@pytest.mark.parametrize("length", cases(BAD_LENGTHS))
@pytest.mark.parametrize("turn", [length_us, length_s])
def test_refuses_what_is_no_length(turn, length):
    """2.3 bool, NaN, negative, out of range and foreign types are InvalidOptions."""
    with pytest.raises(InvalidOptions) as caught:
        turn("delay", length, at_least_s=0)
    assert caught.value.field == "delay"
    assert caught.value.value is length
    assert str(caught.value).startswith("delay must ")


@pytest.mark.parametrize("length", cases(BELOW_ONE))
def test_the_lower_bound_counts_before_rounding(length):
    """2.3 Lower bound 1: what would only be rounded up to 1 is refused; 0 is a legal delay."""
    with pytest.raises(InvalidOptions, match=r"^expires must be at least 1"):
        length_us("expires", length, at_least_s=1)
    assert length_s("delay", length, at_least_s=0) == math.ceil(exact(length))


@pytest.mark.parametrize(
    ("instant", "seconds"),
    [
        (0, 0),
        (1_800_000_000.000001, 1_800_000_001),
        (-0.5, 0),
        (-1.5, -1),
        (YEAR_1, YEAR_1),
        (YEAR_9999, YEAR_9999),
        (dt.datetime(1, 1, 1, tzinfo=dt.UTC), YEAR_1),
        (dt.datetime(9999, 12, 31, 23, 59, 59, tzinfo=dt.UTC), YEAR_9999),
        (dt.datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=dt.UTC), 1),
        (dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=dt.UTC), 0),
        (dt.datetime(1970, 1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1))), 0),
    ],
)
def test_an_instant_becomes_epoch_seconds(instant, seconds):
    """2.3 run_at is an aware datetime or epoch seconds, years 1 to 9999, fractions up."""
    assert epoch_s("run_at", instant) == seconds


@given(st.datetimes(dt.datetime(2, 1, 1), dt.datetime(9998, 12, 31), timezones=ZONES))
def test_an_aware_datetime_is_never_early_and_less_than_a_second_late(moment):
    """1.4 A promised instant rounds up, whatever the zone it was given in."""
    late = as_datetime(epoch_s("run_at", moment)) - moment
    assert dt.timedelta() <= late < dt.timedelta(seconds=1)


@pytest.mark.parametrize("instant", cases(BAD_INSTANTS))
def test_refuses_what_is_no_instant(instant):
    """2.3 Naive, infinite, out of years 1 to 9999, bool: InvalidOptions."""
    with pytest.raises(InvalidOptions) as caught:
        epoch_s("run_at", instant)
    assert caught.value.field == "run_at"
    assert str(caught.value).startswith("run_at must ")


def test_refuses_an_aware_datetime_that_lies_outside_the_years_in_utc():
    """2.3 The years count in UTC: the last moment of 9999 in the west is year 10000."""
    west = dt.timezone(dt.timedelta(hours=-1))
    with pytest.raises(InvalidOptions):
        epoch_s("run_at", dt.datetime(9999, 12, 31, 23, 30, tzinfo=west))
    with pytest.raises(InvalidOptions):
        epoch_s("run_at", dt.datetime(9999, 12, 31, 23, 59, 59, 1, tzinfo=dt.UTC))


@given(st.integers(YEAR_1, YEAR_9999))
def test_stored_instants_come_back_as_aware_utc(seconds):
    """3.12 Instants are aware UTC datetimes, exact over all legal years."""
    moment = as_datetime(seconds)
    assert moment.utcoffset() == dt.timedelta()
    assert epoch_s("run_at", moment) == seconds
