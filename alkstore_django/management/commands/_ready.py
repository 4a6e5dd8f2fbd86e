"""What every command of ours asks before it begins."""

from __future__ import annotations

import random
from collections.abc import Callable

from django.core.management.base import CommandError, CommandParser
from django.db import Error, connections

from ...conf import default_alias
from ...core.stop import StopToken
from ...engines.base import Engine
from ...engines.registry import engine_for
from ...signals import announce, store_lost


def add_database(parser: CommandParser, what: str) -> None:
    """Add ``--database``, the alias that carries what a command is about."""
    parser.add_argument(
        "--database",
        metavar="ALIAS",
        help=f"the database alias that carries the {what}. Default: the only one that the "
        "setting ALKSTORE names, else 'default'",
    )


def engine_of(alias: str | None) -> Engine:
    """Return the engine of ``--database``, or of the default alias."""
    using = alias or default_alias()
    if using not in connections:
        raise CommandError(f"DATABASES has no alias {using!r}")
    return engine_for(using)


def check_tables(engine: Engine) -> None:
    """End the command with one line if the tables are missing."""
    if not engine.has_tables():
        raise CommandError(
            f"The tables of alkstore_django are missing on {engine.using!r}. Run: "
            f"manage.py migrate alkstore_django --database {engine.using}"
        )


def wait_until_ready(
    engine: Engine,
    stop: StopToken,
    sender: type,
    whom: str,
    then: Callable[[], object] = lambda: None,
) -> bool:
    """Wait for the database, then check it; return False if stopped meanwhile.

    Args:
        then: done once all is well; again if the database goes away under it.
        whom: what cannot run if the database is of the wrong kind: "worker", "scheduler".
    """
    reported = False
    while not stop.stopped:
        try:
            if fault := engine.worker_fault():
                raise CommandError(f"No {whom} can run on {engine.using!r}: {fault}.")
            check_tables(engine)
            then()
        except Error as error:
            if not engine.is_outage(error):
                raise
            if not reported:
                announce(store_lost, sender, using=engine.using, error=error)
            reported = True
            engine.drop_stale_connection()
            stop.wait(random.uniform(0.5, 2.0))
        else:
            return True
    return False
