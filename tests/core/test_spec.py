"""The grammar of specs, and the arithmetic of boundaries: 4.2 and 4.5."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alkstore_django import InvalidSpec
from alkstore_django.core.spec import CATCH_UP, MAX_INTERVAL_S, elapsed, interval_s, plan
from tests.core.hostile import NO_STR, cases

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
BAD_SPECS = {
    **NO_STR,
    "empty": "",
    "cron": "*/5 * * * *",
    "shorthand of cron": "@hourly",
    "no unit": "@every 5",
    "no number": "@every m",
    "zero": "@every 0s",
    "leading zero": "@every 05s",
    "plus": "@every +5s",
    "minus": "@every -5s",
    "fraction": "@every 1.5h",
    "other unit": "@every 5w",
    "upper-case unit": "@every 5M",
    "upper-case word": "@Every 5m",
    "two units": "@every 1h30m",
    "two spaces": "@every  5m",
    "tab": "@every\t5m",
    "space before": " @every 5m",
    "space after": "@every 5m ",
    "newline after": "@every 5m\n",
    "space inside": "@every 5 m",
    "underscore": "@every 1_000s",
    "arabic digits": "@every \u0665m",
    "fullwidth digits": "@every \uff15m",
    "superscript": "@every \u00b2m",
    "NUL": "@every 5m\x00",
    "a second too long": f"@every {MAX_INTERVAL_S + 1}s",
    "a day too long": "@every 3651d",
    "far too long": "@every 99999999999999999999d",
    "endless": "@every " + "9" * 10_000 + "s",
}


@pytest.mark.parametrize("spec", cases(BAD_SPECS))
def test_all_else_is_refused(spec):
    """4.2 Whatever is not exactly ``@every <n><unit>`` is InvalidSpec, and carries what was given."""
    with pytest.raises(InvalidSpec) as caught:
        interval_s(spec)
    assert caught.value.spec is spec
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    "spec", ["@every 3650d", "@every 87600h", "@every 5256000m", "@every 315360000s"]
)
def test_the_longest(spec):
    """4.2 3,650 days in every unit; a day is 86,400 seconds."""
    assert interval_s(spec) == MAX_INTERVAL_S == 3650 * 86_400


@given(st.integers(1, 3650), st.sampled_from(sorted(UNITS)))
def test_every_good_spec(n, unit):
    """4.2 The interval is the number times the unit."""
    assert interval_s(f"@every {n}{unit}") == n * UNITS[unit]


@given(st.text(alphabet="@every 0123456789smhd+-.\n", max_size=14))
def test_nothing_else_gets_through(text):
    """4.2 Of texts made of the same letters only those of the form are taken."""
    try:
        seconds = interval_s(text)
    except InvalidSpec:
        return
    number = text.removeprefix("@every ")[:-1]
    assert text == f"@every {int(number)}{text[-1]}"
    assert seconds == int(number) * UNITS[text[-1]] > 0


instants = st.integers(-(10**12), 10**12)
intervals = st.integers(1, MAX_INTERVAL_S)
waits = st.integers(-(10**5), 10**7)


@given(instants, intervals, waits)
def test_a_plan_accounts_for_every_boundary(first, interval, wait):
    """4.5 What has elapsed is fired or skipped, the oldest 64 are fired, the next one is ahead and
    on the old grid."""
    now = first + wait
    made = plan(first, interval, now)
    fired = list(made.boundaries)
    assert len(fired) + made.n_skipped == elapsed(first, interval, now)
    assert len(fired) <= CATCH_UP
    assert not made.n_skipped or len(fired) == CATCH_UP
    assert fired == [first + place * interval for place in range(len(fired))]
    assert made.next_boundary_at == first + (len(fired) + made.n_skipped) * interval
    assert made.next_boundary_at > now or made.next_boundary_at == first
    assert made.next_boundary_at - interval <= now or made.next_boundary_at == first


@given(instants, st.integers(1, 1000), st.integers(0, 2000))
def test_elapsed_counts_as_one_would_by_hand(first, interval, wait):
    """4.5 A boundary that is reached has elapsed."""
    now = first + wait
    assert elapsed(first, interval, now) == len(range(first, now + 1, interval))


@given(instants, intervals, st.lists(st.integers(0, 10**6), max_size=5))
def test_ticks_in_between_change_nothing_of_the_grid(first, interval, waits):
    """FR-116 However often and however late one looks: the next boundary is on the first one's grid."""
    next_at, now = first, first
    for wait in waits:
        now += wait
        next_at = plan(next_at, interval, now).next_boundary_at
        assert (next_at - first) % interval == 0
        assert next_at > now
