"""Waiting in real time: for tests/concurrency, and for processes."""

import time
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")

LOOK_AGAIN_S = 0.01


def eventually(predicate: Callable[[], Result], within_s: float = 20) -> Result:
    """Call ``predicate`` until what it returns is true, and return that; fail when time is over."""
    give_up_at = time.monotonic() + within_s
    while True:
        result = predicate()
        if result:
            return result
        if time.monotonic() > give_up_at:
            name = getattr(predicate, "__qualname__", repr(predicate))
            raise AssertionError(f"{name} was not true within {within_s} s: {result!r}")
        time.sleep(LOOK_AGAIN_S)
