"""Sales per country: reckoned from the invoices, kept as a table, shown as a chart."""

from collections import defaultdict
from decimal import Decimal

from django.db import transaction
from django.template.loader import render_to_string

from shop.models import CountrySales, Invoice

# The chart, in its own units.
BAR_LEFT, BAR_WIDTH, BAR_STEP = 132, 400, 26


@transaction.atomic
def refresh_summary() -> None:
    """Replace the summary by what the invoices say now. Exact: added up in Python."""
    goods: dict[str, Decimal] = defaultdict(Decimal)
    orders: dict[str, int] = defaultdict(int)
    rows = Invoice.objects.values_list("order__customer__country", "goods")
    for country, amount in rows.iterator():
        goods[country] += amount
        orders[country] += 1
    CountrySales.objects.all().delete()
    CountrySales.objects.bulk_create(
        CountrySales(country=country, orders=orders[country], goods=goods[country])
        for country in goods
    )


def sales_page() -> str:
    """The page with the chart and the table, the best customers' country first."""
    rows = list(CountrySales.objects.all())
    most = max((row.goods for row in rows), default=Decimal(1))
    bars = []
    for place, row in enumerate(rows):
        width = round(float(BAR_WIDTH * row.goods / most), 1)
        label_x = BAR_LEFT + width + 8
        bars.append({"row": row, "y": BAR_STEP * place, "width": width, "label_x": label_x})
    values = {
        "bars": bars,
        "height": BAR_STEP * len(rows),
        "orders": sum(row.orders for row in rows),
        "goods": sum((row.goods for row in rows), Decimal()),
    }
    return render_to_string("shop/sales.html", values)
