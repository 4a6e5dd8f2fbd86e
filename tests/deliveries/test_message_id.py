"""The id that a receiver deduplicates by: 5.2."""

import dataclasses
import datetime as dt

import pytest

from alkstore_django.deliveries.events import message_id
from tests.deliveries.conftest import ENQUEUED_AT, Event


def test_same_at_every_delivery():
    """5.2 Every delivery of one event carries the same id, whatever the attempt."""
    assert message_id(Event(attempts=1)) == message_id(Event(attempts=9))
    assert message_id(Event()).startswith("evt_7_")


@pytest.mark.parametrize(
    "other",
    [
        {"id": 8},
        {"outbox": "event"},
        {"payload_bytes": b"{}"},
        {"enqueued_at": ENQUEUED_AT + dt.timedelta(seconds=1)},
    ],
    ids=str,
)
def test_differs_from_that_of_any_other_event(other):
    """5.2 Rows of two stores with one number are two events."""
    assert message_id(Event()) != message_id(dataclasses.replace(Event(), **other))


def test_source_tells_stores_apart():
    """5.2 With a source, even twins in two stores are two events; nothing runs together."""
    ids = {message_id(Event(outbox=o), s) for s, o in [("", "ab"), ("a", "b"), ("ab", "")]}
    assert len(ids) == 3


@pytest.mark.parametrize("outbox", ["ä.b c\n", "\u2028", "*" * 200])
def test_fits_into_headers_and_signatures(outbox):
    """No name of an outbox makes an id that a header or a signature could not carry."""
    found = message_id(Event(outbox=outbox, id=2**63 - 1), "\udcff")
    assert found.isascii() and found.replace("_", "").isalnum() and len(found) <= 64
