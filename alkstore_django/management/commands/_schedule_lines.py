"""What the commands print about schedules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...core.instants import as_datetime
from ...core.schedules import LedgerLine, Registered
from ...engines.base import Engine
from ...scheduling.declarations import prune, register_declared


def registering(engine: Engine, *, pruning: bool = False) -> Iterator[str]:
    """Register what is declared, and tell of each what was done; the work is in the telling."""
    counts = dict.fromkeys(Registered, 0)
    n_removed = 0
    for name, done in register_declared(engine):
        counts[done] += 1
        if done is not Registered.LEFT:
            yield f"Schedule {name!r} {done}"
    for name in prune(engine) if pruning else ():
        n_removed += 1
        yield f"Schedule {name!r} removed"
    told = " ".join(f"{done}={n}" for done, n in counts.items())
    yield f"Schedules declared: {told}" + (f" removed={n_removed}" if pruning else "")


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
    rows = [
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
