"""The whole demo on the real orders, and what a kill -9 in its middle leaves to a rerun."""

import os
import signal
import subprocess
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

import psutil
import pytest

from tests.example.shops import PROJECT, TIMEOUT_S, Data, Shop
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow

LAST_LINE = "orders=830 invoices=830 events=830 goods=1265793.04 freight=64942.69 pending=0 dead=0"


def kill_tree(demo: subprocess.Popen[str]) -> None:
    """Kill the demo and its worker, as a machine that loses its power does."""
    processes = [psutil.Process(demo.pid), *psutil.Process(demo.pid).children(recursive=True)]
    for process in processes:
        process.kill()
    demo.wait(TIMEOUT_S)


def kill_worker(demo: subprocess.Popen[str]) -> None:
    """Kill the worker alone: the demo says so and ends."""
    (worker,) = (
        child
        for child in psutil.Process(demo.pid).children()
        if "alkstore_worker" in child.cmdline()
    )
    os.kill(worker.pid, signal.SIGKILL)
    assert demo.wait(TIMEOUT_S) == 1


def test_the_claims_of_a_stopped_worker_are_waited_for(postgres_shop: Shop, data: Data) -> None:
    """Issue 2: what a killed worker held is done once its claims lapse, and one can see it."""
    shop = postgres_shop
    shop.succeed("migrate", "-v0")
    shop.succeed("import_orders", "--data", str(data.folder))
    claim = "from shop.queues import invoices; invoices.claim_batch('killed', 2)"
    shop.succeed("shell", "-v0", "-c", claim)
    lines = shop.succeed("demo", "--data", str(data.folder))
    assert "waiting for 2 claims of a stopped worker to lapse" in lines
    assert lines[-1].startswith("orders=2 invoices=2 ")
    assert lines[-1].endswith(" pending=0 dead=0")


def test_a_kill_in_the_middle_costs_nothing(sqlite_shop: Shop) -> None:
    """Issues 2 and 4: after a kill -9 of all in the middle, a rerun ends with the sums known from
    outside."""
    shop = sqlite_shop
    demo = shop.start("demo", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    eventually(lambda: shop.count("shop_invoice") >= 100, within_s=TIMEOUT_S)
    kill_tree(demo)
    assert 100 <= shop.count("shop_invoice") < 830
    assert shop.succeed("demo")[-1] == LAST_LINE
    assert shop.count(shop.job_table) == 0
    assert shop.rows("SELECT sum(quantity) FROM shop_orderline")[0][0] == 51317


@pytest.mark.parametrize(
    ("shop", "table", "kill"),
    [
        ("sqlite", "shop_order", kill_tree),
        ("postgres", "shop_invoice", kill_worker),
        ("postgres", "shop_invoice", kill_tree),
    ],
    ids=["importing", "worker", "all"],
    indirect=["shop"],
)
def test_a_kill_in_the_middle_of_one_part(shop: Shop, table: str, kill, some_orders: Data) -> None:  # type: ignore[no-untyped-def]
    """Issue 2: of the import, or of the worker alone; a rerun ends with the sums of the files."""
    options = ("--data", str(some_orders.folder))
    demo = shop.start("demo", *options, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    eventually(lambda: shop.count(table) >= 30, within_s=TIMEOUT_S)
    kill(demo)
    assert 30 <= shop.count(table) < SOME
    assert shop.succeed("demo", *options)[-1] == sums_of(some_orders.folder)
    assert shop.count(shop.job_table) == 0


SOME = 150


@pytest.fixture
def some_orders(data: Data) -> Data:
    """The real files, but of the orders only the first."""
    northwind = PROJECT / "data" / "northwind"
    kept = range(10248, 10248 + SOME)
    for file in northwind.glob("*.csv"):
        header, *lines = file.read_text(encoding="utf-8").splitlines()
        if header.startswith("orderID"):
            lines = [line for line in lines if int(line.split(",")[0]) in kept]
        data.write(file.name, "\n".join([header, *lines]) + "\n")
    return data


def sums_of(folder: Path) -> str:
    """Return the demo's last line, reckoned from the files themselves."""
    lines = (folder / "order-details.csv").read_text(encoding="utf-8").splitlines()[1:]
    goods = Decimal()
    for _, _, price, quantity, discount in (line.split(",") for line in lines):
        goods += Decimal(price) * int(quantity) * (1 - Decimal(discount))
    orders = (folder / "orders.csv").read_text(encoding="utf-8").splitlines()[1:]
    freight = sum(Decimal(order.split(",")[7]) for order in orders)
    cents = goods.quantize(Decimal("0.01"), rounding=ROUND_HALF_UP)
    return (
        f"orders={SOME} invoices={SOME} events={SOME} goods={cents} freight={freight}"
        " pending=0 dead=0"
    )
