"""What system checks say of an alias on PostgreSQL, before any SQL and without the driver."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import Any

from django.core.checks import CheckMessage, Error


def messages(alias: str, settings: Mapping[str, Any]) -> Iterator[CheckMessage]:
    """E003: the driver is missing."""
    if find_spec("psycopg") is None:
        text = "The PostgreSQL engine needs psycopg 3."
        yield Error(text, hint='pip install "alkstore-django[postgres]"', id="alkstore.E003")
