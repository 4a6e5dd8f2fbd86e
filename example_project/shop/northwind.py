"""Reads the Northwind CSV files into orders, checked to the last value. No Django in here.

A value that the shop could not keep exactly is refused, with the file, the row (the header
is row 1), the field and the value; ``NULL`` means no value. The files have one quirk: an
address with a comma stands there without quotes (``24, place Kléber``), one value too many.
"""

import csv
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TypeVar

CUSTOMER_FIELDS = (
    "customerID", "companyName", "contactName", "address", "city", "region", "postalCode",
    "country",
)  # fmt: skip
PRODUCT_FIELDS = ("productID", "productName")
ORDER_FIELDS = (
    "orderID", "customerID", "orderDate", "shippedDate", "freight", "shipName", "shipAddress",
    "shipCity", "shipRegion", "shipPostalCode", "shipCountry",
)  # fmt: skip
LINE_FIELDS = ("orderID", "productID", "unitPrice", "quantity", "discount")

MAX_TEXT = 200
MAX_NUMBER = 2_147_483_647
MAX_QUANTITY = 32_767
MAX_AMOUNT = Decimal("999999.99")

Key = TypeVar("Key")
Built = TypeVar("Built")


class NorthwindError(ValueError):
    """A file cannot be read; the message tells where and why."""


@dataclass(frozen=True)
class CustomerData:
    code: str
    company: str
    contact: str
    address: str
    city: str
    region: str
    postal_code: str
    country: str


@dataclass(frozen=True)
class ProductData:
    number: int
    name: str


@dataclass(frozen=True)
class LineData:
    product: ProductData
    unit_price: Decimal
    quantity: int
    discount: Decimal


@dataclass(frozen=True)
class OrderData:
    number: int
    customer: CustomerData
    ordered_on: date
    shipped_on: date | None
    freight: Decimal
    ship_name: str
    ship_address: str
    ship_city: str
    ship_region: str
    ship_postal_code: str
    ship_country: str
    lines: list[LineData] = field(default_factory=list)


def read_orders(folder: Path) -> list[OrderData]:
    """Read all orders with their customers, products and lines, as they follow in the file.

    Raises:
        NorthwindError: a file is missing or unreadable, or a value is not what it should be.
    """
    customer_rows = _rows(folder / "customers.csv", CUSTOMER_FIELDS, address="address")
    product_rows = _rows(folder / "products.csv", PRODUCT_FIELDS)
    order_rows = _rows(folder / "orders.csv", ORDER_FIELDS, address="shipAddress")
    line_rows = _rows(folder / "order-details.csv", LINE_FIELDS)

    customers = _keyed(customer_rows, "customerID", Row.text, _customer)
    products = _keyed(product_rows, "productID", Row.number, _product)
    orders = _keyed(order_rows, "orderID", Row.number, lambda row: _order(row, customers))
    _add_lines(line_rows, orders, products)
    return list(orders.values())


class Row:
    """One row of a file; every reader below names file, row, field and value when it refuses."""

    def __init__(self, file: str, number: int, values: dict[str, str]) -> None:
        self.file = file
        self.row = number
        self.values = values

    def error(self, field: str, rule: str) -> NorthwindError:
        return NorthwindError(
            f"{self.file}, row {self.row}: {field} {rule}, got {self.values[field]!r}"
        )

    def optional_text(self, field: str) -> str:
        value = self.values[field]
        if len(value) > MAX_TEXT or "\0" in value:
            raise self.error(field, f"must have at most {MAX_TEXT} characters and no NUL")
        return "" if value == "NULL" else value

    def text(self, field: str) -> str:
        value = self.optional_text(field)
        if not value:
            raise self.error(field, "must have a value")
        return value

    def number(self, field: str, most: int = MAX_NUMBER) -> int:
        value = self.values[field]
        if not re.fullmatch("[0-9]{1,10}", value) or not 1 <= int(value) <= most:
            raise self.error(field, f"must be a whole number from 1 to {most}")
        return int(value)

    def amount(self, field: str, most: Decimal = MAX_AMOUNT) -> Decimal:
        value = self.values[field]
        if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", value):
            amount = Decimal(value)
            if amount <= most and amount == round(amount, 2):
                return amount
        raise self.error(field, f"must be a number from 0 to {most} with at most 2 decimals")

    def day(self, field: str) -> date:
        try:
            return datetime.fromisoformat(self.values[field]).date()
        except ValueError:
            raise self.error(field, "must be a date like 1996-07-04") from None

    def optional_day(self, field: str) -> date | None:
        return None if self.values[field] == "NULL" else self.day(field)

    def lookup(self, field: str, key: Key, known: dict[Key, Built]) -> Built:
        try:
            return known[key]
        except KeyError:
            raise self.error(field, "must be known") from None


