"""The example shop, run as a user runs it: ``manage.py`` in processes of its own."""

import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
from django.conf import settings

ROOT = Path(__file__).resolve().parents[2]
PROJECT = ROOT / "example_project"
TIMEOUT_S = 240

CUSTOMERS = """\
customerID,companyName,contactName,address,city,region,postalCode,country
ALFKI,Alfreds Futterkiste,Maria Anders,Obere Str. 57,Berlin,NULL,12209,Germany
BLONP,Blondel père et fils,NULL,24, place Kléber,Strasbourg,NULL,67000,France
"""
PRODUCTS = """\
productID,productName
11,Queso Cabrales
42,Singaporean Hokkien Fried Mee
"""
ORDERS = """\
orderID,customerID,orderDate,shippedDate,freight,\
shipName,shipAddress,shipCity,shipRegion,shipPostalCode,shipCountry
1,ALFKI,1996-07-04 00:00:00.000,1996-07-16 00:00:00.000,32.38,\
Alfreds,Obere Str. 57,Berlin,NULL,12209,Germany
2,BLONP,1996-07-05 00:00:00.000,NULL,11.61,\
Blondel,24, place Kléber,Strasbourg,NULL,67000,France
"""
LINES = """\
orderID,productID,unitPrice,quantity,discount
1,11,14.00,12,0
1,42,9.85,1,0.15
2,11,0.05,1,0.05
"""


class Data:
    """A folder with a small, sound set of files, to be spoilt by a test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.write("customers.csv", CUSTOMERS)
        self.write("products.csv", PRODUCTS)
        self.write("orders.csv", ORDERS)
        self.write("order-details.csv", LINES)

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, encoding="utf-8", newline="")

    def replace(self, name: str, old: str, new: str) -> None:
        text = (self.folder / name).read_text(encoding="utf-8")
        assert old in text
        self.write(name, text.replace(old, new))


class Shop:
    """One shop with a database of its own."""

    var: Path
    job_table: str

    def __init__(self, environ: dict[str, str]) -> None:
        self.environ = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PYTHONWARNINGS": "default",
            **environ,
        }
        self.environ.pop("DJANGO_SETTINGS_MODULE", None)

    def start(self, *command: str, **options: Any) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, PROJECT / "manage.py", *command],
            env=self.environ,
            text=True,
            **options,
        )

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run one command to its end; one that hangs fails the test."""
        return subprocess.run(
            [sys.executable, PROJECT / "manage.py", *command],
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )

    def succeed(self, *command: str) -> list[str]:
        """Run one command that must end well and warn of nothing, and return its lines."""
        done = self.run(*command)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "Warning" not in done.stderr, done.stderr
        return done.stdout.splitlines()

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        raise NotImplementedError

    def count(self, table: str) -> int:
        """How many rows a table has; none if it is not there yet."""
        try:
            return self.rows(f"SELECT count(*) FROM {table}")[0][0]
        except (sqlite3.OperationalError, psycopg.errors.UndefinedTable):
            return 0


class SqliteShop(Shop):
    job_table = "__alkstore_job"

    def __init__(self, var: Path) -> None:
        super().__init__({"ENGINE": "sqlite", "SHOP_VAR": str(var)})
        self.var = var
        self.file = var / "shop.sqlite3"

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        connection = sqlite3.connect(self.file.as_uri() + "?mode=ro", uri=True, timeout=20)
        try:
            return connection.execute(sql).fetchall()
        finally:
            connection.close()


class PostgresShop(Shop):
    job_table = "alkstore.job"

    def __init__(self, var: Path, url: str) -> None:
        super().__init__({"ENGINE": "postgres", "SHOP_VAR": str(var), "DATABASE_URL": url})
        self.var = var
        self.url = url

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url) as connection:
            return connection.execute(sql).fetchall()


def server_url(database: str) -> str:
    """A database of the test run's own PostgreSQL server."""
    server = settings.DATABASES["postgres"]
    user, password, host = (
        quote(str(server.get(key) or ""), safe="") for key in ("USER", "PASSWORD", "HOST")
    )
    port = f":{server['PORT']}" if server.get("PORT") else ""
    return f"postgresql://{user}:{password}@{host}{port}/{database}"
