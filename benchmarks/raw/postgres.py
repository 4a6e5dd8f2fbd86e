"""The bare statements on PostgreSQL, prepared, through ``psycopg.Cursor``."""

import os
from collections.abc import Sequence
from typing import Any

import psycopg

from alkstore_django.engines.postgres.chunks import MANY_ROWS

from ..environ import POSTGRES_SCHEMA, POSTGRES_VARIABLE
from .base import BATCH, CLAIMED, COLUMNS, QUEUE, RawStore, chunks, job_values

SCHEMA = f"{POSTGRES_SCHEMA}_raw"
CHANNEL = SCHEMA
NOW = "floor(extract(epoch FROM statement_timestamp()))::bigint"

MAKE_TABLES = f"""
CREATE SCHEMA {SCHEMA};
CREATE TABLE {SCHEMA}.note (LIKE {POSTGRES_SCHEMA}.note INCLUDING ALL);
CREATE TABLE {SCHEMA}.job (LIKE {POSTGRES_SCHEMA}.job INCLUDING ALL);
"""
STORAGE = f"SELECT reloptions FROM pg_class WHERE oid = '{POSTGRES_SCHEMA}.job'::regclass"
INSERT_NOTE = f"INSERT INTO {SCHEMA}.note (text) VALUES (%s) RETURNING id"
INSERT_JOB = f"""
INSERT INTO {SCHEMA}.job ({COLUMNS}, payload)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
RETURNING id
"""
INSERT_JOBS = f"""
INSERT INTO {SCHEMA}.job ({COLUMNS}, payload)
SELECT %s, %s, %s::int, %s::bigint, %s::int, %s::int, %s::bigint, %s::bigint, %s::bigint, %s,
       unnest(%s::bytea[])
RETURNING id
"""
CLAIM = f"""
UPDATE {SCHEMA}.job SET {CLAIMED.format(now=NOW)}
  FROM (SELECT id FROM {SCHEMA}.job
         WHERE queue = %s AND state = 'pending' AND run_at <= {NOW}
         ORDER BY priority DESC, run_at, id
         LIMIT {BATCH}
           FOR UPDATE SKIP LOCKED) AS ready
 WHERE job.id = ready.id
RETURNING job.id, job.payload
"""
DELETE = f"DELETE FROM {SCHEMA}.job WHERE id = ANY(%s)"
NOTIFY = f"SELECT set_config('synchronous_commit', 'off', true), pg_notify('{CHANNEL}', '')"


class RawPostgres(RawStore):
    def __init__(self) -> None:
        self._connection = psycopg.connect(os.environ[POSTGRES_VARIABLE], autocommit=True)
        self._cursor = psycopg.Cursor(self._connection)

    def create(self) -> None:
        self._connection.execute(MAKE_TABLES)
        options = self._connection.execute(STORAGE).fetchone()
        if options and options[0]:  # LIKE copies all but these
            self._connection.execute(f"ALTER TABLE {SCHEMA}.job SET ({', '.join(options[0])})")

    def enqueue_with_note(self, text: str, payload: bytes) -> None:
        self._run("BEGIN")
        self._run(INSERT_NOTE, [text]).fetchone()
        self._run(INSERT_JOB, [*job_values(), payload]).fetchone()
        self._run("COMMIT")

    def enqueue_many(self, payloads: Sequence[bytes]) -> None:
        self._run("BEGIN")
        for chunk in chunks(payloads, MANY_ROWS):
            self._run(INSERT_JOBS, [*job_values(), list(chunk)]).fetchall()
        self._run("COMMIT")

    def drain(self) -> int:
        done = 0
        while claimed := self._run(CLAIM, [QUEUE]).fetchall():
            done += self._run(DELETE, [[row[0] for row in claimed]]).rowcount
        return done

    def wake(self) -> None:
        self._run(NOTIFY)

    def count(self) -> int:
        return int(self._run(f"SELECT count(*) FROM {SCHEMA}.job").fetchall()[0][0])

    def empty(self) -> None:
        self._run(f"TRUNCATE {SCHEMA}.job, {SCHEMA}.note")

    def close(self) -> None:
        self._connection.close()

    def _run(self, statement: str, values: Sequence[Any] | None = None) -> Any:
        return self._cursor.execute(statement, values, prepare=values is not None)
