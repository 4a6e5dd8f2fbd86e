"""Transactions for tests."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import transaction


@contextmanager
def rolled_back(alias: str) -> Iterator[None]:
    """Run the block in a transaction (inside one: a savepoint) that is undone at its end."""
    with transaction.atomic(using=alias):
        yield
        transaction.set_rollback(True, using=alias)
