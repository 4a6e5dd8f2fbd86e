"""Databases that nobody has migrated yet."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.admin_site import Visitor, forget_users, make_user
from tests.support.fresh import fresh_database


@pytest.fixture(params=["sqlite", "postgres"])
def fresh(
    request: pytest.FixtureRequest, django_db_setup: None, django_db_blocker: Any, tmp_path: Path
) -> Iterator[str]:
    """The alias of an empty database, one of each engine."""
    with django_db_blocker.unblock(), fresh_database(request.param, tmp_path) as using:
        yield using


@pytest.fixture
def root(alias: str) -> Iterator[Visitor]:
    """A superuser on the admin's site of the alias."""
    yield Visitor(alias, make_user("root", superuser=True))
    forget_users()


@pytest.fixture
def visitor(alias: str) -> Iterator[Callable[..., Visitor]]:
    """Make a member of the staff with some permissions: ``visitor("view_job")``."""
    yield lambda *permissions: Visitor(alias, make_user("staff", *permissions))
    forget_users()
