"""``manage.py demo``: from nothing to all invoices, with a worker as a process of its own."""

import subprocess
import sys
import time
from argparse import ArgumentParser
from decimal import Decimal
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db.models import Q, QuerySet
from django.utils import timezone

from alkstore_django.models import DeadJob, Job
from shop.invoicing import goods_sum, to_cents
from shop.management.commands.import_orders import add_data_argument
from shop.models import Invoice, Order, OrderLine
from shop.queues import invoices

LOOK_AGAIN_S = 0.5


class Command(BaseCommand):
    help = "Migrates, imports the Northwind orders and makes their invoices. Can be run again."

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_data_argument(parser)

    def handle(self, *args: Any, data: Path, **options: Any) -> None:
        call_command("migrate", verbosity=0)
        call_command("import_orders", data=data, stdout=self.stdout)
        while live_jobs().exists():
            self._wait_until_ready()
            self._drain()
        self._report()

    def _wait_until_ready(self) -> None:
        """Wait while every job is one that a stopped worker still holds, or that is due later."""
        shown = ""
        while (reason := waiting_for()) is not None:
            if reason != shown:
                self.stdout.write(reason)
                self.stdout.flush()
                shown = reason
            time.sleep(LOOK_AGAIN_S)

    def _drain(self) -> None:
        """Run a worker until nothing is ready. Ctrl-C ends both, the worker in its own time."""
        self.stdout.flush()
        command = [sys.executable, settings.BASE_DIR / "manage.py", "alkstore_worker", "--drain"]
        with subprocess.Popen(command) as worker:
            try:
                code = worker.wait()
            except KeyboardInterrupt:
                worker.terminate()
                raise CommandError("stopped; run the demo again to go on") from None
        if code != 0:
            raise CommandError(f"the worker ended with code {code}; run the demo again to go on")

    def _report(self) -> None:
        """Print where the invoices are and, last, the sums; then complain if they are wrong."""
        orders, made = Order.objects.count(), Invoice.objects.count()
        goods, freight = add_up("goods"), add_up("freight")
        pending, dead = live_jobs().count(), dead_jobs().count()
        self.stdout.write(
            "see the invoices: manage.py runserver, then http://127.0.0.1:8000/invoices/10248/"
        )
        self.stdout.write(
            f"orders={orders} invoices={made} goods={to_cents(goods)} freight={to_cents(freight)}"
            f" pending={pending} dead={dead}"
        )
        if dead:
            raise CommandError(
                f"{dead} jobs are dead, the last with: {dead_jobs().latest('id').last_error}"
            )
        if made != orders:
            raise CommandError(f"{orders} orders have {made} invoices")
        if goods != goods_sum(OrderLine.objects.all()):
            raise CommandError("the goods of the invoices are not those of the order lines")


def live_jobs() -> QuerySet[Job]:
    """The jobs still to be done, claimed ones included."""
    return Job.objects.using("default").filter(queue=invoices.name)


def dead_jobs() -> QuerySet[DeadJob]:
    return DeadJob.objects.using("default").filter(queue=invoices.name)


def waiting_for() -> str | None:
    """What keeps all jobs waiting; None if one is ready, or none is there."""
    now = timezone.now()
    ready = Q(state="pending", run_at__lte=now) | Q(state="processing", deadline__lte=now)
    if live_jobs().filter(ready).exists():
        return None
    if claims := live_jobs().filter(state="processing").count():
        return f"waiting for {claims} claims of a stopped worker to lapse"
    if later := live_jobs().count():
        return f"waiting for {later} jobs that are due later"
    return None


def add_up(amount: str) -> Decimal:
    """The exact sum of one amount over all invoices; SQLite itself would add floats."""
    return sum(Invoice.objects.values_list(amount, flat=True), Decimal())
