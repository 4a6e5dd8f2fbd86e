"""Hold a snapshot of the database until told to go."""

import sys

import django
from django.db import connections, transaction

from .speech import say, wait_for_line


def main(alias: str) -> None:
    django.setup()
    connection = connections[alias]
    if alias == "sqlite":  # a reader, not a writer: no IMMEDIATE
        connection.ensure_connection()
        connection.connection.execute("BEGIN")
        connection.connection.execute("SELECT count(*) FROM note").fetchall()
        say("holding")
        wait_for_line()
        connection.connection.execute("ROLLBACK")
        return
    with transaction.atomic(using=alias), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        cursor.execute("SELECT count(*) FROM note")
        say("holding")
        wait_for_line()


if __name__ == "__main__":
    main(sys.argv[1])
