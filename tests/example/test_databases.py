"""ENGINE and DATABASE_URL choose the database, or say what is wrong."""

from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from project.databases import database, from_url


def test_sqlite_is_the_default_and_ready_for_several_writers(tmp_path: Path) -> None:
    """WAL, IMMEDIATE and a busy timeout, as the package's check asks for."""
    entry = database(tmp_path / "var", {})
    assert entry["NAME"] == tmp_path / "var" / "shop.sqlite3"
    assert entry["OPTIONS"]["transaction_mode"] == "IMMEDIATE"
    assert entry["OPTIONS"]["timeout"] == 20
    assert "journal_mode=WAL" in entry["OPTIONS"]["init_command"]


def test_an_unknown_engine_is_refused(tmp_path: Path) -> None:
    """The message names both engines and what was given."""
    with pytest.raises(
        ImproperlyConfigured, match="ENGINE must be 'sqlite' or 'postgres', got 'mysql'"
    ):
        database(tmp_path, {"ENGINE": "mysql"})


def test_a_url_is_percent_decoded(tmp_path: Path) -> None:
    """Every part may hold any character."""
    url = "postgresql://sh%40p:p%3Aw%2F%25@db.example:5433/my%20shop?sslmode=require"
    assert database(tmp_path, {"ENGINE": "postgres", "DATABASE_URL": url}) == {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": "my shop",
        "USER": "sh@p",
        "PASSWORD": "p:w/%",
        "HOST": "db.example",
        "PORT": "5433",
        "OPTIONS": {"sslmode": "require"},
    }


@pytest.mark.parametrize(
    ("url", "host", "port"),
    [
        ("postgres:///shop", "", ""),
        ("postgres:///shop?host=/run/Pg&port=5433", "/run/Pg", "5433"),
        ("postgres://me@%2Frun%2FPg/shop", "/run/Pg", ""),
        ("postgres://me@[::1]:5433/shop", "::1", "5433"),
    ],
)
def test_a_url_may_name_a_socket_or_an_address(url: str, host: str, port: str) -> None:
    """A socket's folder keeps its capitals, an IPv6 address loses its brackets."""
    entry = from_url(url)
    assert (entry["HOST"], entry["PORT"], entry["NAME"]) == (host, port, "shop")


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("mysql://me:secret@db/shop", "scheme"),
        ("postgres://me:secret@db", "names no database"),
        ("postgres://me:secret@db:54x/shop", "port"),
        ("postgres://me:secret@[::1/shop", "DATABASE_URL cannot be used"),
        ("postgres://me:secret@db/shop?sslmode", "DATABASE_URL cannot be used"),
    ],
)
def test_a_bad_url_is_refused_and_keeps_its_password(url: str, reason: str) -> None:
    """The message says what is wrong with it and does not repeat it."""
    with pytest.raises(ImproperlyConfigured, match=reason) as refused:
        from_url(url)
    assert "secret" not in str(refused.value)
