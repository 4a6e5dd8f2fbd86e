"""The engine on SQLite. See ``engines/base.py`` for what each method promises."""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import re
import sqlite3
import threading
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from typing import Any

from django.db import Error
from django.db.backends.base.base import BaseDatabaseWrapper

from ...conf import StoreSettings
from ...core.errortext import EXPIRED, MAX_ATTEMPTS_EXCEEDED
from ...core.frontier import Segment
from ...core.instants import FIRST_INSTANT
from ...core.options import Stamps
from ...core.records import Claim, Enqueued, JobRow, Purged
from ..base import Engine, OnWake, Subscription
from ..statements import TABLES, claimed_rows, read_schema_script
from . import sql
from .chunks import MANY_ROWS, one_parameter_each
from .outbox import SQLiteOutbox
from .schedules import SQLiteSchedules
from .upkeep import SQLiteUpkeep
from .wake import WatchHub, database_file, file_identity, hub_for

logger = logging.getLogger("alkstore_django.engines.sqlite")

SPENT_AT_ONCE = 1_000

_PARAMETER = re.compile(r"%\((\w+)\)s")

# Primary result codes that say: busy, locked, the disk or file is away, or refuses writes.
_OUTAGE_CODES = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_INTERRUPT,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_PROTOCOL,
}


