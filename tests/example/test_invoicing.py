"""Amounts are exact and printed half up."""

from decimal import Decimal

import pytest

from shop.invoicing import to_cents
from shop.templatetags.money import exact, money, percent


@pytest.mark.parametrize(
    ("amount", "cents"),
    [("1265793.0395", "1265793.04"), ("0.005", "0.01"), ("0.0049", "0.00"), ("2.675", "2.68")],
)
def test_cents_are_rounded_half_up(amount: str, cents: str) -> None:
    """Not to even, and not by way of a float."""
    assert str(to_cents(Decimal(amount))) == cents


def test_amounts_are_printed_for_people() -> None:
    """Thousands are grouped; an unrounded amount keeps its digits, with two decimals at least."""
    assert money(Decimal("1265793.0395")) == "1,265,793.04"
    assert exact(Decimal("1265793.0395")) == "1,265,793.0395"
    assert exact(Decimal("1200.0000")) == "1,200.00"
    assert exact(Decimal("8.3725")) == "8.3725"
    assert exact(Decimal("0.0500")) == "0.05"
    assert percent(Decimal("0.15")) == "15\N{NO-BREAK SPACE}%"
