"""The shop on small data, in real processes."""

import pytest

from tests.example.shops import Data, Shop

LAST_LINE = "orders=2 invoices=2 events=2 goods=176.42 freight=43.99 pending=0 dead=0"
FIND_PAGES = """
from django.test import Client
client = Client(SERVER_NAME="localhost")
for path in ("/invoices/", "/invoices/1/", "/invoices/2/", "/invoices/3/"):
    response = client.get(path)
    print(path, response.status_code, response.content.decode().replace("\\n", " "))
"""

POST_TWICE = """
import datetime as dt, json
from django.conf import settings
from django.test import Client
from standardwebhooks import Webhook
body = json.dumps({"order": 1, "customer": "ALFKI", "pieces": 13})
now = dt.datetime.now(dt.UTC)
signature = Webhook(settings.WEBHOOK_SECRET).sign("evt_1", now, body)
signed = {
    "webhook-id": "evt_1",
    "webhook-timestamp": str(int(now.timestamp())),
    "webhook-signature": signature,
}
post = lambda body, headers: Client(SERVER_NAME="localhost").post(
    "/warehouse/events/", body, content_type="application/json", headers=headers
)
print(post(body, signed).status_code)
print(post(body, signed).status_code)
print(post(body.replace("13", "99"), signed).status_code)
print(post(body, {}).status_code)
print(Client(SERVER_NAME="localhost").get("/warehouse/events/").status_code)
"""


def pages(shop: Shop) -> dict[str, tuple[str, str]]:
    """The shop's pages: status and HTML by path."""
    lines = (line.split(" ", 2) for line in shop.succeed("shell", "-v0", "-c", FIND_PAGES))
    return {path: (status, html) for path, status, html in lines}


def check_sales(shop: Shop, told: list[str]) -> None:
    """Issue 4: a schedule has made the summary; its sum is the goods total, the page shows both."""
    assert "Schedule 'sales-summary' added" in told
    assert "2 countries, goods 176.42; the chart: " in "\n".join(told)
    assert any("sales-summary" in line for line in shop.succeed("alkstore_schedules", "--audit"))
    page = (shop.var / "sales.html").read_text(encoding="utf-8")
    assert page.count("<rect") == 2 and page.count("Germany") == 2
    assert "176.42" in page


def test_the_demo_ends_with_the_sums_and_runs_again(shop: Shop, data: Data) -> None:
    """Issue 2: the demo sets everything up, imports, drains and sums; a rerun doubles nothing."""
    first = shop.succeed("demo", "--data", str(data.folder))
    assert first[-1] == LAST_LINE
    check_sales(shop, first)
    assert "2 orders imported, 0 were there already" in first
    again = shop.succeed("demo", "--data", str(data.folder))
    assert again[-1] == LAST_LINE
    assert "0 orders imported, 2 were there already" in again


def test_an_import_that_runs_twice_enqueues_once(shop: Shop, data: Data) -> None:
    """Issue 2: import_orders can be run again without doubling anything: two jobs, two events."""
    shop.succeed("migrate", "-v0")
    for _ in range(2):
        shop.succeed("import_orders", "--data", str(data.folder))
    tables = (
        "shop_customer",
        "shop_product",
        "shop_order",
        "shop_orderline",
        "shop_invoice",
        shop.job_table,
    )
    assert [shop.count(table) for table in tables] == [2, 2, 2, 3, 0, 4]


@pytest.mark.parametrize(
    ("file", "old", "new", "told"),
    [
        (
            "orders.csv",
            "freight,",
            "fright,",
            "CommandError: orders.csv, row 1: the column freight is missing",
        ),
        (
            "orders.csv",
            "11.61",
            "eleven",
            "CommandError: orders.csv, row 3: freight must be a number",
        ),
        (
            "orders.csv",
            "2,BLONP",
            "2,NOONE",
            "CommandError: orders.csv, row 3: customerID must be known, got 'NOONE'",
        ),
    ],
)
def test_a_bad_file_imports_nothing(
    sqlite_shop: Shop, data: Data, file: str, old: str, new: str, told: str
) -> None:
    """The command fails with one line that tells where, before it comes to the database."""
    data.replace(file, old, new)
    done = sqlite_shop.run("import_orders", "--data", str(data.folder))
    assert done.returncode == 1
    assert told in done.stderr.splitlines()[-1]
    assert sqlite_shop.count("shop_order") == 0


def test_markup_in_the_data_stays_text(sqlite_shop: Shop, data: Data) -> None:
    """A customer's name is escaped on the stored page and on the list."""
    data.replace("customers.csv", "Alfreds Futterkiste", "<script>alert(1)</script>")
    data.replace("products.csv", "Queso Cabrales", "Queso & <b>Cabrales</b>")
    sqlite_shop.succeed("demo", "--data", str(data.folder))
    stored = sqlite_shop.rows("SELECT html FROM shop_invoice WHERE order_id = 1")[0][0]
    shown = pages(sqlite_shop)
    for html in (stored, shown["/invoices/"][1], shown["/invoices/1/"][1]):
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
        assert "<script" not in html
    assert "Queso &amp; &lt;b&gt;Cabrales&lt;/b&gt;" in stored


def test_the_pages_show_what_is_there(sqlite_shop: Shop, data: Data) -> None:
    """An order without its invoice says so; an unknown one is not found."""
    sqlite_shop.succeed("migrate", "-v0")
    sqlite_shop.succeed("import_orders", "--data", str(data.folder))
    before = pages(sqlite_shop)
    assert before["/invoices/"][0] == "200"
    assert before["/invoices/"][1].count("not made yet") == 2
    assert before["/invoices/1/"][0] == "404"
    assert "not been made yet" in before["/invoices/1/"][1]
    assert before["/invoices/3/"][0] == "404"
    sqlite_shop.succeed("alkstore_worker", "--drain")
    after = pages(sqlite_shop)
    assert "not made yet" not in after["/invoices/"][1]
    assert after["/invoices/1/"][0] == "200"
    assert "$ 208.75" in after["/invoices/1/"][1]


def test_an_event_that_is_delivered_again_ships_once(shop: Shop) -> None:
    """Issue 4: the receiver verifies the signature, and looks into the inbox."""
    shop.succeed("migrate", "-v0")
    assert shop.succeed("shell", "-v0", "-c", POST_TWICE) == ["204", "204", "401", "401", "405"]
    assert shop.count("warehouse_shipment") == 1


def test_a_dead_job_makes_the_demo_fail(postgres_shop: Shop, data: Data) -> None:
    """The last line tells the truth, and the exit code and the error with it."""
    shop = postgres_shop
    shop.succeed("migrate", "-v0")
    enqueue = "from shop.queues import invoices; invoices.enqueue({'order': 77})"
    shop.succeed("shell", "-v0", "-c", enqueue)
    done = shop.run("demo", "--data", str(data.folder))
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == LAST_LINE.replace("dead=0", "dead=1")
    assert "1 jobs are dead, the last with: there is no order 77" in done.stderr


def test_the_migrations_match_the_models(sqlite_shop: Shop) -> None:
    """No migration is missing, and nothing is left for the checks to warn of."""
    sqlite_shop.succeed("migrate", "-v0")
    sqlite_shop.succeed("makemigrations", "--check", "--dry-run")
    sqlite_shop.succeed("check", "--fail-level", "WARNING", "--database", "default")
