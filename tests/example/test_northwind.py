"""The CSV files are read exactly or refused with file, row, field and value."""

from datetime import date
from decimal import Decimal

import pytest

from shop.invoicing import goods_sum
from shop.northwind import NorthwindError, read_orders
from tests.example.shops import PROJECT, Data


def test_the_published_files_add_up() -> None:
    """Issue 2: goods are 1,265,793.0395 and freight is 64,942.69, known from outside."""
    orders = read_orders(PROJECT / "data" / "northwind")
    assert len(orders) == 830
    assert sum(len(order.lines) for order in orders) == 2155
    assert sum(goods_sum(order.lines) for order in orders) == Decimal("1265793.0395")
    assert sum(order.freight for order in orders) == Decimal("64942.69")


def test_values_are_read_as_written(data: Data) -> None:
    """NULL is no value, an unquoted address keeps its comma, decimals stay exact."""
    first, second = read_orders(data.folder)
    assert (first.number, first.ordered_on, first.shipped_on) == (
        1,
        date(1996, 7, 4),
        date(1996, 7, 16),
    )
    assert second.shipped_on is None
    assert second.customer.contact == ""
    assert second.customer.region == ""
    assert second.customer.address == second.ship_address == "24, place Kléber"
    assert [line.product.name for line in first.lines] == [
        "Queso Cabrales",
        "Singaporean Hokkien Fried Mee",
    ]
    assert goods_sum(first.lines) == Decimal("176.3725")
    assert goods_sum(second.lines) == Decimal("0.0475")


def test_a_byte_order_mark_and_windows_line_ends_are_read(data: Data) -> None:
    """A file that went through a spreadsheet is still the same file."""
    whole = read_orders(data.folder)
    for path in data.folder.iterdir():
        text = path.read_text(encoding="utf-8")
        data.write(path.name, "\ufeff" + text.replace("\n", "\r\n"))
    assert read_orders(data.folder) == whole


@pytest.mark.parametrize(
    ("file", "old", "new", "told"),
    [
        ("orders.csv", "freight,", "fright,", "orders.csv, row 1: the column freight is missing"),
        ("orders.csv", "32.38", "abc", "orders.csv, row 2: freight .* got 'abc'"),
        ("orders.csv", "32.38", "NaN", "orders.csv, row 2: freight .* got 'NaN'"),
        ("orders.csv", "32.38", "1e3", "orders.csv, row 2: freight .* got '1e3'"),
        ("orders.csv", "32.38", "-1", "orders.csv, row 2: freight .* got '-1'"),
        (
            "orders.csv",
            "32.38",
            "32.385",
            "orders.csv, row 2: freight .* at most 2 decimals, got '32.385'",
        ),
        (
            "orders.csv",
            "32.38",
            "1000000",
            "orders.csv, row 2: freight .* to 999999.99 .* got '1000000'",
        ),
        ("orders.csv", "32.38", "٣٢", "orders.csv, row 2: freight .* got '٣٢'"),
        ("orders.csv", "32.38", "NULL", "orders.csv, row 2: freight .* got 'NULL'"),
        (
            "orders.csv",
            "1996-07-04",
            "1996-07-44",
            "orders.csv, row 2: orderDate .* got '1996-07-44",
        ),
        (
            "orders.csv",
            "2,BLONP",
            "2,NOONE",
            "orders.csv, row 3: customerID must be known, got 'NOONE'",
        ),
        (
            "orders.csv",
            "2,BLONP",
            "1,BLONP",
            "orders.csv, row 3: orderID must not appear twice, got '1'",
        ),
        (
            "orders.csv",
            "2,BLONP",
            "2147483648,BLONP",
            "orders.csv, row 3: orderID .* got '2147483648'",
        ),
        ("orders.csv", ",Germany", "", "orders.csv, row 2: must have 11 values"),
        ("orders.csv", "Obere Str. 57", "Obere Str.,57", "orders.csv, row 2: must have 11 values"),
        ("orders.csv", "Alfreds", '"Alfreds" x', "orders.csv, line 2: "),
        (
            "customers.csv",
            "BLONP",
            "ALFKI",
            "customers.csv, row 3: customerID must not appear twice, got 'ALFKI'",
        ),
        (
            "customers.csv",
            "Alfreds Futterkiste",
            "NULL",
            "customers.csv, row 2: companyName must have a value",
        ),
        (
            "customers.csv",
            "Alfreds Futterkiste",
            "x" * 201,
            "customers.csv, row 2: companyName .* at most 200",
        ),
        (
            "customers.csv",
            "Alfreds Futterkiste",
            "a\0b",
            "customers.csv, row 2: companyName .* no NUL",
        ),
        ("products.csv", "11,", "0,", "products.csv, row 2: productID .* got '0'"),
        (
            "order-details.csv",
            "1,42",
            "1,43",
            "order-details.csv, row 3: productID must be known, got '43'",
        ),
        (
            "order-details.csv",
            "2,11",
            "3,11",
            "order-details.csv, row 4: orderID must be known, got '3'",
        ),
        (
            "order-details.csv",
            "1,42",
            "1,11",
            "order-details.csv, row 3: productID must not appear twice in order 1",
        ),
        (
            "order-details.csv",
            ",12,",
            ",1.5,",
            "order-details.csv, row 2: quantity .* whole number .* got '1.5'",
        ),
        ("order-details.csv", ",12,", ",0,", "order-details.csv, row 2: quantity .* got '0'"),
        (
            "order-details.csv",
            "0.15",
            "1.01",
            "order-details.csv, row 3: discount .* from 0 to 1 .* got '1.01'",
        ),
    ],
)
def test_a_bad_value_is_refused_where_it_stands(
    data: Data, file: str, old: str, new: str, told: str
) -> None:
    """The message names the file, the row, the field and the value."""
    data.replace(file, old, new)
    with pytest.raises(NorthwindError, match=told):
        read_orders(data.folder)


@pytest.mark.parametrize(
    "file", ["customers.csv", "products.csv", "orders.csv", "order-details.csv"]
)
def test_a_missing_file_is_named(data: Data, file: str) -> None:
    """Nothing is taken for empty that is not there."""
    (data.folder / file).unlink()
    with pytest.raises(NorthwindError, match=f"{file} cannot be read: No such file"):
        read_orders(data.folder)


def test_a_file_in_another_encoding_is_refused(data: Data) -> None:
    """A name is never stored with its letters mangled."""
    (data.folder / "customers.csv").write_bytes(
        (data.folder / "customers.csv").read_text("utf-8").encode("latin-1")
    )
    with pytest.raises(NorthwindError, match=r"customers\.csv is not UTF-8"):
        read_orders(data.folder)


def test_an_empty_file_lacks_its_columns(data: Data) -> None:
    """No header is a missing header."""
    data.write("orders.csv", "")
    with pytest.raises(NorthwindError, match=r"orders\.csv, row 1: the column orderID is missing"):
        read_orders(data.folder)
