"""Wait for raw wakes: say for each at what instant it was noticed. Nothing is claimed."""

import os
import select
import sys
import time

from ..environ import POSTGRES_VARIABLE
from .speech import say


def main(alias: str) -> None:
    {"postgres": listen, "sqlite": watch}[alias]()


def listen() -> None:
    """LISTEN, and wait on the socket itself."""
    import psycopg

    from ..raw.postgres import CHANNEL

    with psycopg.connect(os.environ[POSTGRES_VARIABLE], autocommit=True) as connection:
        connection.execute(f"LISTEN {CHANNEL}")
        say("ready")
        while True:
            ready = select.select([connection.fileno(), sys.stdin], [], [])[0]
            if sys.stdin in ready:
                return
            connection.pgconn.consume_input()
            while connection.pgconn.notifies():
                say(time.monotonic())


def watch() -> None:
    """Read ``data_version`` as often as the package's watcher does without inotify."""
    from alkstore_django.engines.sqlite.wake import BUSY_POLL_S, BUSY_SPAN_S, IDLE_POLL_S

    from ..raw.sqlite import connect, raw_file

    connection = connect(raw_file())

    def version() -> int:
        return int(connection.execute("PRAGMA data_version").fetchone()[0])

    seen = version()
    busy_until = time.monotonic() + BUSY_SPAN_S
    say("ready")
    while True:
        pause = BUSY_POLL_S if time.monotonic() < busy_until else IDLE_POLL_S
        if select.select([sys.stdin], [], [], pause)[0]:
            return
        if (now_seen := version()) != seen:
            say(time.monotonic())
            seen = now_seen
            busy_until = time.monotonic() + BUSY_SPAN_S


if __name__ == "__main__":
    main(sys.argv[1])
