"""Claims of one queue as plain Python over (priority, run_at, id): what segments promise."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from alkstore_django.core.frontier import Segment
from alkstore_django.core.records import JobRow


class Place(NamedTuple):
    """Where a ready job stands in its queue."""

    priority: int
    run_at: int
    id: int


def claim_order(place: Any) -> tuple[int, int, int]:
    """3.3: priority descending, then run_at, then id."""
    return -place.priority, place.run_at, place.id


def exact(places: Iterable[Any], n: int) -> list[Any]:
    """What a claim from the start takes."""
    return sorted(places, key=claim_order)[:n]


def covers(segment: Segment, place: Any) -> bool:
    """Whether a segment has a place in it."""
    if segment.low < segment.high:
        return bool(segment.low < place.priority < segment.high)
    position = (place.run_at, place.id)
    return place.priority == segment.low and position >= (segment.run_at, segment.id)


def ahead(places: Iterable[Any], segments: Sequence[Segment], n: int) -> list[Any]:
    """What a claim in the segments takes, in the order in which it finds it."""
    found: list[Any] = []
    for segment in segments:
        found += exact([place for place in places if covers(segment, place)], n)
    return found[:n]


def claimed_row(place: Place) -> JobRow:
    """A row as a claim returns it, of which only the place matters."""
    values = dict.fromkeys(JobRow._fields) | place._asdict()
    return JobRow(**values)  # type: ignore[arg-type]
