"""Section 3.8, the retry curve."""

import math
from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alkstore_django.core.backoff import backoff_range, backoff_s

BASES = st.integers(0, 10_000) | st.integers(0, 249_299_855_999)
ATTEMPTS = st.integers(1, 30) | st.integers(1, 2**31 - 1)


def curve(base, attempts):
    """The rule of 3.8 in exact numbers; exponents beyond the cap are cut, not computed."""
    cap = min(Fraction(base) * 2 ** min(attempts - 1, 64), Fraction(3600))
    return math.ceil(cap / 2), int(cap)


@given(BASES, ATTEMPTS)
def test_the_range_is_the_curve(base, attempts):
    """3.8 From ceil(cap/2) to cap, cap = min(base * 2**(a-1), 3600); no overflow at any a."""
    assert backoff_range(base, attempts) == curve(base, attempts)


@pytest.mark.parametrize(
    ("base", "attempts", "least", "most"),
    [
        (5, 1, 3, 5),
        (5, 2, 5, 10),
        (5, 3, 10, 20),
        (5, 4, 20, 40),
        (1, 1, 1, 1),
        (1, 2, 1, 2),
        (5, 10, 1280, 2560),
        (5, 11, 1800, 3600),
        (1, 12, 1024, 2048),
        (1, 13, 1800, 3600),
        (3600, 1, 1800, 3600),
        (3601, 1, 1800, 3600),
        (0, 1, 0, 0),
        (0, 2**31 - 1, 0, 0),
        (1, 1_100, 1800, 3600),
        (5, 65, 1800, 3600),
    ],
)
def test_the_curve_at_known_points(base, attempts, least, most):
    """3.8 FR-083 The documented values; base 0 means at once."""
    assert backoff_range(base, attempts) == (least, most)


@given(BASES, ATTEMPTS)
def test_a_draw_is_a_whole_number_of_the_range(base, attempts):
    """3.8 A whole number of seconds out of the range, both ends included."""
    least, most = curve(base, attempts)
    drawn = backoff_s(base, attempts)
    assert type(drawn) is int
    assert least <= drawn <= most


def test_the_draw_is_even():
    """3.8 FR-083 Drawn evenly: every second of 5..10 about as often as every other."""
    drawn = Counter(backoff_s(5, 2) for _ in range(6_000))
    assert sorted(drawn) == [5, 6, 7, 8, 9, 10]
    assert all(800 < count < 1_200 for count in drawn.values())
