"""The engine on PostgreSQL. See ``engines/base.py`` for what each method promises."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import psycopg
from django.db import Error, InterfaceError, OperationalError
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg.pq import TransactionStatus

from ...conf import StoreSettings
from ...core.errortext import EXPIRED, MAX_ATTEMPTS_EXCEEDED
from ...core.frontier import Segment
from ...core.instants import FIRST_INSTANT
from ...core.options import Stamps
from ...core.records import Claim, Enqueued, JobRow, Purged
from ..base import Engine, OnWake, Subscription
from ..statements import TABLES, claimed_rows, read_schema_script
from . import sql
from .chunks import chunks
from .notify import Notifier
from .outbox import PostgresOutbox
from .schedules import PostgresSchedules
from .upkeep import PostgresUpkeep
from .wake import WakeHub, channel_name, hub_for

logger = logging.getLogger("alkstore_django.engines.postgres")

SPENT_AT_ONCE = 1_000
PREPARE_AFTER = 2  # runs of a statement on one connection

# The server knows no such prepared statement, or has one of that name already.
_LOST_PREPARED = {"26000", "42P05"}

# What a server answers that a failover has turned into a standby.
READ_ONLY = "25006"


class PostgresEngine(Engine):
    """One store in one schema of a PostgreSQL database."""

    display_name = "PostgreSQL"
    supports_parallel_writers = True

    def __init__(self, using: str, settings: StoreSettings) -> None:
        super().__init__(using, settings, sql)
        self.schedules = PostgresSchedules(self)
        self.outbox = PostgresOutbox(self)
        self._notifier: Notifier | None = None
        self.upkeep = PostgresUpkeep(self)

    def _direct_cursor(self, connection: BaseDatabaseWrapper) -> psycopg.Cursor[Any]:
        raw: psycopg.Connection = connection.connection
        if getattr(self._hot, "on", False) and raw.prepare_threshold is None:
            if self._is_direct(raw):
                raw.prepare_threshold = PREPARE_AFTER
            else:
                self._hot.on = False
        return psycopg.Cursor(raw)

    def _is_direct(self, raw: psycopg.Connection) -> bool:
        """Return whether the connection leads to the server itself, and not to a pooler.

        A pooler introduces itself with a process id of its own making.
        """
        with psycopg.Cursor(raw) as cursor:
            [[pid]] = cursor.execute(self.sql.BACKEND_PID).fetchall()
        return bool(pid == raw.info.backend_pid)

    def _execute(self, cursor: psycopg.Cursor[Any], statement: str, values: dict[str, Any]) -> None:
        """Run a statement, bound by the server; on the hot path parsed and planned only once.

        Elsewhere the alias's own ``prepare_threshold`` decides, which for Django means: never.
        Behind a pooler nothing is prepared: it would mix up the sessions, and a statement's name
        would stand for another one. Should that happen all the same, the hot path is left.
        """
        try:
            cursor.execute(statement, values, binary=True)
        except psycopg.Error as error:
            if error.sqlstate not in _LOST_PREPARED:
                raise
            self._hot.on = False
            cursor.connection.prepare_threshold = None
            if self.connection.in_atomic_block:
                raise  # the transaction is spoilt; the next one will not meet it
            cursor.execute(statement, values, binary=True)

    # -- tables ---------------------------------------------------------------------------

    def table(self, name: str) -> str:
        return f"{_quoted(self.settings.schema)}.{_quoted(name)}".replace("%", "%%")

    def schema_script(self, name: str) -> str:
        schema = self.settings.schema
        identifiers = {
            "schema": _quoted(schema),
            "schema_literal": "'" + schema.replace("'", "''") + "'",
        } | {name: f"{_quoted(schema)}.{name}" for name in TABLES}
        return read_schema_script(__package__, name, identifiers)

    def has_tables(self) -> bool:
        schema = _quoted(self.settings.schema)
        names = [f"{schema}.{name}" for name in TABLES]
        return bool(self.rows(self.sql.HAS_TABLES, names=names)[0][0])

    def empty(self) -> None:
        self.count(self.sql.EMPTY)

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
            for chunk in chunks(payloads):
                rows = self.rows(self.sql.ENQUEUE_MANY, **values, payloads=chunk)
                stored += sorted(Enqueued(*row) for row in rows)
        return stored

    def claim(self, queue: str, *, worker_id: str, n: int, token: int) -> list[JobRow]:
        rows = self.rows(self.sql.CLAIM, queue=queue, worker_id=worker_id, n=n, token=token)
        return claimed_rows(rows, queue, worker_id, token)

    def claim_ahead(
        self, queue: str, *, worker_id: str, n: int, token: int, segments: Sequence[Segment]
    ) -> list[JobRow]:
        lows, highs, run_ats, ids = map(_int_array, zip(*segments, strict=True))
        rows = self.rows(
            self.sql.CLAIM_AHEAD,
            queue=queue, worker_id=worker_id, n=n, token=token,
            lows=lows, highs=highs, run_ats=run_ats, ids=ids,
        )  # fmt: skip
        return claimed_rows(rows, queue, worker_id, token)

    def bury_spent(self, queue: str) -> None:
        while self.rows(self.sql.HAS_SPENT, queue=queue)[0][0]:
            values = {"queue": queue, "error": MAX_ATTEMPTS_EXCEEDED, "limit": SPENT_AT_ONCE}
            if self.count(self.sql.BURY_SPENT, **values) < SPENT_AT_ONCE:
                return  # what is left is held by another session, which buries it

    def ack(self, claims: Collection[Claim]) -> set[int]:
        return self._ids(self.sql.ACK, claims)

    def ack_free(self, claims: Collection[Claim]) -> tuple[set[int], set[int]]:
        return self._free_and_held(self.sql.ACK_FREE, claims)

    def ack_ids(self, job_ids: Collection[int]) -> int:
        return self.count(self.sql.ACK_IDS, ids=list(job_ids)) if job_ids else 0

    def retry(self, claim: Claim, *, delay_us: int) -> bool:
        return self._one(self.sql.RETRY, claim, delay_us=delay_us)

    def bury(self, claim: Claim, *, error: str) -> bool:
        return self._one(self.sql.BURY, claim, error=error)

    def heartbeat(self, claim: Claim, *, extend_us: int) -> bool:
        return self._one(self.sql.HEARTBEAT, claim, extend_us=extend_us)

    def renew(self, claims: Collection[Claim]) -> set[int]:
        renewed, held = self._free_and_held(self.sql.RENEW, claims)
        return renewed | held

    def give_back(self, claims: Collection[Claim]) -> set[int]:
        return self._ids(self.sql.GIVE_BACK, claims)

    def cancel(self, job_id: int) -> bool:
        return self.count(self.sql.CANCEL, id=job_id) == 1

    def get_job(self, job_id: int, *, queue: str | None = None) -> JobRow | None:
        rows = self.rows(self.sql.GET_JOB, id=job_id, queue=queue)
        return JobRow._make(rows[0]) if rows else None

    def sweep_expired(self, queue: str, *, limit: int) -> int:
        return self.count(self.sql.SWEEP_EXPIRED, queue=queue, error=EXPIRED, limit=limit)

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
        ids, tokens = map(_int_array, zip(*claims, strict=True))
        return {row[0] for row in self.rows(statement, ids=ids, tokens=tokens)}

    def _free_and_held(
        self, statement: str, claims: Collection[Claim]
    ) -> tuple[set[int], set[int]]:
        """Act on the rows that no other transaction holds; return these, and the held rest."""
        free = self._ids(statement, claims)
        rest = [claim for claim in claims if claim.job_id not in free]
        return free, self._ids(self.sql.STILL_HELD, rest)

    # -- wake -----------------------------------------------------------------------------

    def wake(self, queue: str) -> None:
        if not self.settings.notify:
            self._hub().ring(queue)
            return
        notifier = self._notifier
        if notifier is None or notifier.pid != os.getpid():
            notifier = self._notifier = Notifier(self._notify, lambda: self.connection)
        notifier.notify(queue)

    def _notify(self, queue: str) -> None:
        try:
            self.rows(self.sql.NOTIFY, channel=channel_name(self.settings.schema, queue))
        except Error as error:
            logger.warning("NOTIFY failed, waiters re-poll: queue=%s error=%s", queue, error)

    def subscribe(
        self,
        queues: Sequence[str],
        *,
        on_wake: OnWake | None = None,
        must_connect: bool = True,
    ) -> Subscription:
        return self._hub().subscribe(queues, on_wake=on_wake, must_connect=must_connect)

    def _hub(self) -> WakeHub:
        return hub_for(self.using, self.settings)

    # -- health ---------------------------------------------------------------------------

    def is_outage(self, error: BaseException) -> bool:
        if isinstance(error, OperationalError | InterfaceError):
            return True  # no connection, going down, out of resources, cancelled, deadlock, ...
        return getattr(error.__cause__, "sqlstate", None) == READ_ONLY

    def drop_stale_connection(self) -> None:
        connection = self.connection
        if connection.connection is None or connection.in_atomic_block:
            return
        if connection.connection.closed or connection.connection.broken:
            connection.close()
        elif connection.errors_occurred:
            if connection.is_usable():
                connection.errors_occurred = False
            else:
                connection.close()

    def is_disturbed(self, connection: BaseDatabaseWrapper) -> bool:
        raw = connection.connection
        return bool(raw.closed or raw.info.transaction_status != TransactionStatus.IDLE)

    def worker_fault(self) -> str | None:
        if self.rows(self.sql.IN_RECOVERY)[0][0]:
            return "the server is a standby in recovery; a worker needs the primary"
        return None


def _quoted(identifier: str) -> str:
    return '"' + identifier.replace('"', '""') + '"'


def _int_array(numbers: Iterable[int]) -> str:
    """Return an array literal: the driver would choose another type for larger numbers."""
    return f"{{{','.join(map(str, numbers))}}}"
