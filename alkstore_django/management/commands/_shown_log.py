"""Where the log of a command that runs on and on is seen."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import TextIO


@contextlib.contextmanager
def shown_log(stream: TextIO, verbosity: int) -> Iterator[None]:
    """Show the package's log on a stream, unless the project has its own arrangements."""
    logger = logging.getLogger("alkstore_django")
    if logger.hasHandlers():
        yield
        return
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel({0: logging.ERROR, 1: logging.INFO}.get(verbosity, logging.DEBUG))
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
