"""Deliveries against their real counterparts, over real sockets and so in real time: kept short."""

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.support.http_receiver import Receiver, http_receiver

ENQUEUED_AT = dt.datetime(2026, 11, 29, 12, 0, tzinfo=dt.UTC)


@dataclass(frozen=True)
class Event:
    """An event as a delivery sees it."""

    id: int = 7
    payload_bytes: bytes = b'{"order":7,"note":"tea for two"}'
    key: str | None = "customer-1"
    outbox: str = "events"
    enqueued_at: dt.datetime = ENQUEUED_AT
    attempts: int = 1


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """An HTTP server that takes all, unless told otherwise."""
    with http_receiver() as running:
        yield running
