"""Stores an order, enqueues its invoice, and tells the warehouse: all three in one transaction,
so none is ever alone."""

from dataclasses import asdict

from django.db import transaction

from shop.models import Customer, Order, OrderLine, Product
from shop.northwind import OrderData
from shop.queues import invoices, order_events


@transaction.atomic
def import_order(data: OrderData) -> bool:
    """Store the order, enqueue its invoice and its event; return False if it was there already.

    An order that is there has its lines, its job (or its invoice) and its event (or its
    shipment), as they came with it. The events of one customer arrive in their order.
    """
    Customer.objects.get_or_create(code=data.customer.code, defaults=asdict(data.customer))
    order, created = Order.objects.get_or_create(number=data.number, defaults=_order_values(data))
    if created:
        _store_lines(order, data)
        invoices.enqueue({"order": order.number})
        order_events.enqueue(_event(data), key=data.customer.code)
    return created


def _event(data: OrderData) -> dict[str, object]:
    """What the warehouse needs to know."""
    pieces = sum(line.quantity for line in data.lines)
    return {"order": data.number, "customer": data.customer.code, "pieces": pieces}


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
