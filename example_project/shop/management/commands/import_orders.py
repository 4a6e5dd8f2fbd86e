"""``manage.py import_orders``: the Northwind orders, each with the job for its invoice."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from shop.importing import import_order
from shop.management.progress import Progress
from shop.models import Order
from shop.northwind import NorthwindError, OrderData, read_orders


def add_data_argument(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--data",
        type=Path,
        default=settings.BASE_DIR / "data" / "northwind",
        help="the folder with customers.csv, products.csv, orders.csv and order-details.csv",
    )


class Command(BaseCommand):
    help = "Imports the Northwind orders and enqueues their invoices. A second run doubles nothing."
    requires_migrations_checks = True

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_data_argument(parser)

    def handle(self, *args: Any, data: Path, **options: Any) -> None:
        try:
            orders = read_orders(data)
        except NorthwindError as error:
            raise CommandError(str(error)) from error
        imported = self._import(orders)
        self.stdout.write(
            f"{imported} orders imported, {len(orders) - imported} were there already"
        )

    def _import(self, orders: list[OrderData]) -> int:
        """Import the orders that are not there yet and return how many these were."""
        there = set(Order.objects.values_list("number", flat=True))
        missing = [order for order in orders if order.number not in there]
        progress = Progress(self.stdout, "importing orders:", len(missing))
        imported = 0
        for done, order in enumerate(missing, start=1):
            imported += import_order(order)
            progress.show(done)
        return imported
