"""How amounts are printed."""

from decimal import Decimal

from django import template

from shop.invoicing import CENT, to_cents

register = template.Library()


@register.filter
def money(amount: Decimal) -> str:
    """An amount to pay: 1,265,793.04."""
    return f"{to_cents(amount):,}"


@register.filter
def exact(amount: Decimal) -> str:
    """An amount with all its digits, but at least two decimals: 1,265,793.0395."""
    cents = amount.quantize(CENT)
    return f"{cents:,}" if cents == amount else f"{amount.normalize():,f}"


@register.filter
def percent(fraction: Decimal) -> str:
    """0.15 as 15 %."""
    return f"{fraction * 100:.0f}\N{NO-BREAK SPACE}%"