def _rows(path: Path, fields: tuple[str, ...], *, address: str | None = None) -> Iterator[Row]:
    """The rows of a file that has all of the fields in its header, each as long as the header."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            header = next(reader, [])
            missing = [name for name in fields if name not in header]
            if missing:
                raise NorthwindError(
                    f"{path.name}, row 1: the column {missing[0]} is missing, got {header!r}"
                )
            for number, values in enumerate(reader, start=2):
                if address and len(values) > len(header):
                    values = _with_whole_address(
                        values, header.index(address), len(values) - len(header)
                    )
                if len(values) != len(header):
                    raise NorthwindError(
                        f"{path.name}, row {number}: must have {len(header)} values"
                        f" like the header, got {values!r}"
                    )
                yield Row(path.name, number, dict(zip(header, values, strict=True)))
    except OSError as error:
        raise NorthwindError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise NorthwindError(
            f"{path} is not UTF-8: byte {error.object[error.start]:#04x}"
        ) from error
    except csv.Error as error:
        raise NorthwindError(f"{path.name}, line {reader.line_num}: {error}") from error


def _with_whole_address(values: list[str], start: int, surplus: int) -> list[str]:
    """Join the address with the parts that its commas cut off; each begins with a space."""
    end = start + 1 + surplus
    if not all(part.startswith(" ") for part in values[start + 1 : end]):
        return values
    return [*values[:start], ",".join(values[start:end]), *values[end:]]


def _keyed(
    rows: Iterable[Row],
    field: str,
    key_of: Callable[[Row, str], Key],
    build: Callable[[Row], Built],
) -> dict[Key, Built]:
    """What is built of each row, by its key, which no two rows may share."""
    built: dict[Key, Built] = {}
    for row in rows:
        key = key_of(row, field)
        if key in built:
            raise row.error(field, "must not appear twice")
        built[key] = build(row)
    return built


def _customer(row: Row) -> CustomerData:
    return CustomerData(
        code=row.text("customerID"),
        company=row.text("companyName"),
        contact=row.optional_text("contactName"),
        address=row.optional_text("address"),
        city=row.optional_text("city"),
        region=row.optional_text("region"),
        postal_code=row.optional_text("postalCode"),
        country=row.optional_text("country"),
    )


def _product(row: Row) -> ProductData:
    return ProductData(number=row.number("productID"), name=row.text("productName"))


def _order(row: Row, customers: dict[str, CustomerData]) -> OrderData:
    return OrderData(
        number=row.number("orderID"),
        customer=row.lookup("customerID", row.text("customerID"), customers),
        ordered_on=row.day("orderDate"),
        shipped_on=row.optional_day("shippedDate"),
        freight=row.amount("freight"),
        ship_name=row.optional_text("shipName"),
        ship_address=row.optional_text("shipAddress"),
        ship_city=row.optional_text("shipCity"),
        ship_region=row.optional_text("shipRegion"),
        ship_postal_code=row.optional_text("shipPostalCode"),
        ship_country=row.optional_text("shipCountry"),
    )


def _add_lines(
    rows: Iterable[Row], orders: dict[int, OrderData], products: dict[int, ProductData]
) -> None:
    seen: set[tuple[int, int]] = set()
    for row in rows:
        order = row.lookup("orderID", row.number("orderID"), orders)
        product = row.lookup("productID", row.number("productID"), products)
        if (order.number, product.number) in seen:
            raise row.error("productID", f"must not appear twice in order {order.number}")
        seen.add((order.number, product.number))
        order.lines.append(_line(row, product))


def _line(row: Row, product: ProductData) -> LineData:
    return LineData(
        product=product,
        unit_price=row.amount("unitPrice"),
        quantity=row.number("quantity", most=MAX_QUANTITY),
        discount=row.amount("discount", most=Decimal(1)),
    )
