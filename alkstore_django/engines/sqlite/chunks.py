"""Many payloads in a few statements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

MANY_ROWS = 500


def one_parameter_each(statement: str, payloads: Sequence[bytes]) -> tuple[str, dict[str, Any]]:
    """Return a statement with one parameter per payload in place of its mark, and these.

    SQLite has no array parameters.
    """
    names = [f"payload_{place}" for place in range(len(payloads))]
    marks = "), (".join(f"%({name})s" for name in names)
    return statement.replace("%(payloads)s", marks), dict(zip(names, payloads, strict=True))
