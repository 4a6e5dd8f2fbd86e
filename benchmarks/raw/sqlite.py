"""The bare statements on SQLite, through ``sqlite3``, in a file beside the package's."""

import os
import sqlite3
from collections.abc import Sequence
from typing import Any

from alkstore_django.engines.sqlite.chunks import MANY_ROWS

from ..environ import SQLITE_VARIABLE
from .base import BATCH, CLAIMED, COLUMNS, QUEUE, RawStore, chunks, job_values

TABLE = "__alkstore_job"
NOW = "CAST(strftime('%s', 'now') AS INTEGER)"

SHAPES = f"SELECT sql FROM sqlite_master WHERE tbl_name IN ('note', '{TABLE}') AND sql IS NOT NULL"
INSERT_NOTE = "INSERT INTO note (text) VALUES (?) RETURNING id"
INSERT_JOB = f"""
INSERT INTO {TABLE} ({COLUMNS}, payload) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id
"""
INSERT_JOBS = f"""
INSERT INTO {TABLE} ({COLUMNS}, payload)
SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, column1 FROM (VALUES {{marks}})
RETURNING id
"""
CLAIM = f"""
UPDATE {TABLE} SET {CLAIMED.format(now=NOW)}
 WHERE id IN (SELECT id FROM {TABLE}
               WHERE queue = ? AND state = 'pending' AND run_at <= {NOW}
               ORDER BY priority DESC, run_at, id
               LIMIT {BATCH})
RETURNING id, payload
"""
DELETE = f"DELETE FROM {TABLE} WHERE id IN ({{marks}})"


def raw_file() -> str:
    """Return the file of the raw store: another one, so that its commits wake no worker."""
    return os.environ[SQLITE_VARIABLE].replace("package", "raw")


def connect(file: str) -> sqlite3.Connection:
    """Open a file in the way that the package's documents recommend."""
    connection = sqlite3.connect(file, timeout=20, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")
    return connection


class RawSQLite(RawStore):
    def __init__(self) -> None:
        self._connection = connect(raw_file())

    def create(self) -> None:
        package = connect(os.environ[SQLITE_VARIABLE])
        for (shape,) in package.execute(SHAPES).fetchall():
            self._connection.execute(shape)
        package.close()

    def enqueue_with_note(self, text: str, payload: bytes) -> None:
        self._run("BEGIN IMMEDIATE")
        self._run(INSERT_NOTE, [text]).fetchall()
        self._run(INSERT_JOB, [*job_values(), payload]).fetchall()
        self._run("COMMIT")

    def enqueue_many(self, payloads: Sequence[bytes]) -> None:
        self._run("BEGIN IMMEDIATE")
        for chunk in chunks(payloads, MANY_ROWS):
            marks = ", ".join(["(?)"] * len(chunk))
            self._run(INSERT_JOBS.format(marks=marks), [*job_values(), *chunk]).fetchall()
        self._run("COMMIT")

    def drain(self) -> int:
        done = 0
        while claimed := self._run(CLAIM, [QUEUE]).fetchall():
            marks = ", ".join("?" * len(claimed))
            done += self._run(DELETE.format(marks=marks), [row[0] for row in claimed]).rowcount
        return done

    def wake(self) -> None:
        """Nothing: the commit itself is the wake."""

    def count(self) -> int:
        return int(self._run(f"SELECT count(*) FROM {TABLE}").fetchall()[0][0])

    def empty(self) -> None:
        self._run(f"DELETE FROM {TABLE}")
        self._run("DELETE FROM note")
        self._run("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def close(self) -> None:
        self._connection.close()

    def _run(self, statement: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        return self._connection.execute(statement, values)
