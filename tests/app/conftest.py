"""Databases that nobody has migrated yet."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.fresh import fresh_database


@pytest.fixture(params=["sqlite", "postgres"])
def fresh(
    request: pytest.FixtureRequest, django_db_setup: None, django_db_blocker: Any, tmp_path: Path
) -> Iterator[str]:
    """The alias of an empty database, one of each engine."""
    with django_db_blocker.unblock(), fresh_database(request.param, tmp_path) as using:
        yield using
