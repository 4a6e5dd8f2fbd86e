"""``manage.py demo``: from nothing to all invoices, shipments and the sales per country.

The worker and the runner of the schedules are processes of their own; the warehouse, which
takes the shop's events, is a web server in a thread of this one.
"""

import os
import subprocess
import sys
import time
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db.models import Q
from django.utils import timezone

from alkstore_django.models import DeadJob, Job
from shop.invoicing import goods_sum, to_cents
from shop.management.commands.import_orders import add_data_argument
from shop.models import CountrySales, Invoice, Order, OrderLine
from shop.queues import summaries
from shop.sales import sales_page
from warehouse.models import Shipment
from warehouse.serving import serving

LOOK_AGAIN_S = 0.5
SALES_EVERY = "@every 2s"
PATIENCE_S = 60
BAR_WIDTH = 40


class Command(BaseCommand):
    help = (
        "Migrates, imports the Northwind orders, makes their invoices, delivers their events "
        "and sums up the sales. Can be run again."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_data_argument(parser)

    def handle(self, *args: Any, data: Path, **options: Any) -> None:
        call_command("migrate", verbosity=0)
        call_command("import_orders", data=data, stdout=self.stdout)
        with serving() as address:
            environ = {**os.environ, "WAREHOUSE_URL": address, "SALES_EVERY": SALES_EVERY}
            self._work_off(environ)
            self._fire_summary(environ)
            self._work_off(environ)
        self._show_sales()
        self._report()

    def _work_off(self, environ: dict[str, str]) -> None:
        """Run workers until no job and no event is left."""
        while Job.objects.exists():
            self._wait_until_ready()
            self._drain(environ)

    def _wait_until_ready(self) -> None:
        """Wait while every job is one that a stopped worker still holds, or that is due later."""
        shown = ""
        while (reason := waiting_for()) is not None:
            if reason != shown:
                self.stdout.write(reason)
                self.stdout.flush()
                shown = reason
            time.sleep(LOOK_AGAIN_S)

    def _drain(self, environ: dict[str, str]) -> None:
        """Run a worker until nothing is ready. Ctrl-C ends both, the worker in its own time."""
        with self._process("alkstore_worker", "--drain", environ=environ) as worker:
            code = worker.wait()
        if code != 0:
            raise CommandError(f"the worker ended with code {code}; run the demo again to go on")

    def _fire_summary(self, environ: dict[str, str]) -> None:
        """Let the schedules run until the summary's next boundary has been fired."""
        with self._process("alkstore_schedules", environ=environ) as runner:
            until = time.monotonic() + PATIENCE_S
            while not Job.objects.filter(queue=summaries.name).exists():
                if runner.poll() is not None or time.monotonic() > until:
                    raise CommandError("the schedule of the summary was not fired")
                time.sleep(LOOK_AGAIN_S)
            runner.terminate()
        call_command("alkstore_schedules", register_only=True, verbosity=0)  # as often as usual

    @contextmanager
    def _process(self, *command: str, environ: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
        """Run a command of the project within the block; it never outlives it."""
        self.stdout.flush()
        arguments = [sys.executable, settings.BASE_DIR / "manage.py", *command]
        with subprocess.Popen(arguments, env=environ) as process:
            try:
                yield process
            except KeyboardInterrupt:
                raise CommandError("stopped; run the demo again to go on") from None
            finally:
                if process.poll() is None:
                    process.terminate()

    def _show_sales(self) -> None:
        """Print the sales per country, and write the page with the chart."""
        page = settings.VAR_DIR / "sales.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(sales_page(), encoding="utf-8")
        rows = list(CountrySales.objects.all())
        most = max((row.goods for row in rows), default=Decimal(1))
        for row in rows:
            bar = "\N{FULL BLOCK}" * max(round(BAR_WIDTH * row.goods / most), 1)
            self.stdout.write(
                f"{row.country:<12} {row.orders:>4} {to_cents(row.goods):>12,}  {bar}"
            )
        total = to_cents(sum((row.goods for row in rows), Decimal()))
        self.stdout.write(f"{len(rows)} countries, goods {total:,}; the chart: {page}")

    def _report(self) -> None:
        """Print where the invoices are and, last, the sums; then complain if they are wrong."""
        orders, made, events = (model.objects.count() for model in (Order, Invoice, Shipment))
        goods, freight = add_up("goods"), add_up("freight")
        pending, dead = Job.objects.count(), DeadJob.objects.count()
        self.stdout.write(
            "see the invoices: manage.py runserver, then http://127.0.0.1:8000/invoices/10248/"
        )
        self.stdout.write(
            f"orders={orders} invoices={made} events={events} goods={to_cents(goods)}"
            f" freight={to_cents(freight)} pending={pending} dead={dead}"
        )
        if dead:
            error = DeadJob.objects.latest("id").last_error
            raise CommandError(f"{dead} jobs are dead, the last with: {error}")
        if (made, events) != (orders, orders):
            raise CommandError(f"{orders} orders have {made} invoices and {events} events")
        if goods != goods_sum(OrderLine.objects.all()):
            raise CommandError("the goods of the invoices are not those of the order lines")
        if goods != sum(CountrySales.objects.values_list("goods", flat=True), Decimal()):
            raise CommandError("the sales per country are not those of the invoices")


def waiting_for() -> str | None:
    """What keeps all jobs waiting; None if one is ready, or none is there."""
    now = timezone.now()
    ready = Q(state="pending", run_at__lte=now) | Q(state="processing", deadline__lte=now)
    if Job.objects.filter(ready).exists():
        return None
    if claims := Job.objects.filter(state="processing").count():
        return f"waiting for {claims} claims of a stopped worker to lapse"
    if later := Job.objects.count():
        return f"waiting for {later} jobs that are due later"
    return None


def add_up(amount: str) -> Decimal:
    """The exact sum of one amount over all invoices; SQLite itself would add floats."""
    return sum(Invoice.objects.values_list(amount, flat=True), Decimal())
