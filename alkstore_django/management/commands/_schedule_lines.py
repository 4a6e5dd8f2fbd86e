"""What the commands print about schedules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from django.core.management.base import CommandError

from ...core.instants import as_datetime
from ...core.schedules import LedgerLine, Registered
from ...engines.base import Engine
from ...exceptions import AlkstoreError
from ...scheduling.declarations import register_declared


def register_and_tell(engine: Engine, *, pruning: bool = False) -> list[str]:
    """Register what is declared; return what is to be said of it.

    Raises:
        CommandError: a schedule cannot be stored.
    """
    try:
        declared, gone = register_declared(engine, pruning=pruning)
    except AlkstoreError as error:
        raise CommandError(f"A declared schedule cannot be stored: {error}") from None
    lines = [f"Schedule {name!r} {done}" for name, done in declared if done != Registered.LEFT]
    lines += [f"Schedule {name!r} removed" for name in gone]
    counts = Counter(done for _, done in declared)
    told = " ".join(f"{done}={counts[done]}" for done in Registered)
    return [*lines, f"Schedules declared: {told}" + (f" removed={len(gone)}" if pruning else "")]


def listing(lines: Sequence[LedgerLine]) -> Iterator[str]:
    """A table of what is registered."""
    if not lines:
        yield "No schedules."
        return
    yield from _table(
        ("name", "spec", "queue", "next", "last", "lag"),
        [
            (
                line.name,
                line.spec,
                line.queue,
                _instant(line.next_boundary_at),
                _instant(line.last_boundary_at),
                f"{line.lag_s}s",
            )
            for line in lines
        ],
    )


def accounts(lines: Sequence[LedgerLine]) -> Iterator[str]:
    """A table of what became of each schedule's boundaries."""
    rows: list[Sequence[str]] = [
        (
            line.name,
            str(line.n_expected),
            str(line.n_fired),
            str(line.n_skipped),
            str(line.n_due),
            "ok" if line.adds_up else "WRONG",
        )
        for line in lines
    ]
    total = [str(sum(int(row[place]) for row in rows)) for place in range(1, 5)]
    wrong = sum(not line.adds_up for line in lines)
    rows.append(("total", *total, "ok" if not wrong else "WRONG"))
    yield from _table(("name", "expected", "fired", "skipped", "due", ""), rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[place]) for row in (head, *rows)) for place in range(len(head))]
    for row in (head, *rows):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()


def _instant(seconds: int | None) -> str:
    return "-" if seconds is None else as_datetime(seconds).strftime("%Y-%m-%d %H:%M:%SZ")
