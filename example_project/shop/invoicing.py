"""What an order costs, to the last digit, and its invoice as a page.

Prices have two decimals and discounts two, so goods have up to four. They are added up as
they are; cents are rounded (half up) only where a sum is printed as money to pay.
"""

from collections.abc import Iterable
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Protocol

from django.template.loader import render_to_string

CENT = Decimal("0.01")


class Line(Protocol):
    """What the price of an order line depends on."""

    unit_price: Decimal
    quantity: int
    discount: Decimal


def goods_of(line: Line) -> Decimal:
    """The price of one line, net of its discount, unrounded."""
    return line.unit_price * line.quantity * (1 - line.discount)


def goods_sum(lines: Iterable[Line]) -> Decimal:
    """The price of all lines, unrounded."""
    return sum(map(goods_of, lines), Decimal("0.00"))


def to_cents(amount: Decimal) -> Decimal:
    """Round half up to cents, for printing."""
    return amount.quantize(CENT, rounding=ROUND_HALF_UP)


def invoice_for(order: Any) -> dict[str, Any]:
    """The values of the order's invoice: goods, freight, total and the page."""
    goods = goods_sum(order.lines.all())
    invoice = {"goods": goods, "freight": order.freight, "total": goods + order.freight}
    page = render_to_string("shop/invoice.html", {"order": order, **invoice})
    return {**invoice, "html": page}
