"""Stores an order and enqueues its invoice: both in one transaction, so neither is ever alone."""

from dataclasses import asdict

from django.db import transaction

from shop.models import Customer, Order, OrderLine, Product
from shop.northwind import OrderData
from shop.queues import invoices


@transaction.atomic
def import_order(data: OrderData) -> bool:
    """Store the order and enqueue its invoice; return False if it was there already.

    An order that is there has its lines and its job (or its invoice), as they came with it.
    """
    Customer.objects.get_or_create(code=data.customer.code, defaults=asdict(data.customer))
    order, created = Order.objects.get_or_create(number=data.number, defaults=_order_values(data))
    if created:
        _store_lines(order, data)
        invoices.enqueue({"order": order.number})
    return created


def _order_values(data: OrderData) -> dict[str, object]:
    values = {
        name: value for name, value in vars(data).items() if name not in ("customer", "lines")
    }
    return {**values, "customer_id": data.customer.code}


def _store_lines(order: Order, data: OrderData) -> None:
    products = [Product(**asdict(line.product)) for line in data.lines]
    Product.objects.bulk_create(products, ignore_conflicts=True)
    OrderLine.objects.bulk_create(
        OrderLine(
            order=order,
            product_id=line.product.number,
            unit_price=line.unit_price,
            quantity=line.quantity,
            discount=line.discount,
        )
        for line in data.lines
    )
