"""Real processes, real time. Everything here is marked slow."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from alkstore_django import Queue
from tests.concurrency import serve
from tests.support.processes import Child, started_python
from tests.testapp.models import Note

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the folder's tests as slow."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.slow)


@pytest.fixture
def queues(alias: str) -> dict[str, Queue]:
    """The queues that the worker processes serve, as seen from the test."""
    return {name: Queue(name, using=alias, **serve.OPTIONS.get(name, {})) for name in serve.NAMES}


@pytest.fixture
def start_worker(alias: str) -> Callable[..., AbstractContextManager[Child]]:
    """Start ``alkstore_worker`` as a process of its own, with these options."""

    def start(*options: str, **more: Any) -> AbstractContextManager[Child]:
        return started_python(["-m", "tests.concurrency.serve", alias, *options], **more)

    return start


@pytest.fixture
def notes(alias: str) -> Callable[..., list[str]]:
    """Read the notes that handlers have written, those that start so, sorted."""

    def read(start: str = "") -> list[str]:
        texts = Note.objects.using(alias).filter(text__startswith=start)
        return sorted(texts.values_list("text", flat=True))

    return read