class SQLiteEngine(Engine):
    """One store in one SQLite database file."""

    display_name = "SQLite"
    supports_parallel_writers = False

    def __init__(self, using: str, settings: StoreSettings) -> None:
        super().__init__(using, settings, sql)
        self.schedules = SQLiteSchedules(self)
        self.outbox = SQLiteOutbox(self)
        # Per thread: its connection, and which file that was when we first met it.
        self._opened: dict[int, tuple[Any, object]] = {}
        self.upkeep = SQLiteUpkeep(self)

    def _direct_cursor(self, connection: BaseDatabaseWrapper) -> AbstractContextManager[Any]:
        return contextlib.closing(connection.connection.cursor(sqlite3.Cursor))

    def _execute(self, cursor: sqlite3.Cursor, statement: str, values: dict[str, Any]) -> None:
        cursor.execute(_with_named_parameters(statement), values)

    # -- tables ---------------------------------------------------------------------------

    def table(self, name: str) -> str:
        return f'"__alkstore_{name}"'

    def schema_script(self, name: str) -> str:
        return read_schema_script(__package__, name, self.identifiers)

    def has_tables(self) -> bool:
        names = json.dumps([f"__alkstore_{name}" for name in TABLES])
        return bool(self.rows(self.sql.HAS_TABLES, names=names)[0][0])

    def empty(self) -> None:
        with self.together():
            for statement in self.sql.EMPTY:
                self.count(statement)

    # -- jobs -----------------------------------------------------------------------------

    def enqueue(self, stamps: Stamps, payload: bytes) -> Enqueued:
        values = stamps.as_dict()
        if stamps.ready_at_once:
            return Enqueued(
                self.rows(self.sql.ENQUEUE_READY, **values, payload=payload)[0][0], True
            )
        job_id, ready = self.rows(self.sql.ENQUEUE, **values, payload=payload)[0]
        return Enqueued(job_id, bool(ready))

    def enqueue_many(self, stamps: Stamps, payloads: Sequence[bytes]) -> list[Enqueued]:
        values = stamps.as_dict()
        stored: list[Enqueued] = []
        with self.together():
            for start in range(0, len(payloads), MANY_ROWS):
                chunk = payloads[start : start + MANY_ROWS]
                statement, given = one_parameter_each(self.sql.ENQUEUE_MANY, chunk)
                rows = self.rows(statement, **values, **given)
                stored += sorted(Enqueued(job_id, bool(ready)) for job_id, ready in rows)
        return stored

    def claim(self, queue: str, *, worker_id: str, n: int, token: int) -> list[JobRow]:
        if not self.rows(self.sql.HAS_READY, queue=queue, n=1)[0][0]:
            return []
        rows = self.rows(self.sql.CLAIM, queue=queue, worker_id=worker_id, n=n, token=token)
        return claimed_rows(rows, queue, worker_id, token)

    def claim_ahead(
        self, queue: str, *, worker_id: str, n: int, token: int, segments: Sequence[Segment]
    ) -> list[JobRow]:
        return self.claim(queue, worker_id=worker_id, n=n, token=token)  # nothing dead to avoid

    def bury_spent(self, queue: str) -> None:
        while self.rows(self.sql.HAS_SPENT, queue=queue)[0][0]:
            values = {"queue": queue, "error": MAX_ATTEMPTS_EXCEEDED, "limit": SPENT_AT_ONCE}
            if self._move(self.sql.BURY_SPENT, **values) < SPENT_AT_ONCE:
                return

    def ack(self, claims: Collection[Claim]) -> set[int]:
        return self._ids(self.sql.ACK, claims)

    def ack_free(self, claims: Collection[Claim]) -> tuple[set[int], set[int]]:
        return self.ack(claims), set()

    def ack_ids(self, job_ids: Collection[int]) -> int:
        return self.count(self.sql.ACK_IDS, ids=json.dumps(list(job_ids))) if job_ids else 0

    def retry(self, claim: Claim, *, delay_us: int) -> bool:
        return self._one(self.sql.RETRY, claim, delay_us=delay_us)

    def bury(self, claim: Claim, *, error: str) -> bool:
        return self._move(self.sql.BURY, id=claim.job_id, token=claim.token, error=error) == 1

    def heartbeat(self, claim: Claim, *, extend_us: int) -> bool:
        return self._one(self.sql.HEARTBEAT, claim, extend_us=extend_us)

    def renew(self, claims: Collection[Claim]) -> set[int]:
        return self._ids(self.sql.RENEW, claims)

    def give_back(self, claims: Collection[Claim]) -> set[int]:
        return self._ids(self.sql.GIVE_BACK, claims)

    def cancel(self, job_id: int) -> bool:
        return self.count(self.sql.CANCEL, id=job_id) == 1

    def get_job(self, job_id: int, *, queue: str | None = None) -> JobRow | None:
        rows = self.rows(self.sql.GET_JOB, id=job_id, queue=queue)
        return JobRow._make(rows[0]) if rows else None

    def sweep_expired(self, queue: str, *, limit: int) -> int:
        return self._move(self.sql.SWEEP_EXPIRED, queue=queue, error=EXPIRED, limit=limit)

    def purge_dead(
        self, queue: str, *, retention_s: int, limit: int, since: int = FIRST_INSTANT
    ) -> Purged:
        values = {"queue": queue, "retention_s": retention_s, "limit": limit, "since": since}
        died_at = [row[0] for row in self.rows(self.sql.PURGE_DEAD, **values)]
        return Purged(len(died_at), max(died_at, default=since))

    def live_count(self, queue: str, *, at_most: int) -> int:
        counted = self.rows(self.sql.LIVE_COUNT, queue=queue, at_most=at_most)[0][0]
        return min(int(counted), at_most)

    def _one(self, statement: str, claim: Claim, **values: object) -> bool:
        return self.count(statement, id=claim.job_id, token=claim.token, **values) == 1

    def _ids(self, statement: str, claims: Collection[Claim]) -> set[int]:
        if not claims:
            return set()
        return {row[0] for row in self.rows(statement, claims=json.dumps(list(claims)))}

    def _move(self, statements: Sequence[str], **values: Any) -> int:
        """Run a copy and its delete as one, both at the same instant; return the rows moved."""
        with self.together(), self.connection.cursor() as cursor:
            instant = {"now_us": self.clock_us()}
            for statement in statements:
                cursor.execute(statement, instant | values)
            return int(cursor.rowcount)

    # -- wake -----------------------------------------------------------------------------

    def wake(self, queue: str) -> None:
        self._hub().ring(queue)

    def subscribe(
        self,
        queues: Sequence[str],
        *,
        on_wake: OnWake | None = None,
        must_connect: bool = True,
    ) -> Subscription:
        return self._hub().subscribe(queues, on_wake=on_wake, must_connect=must_connect)

    def _hub(self) -> WatchHub:
        return hub_for(self.using)

    # -- health ---------------------------------------------------------------------------

    def is_outage(self, error: BaseException) -> bool:
        code = getattr(error.__cause__, "sqlite_errorcode", None)
        return isinstance(error, Error) and code is not None and code & 0xFF in _OUTAGE_CODES

    def drop_stale_connection(self) -> None:
        connection = self.connection
        file = database_file(self.using)
        if connection.connection is None or connection.in_atomic_block or file is None:
            return
        identity = file_identity(file)
        raw, opened = self._opened.get(threading.get_ident(), (None, None))
        if raw is not connection.connection:
            self._opened[threading.get_ident()] = (connection.connection, identity)
        elif identity != opened:
            logger.warning("Database file was replaced, opening it anew: using=%s", self.using)
            connection.close()

    def is_disturbed(self, connection: BaseDatabaseWrapper) -> bool:
        try:
            return bool(connection.connection.in_transaction)
        except sqlite3.ProgrammingError:  # it is closed
            return True

    def worker_fault(self) -> str | None:
        if database_file(self.using) is None:
            return "the database is in memory; a worker needs a file that processes share"
        return None


@functools.lru_cache(maxsize=128)
def _with_named_parameters(statement: str) -> str:
    """Return a statement in the driver's own style of parameters."""
    return _PARAMETER.sub(r":\1", statement).replace("%%", "%")
