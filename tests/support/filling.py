"""Many rows at once, stored by one statement, past the package's back.

Columns are SQL over ``n`` (1 to count) that both engines understand.
"""

from typing import Any

from django.db import connections

from tests.support.rows import TABLES

NOW = 1_800_000_000
COMMON = {
    "queue": "'jobs'",
    "priority": "0",
    "run_at": f"{NOW} + n",
    "expires_at": "NULL",
    "enqueued_at": f"{NOW} + n",
    "attempts": "0",
    "max_attempts": "3",
    "visibility_timeout_s": "300",
    "backoff_base_s": "5",
    "codec": "'json'",
    "key": "NULL",
}
LIVE = {
    "state": "'pending'",
    "worker_id": "CASE WHEN {state} = 'processing' THEN 'gone' END",
    "claimed_at": f"CASE WHEN {{state}} = 'processing' THEN {NOW} + n END",
    "deadline": f"CASE WHEN {{state}} = 'processing' THEN {NOW} + n + 300 END",
    "claim_token": "CASE WHEN {state} = 'processing' THEN n END",
}
DEAD = {
    "id": "-n",
    "worker_id": "'gone'",
    "claimed_at": f"{NOW} + n",
    "died_at": f"{NOW} + n",
    "last_error": "'failed'",
}
SERIES = {
    "postgresql": "generate_series({first}, {last}) AS series (n)",
    "sqlite": "(WITH RECURSIVE series (n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM series "
    "WHERE n < {last}) SELECT n FROM series)",
}
BYTES = {"postgresql": "convert_to({text}, 'UTF8')", "sqlite": "CAST({text} AS BLOB)"}


def fill_live(alias: str, count: int, *, first: int = 1, **columns: str) -> None:
    """Store live jobs; ``payload`` is SQL for a text."""
    state = columns.get("state", LIVE["state"])
    live = {name: text.format(state=state) for name, text in LIVE.items()}
    _fill(alias, "job", first, count, COMMON | live | columns)


def fill_dead(alias: str, count: int, *, first: int = 1, **columns: str) -> None:
    """Store dead jobs; ``payload`` is SQL for a text."""
    _fill(alias, "dead_job", first, count, COMMON | DEAD | columns)


def analyze(alias: str) -> None:
    """Let the planner know what is stored, as the server's own upkeep does before long."""
    vendor = connections[alias].vendor
    with connections[alias].cursor() as cursor:
        for table in TABLES[vendor].values():
            cursor.execute(f"{'VACUUM ' * (vendor == 'postgresql')}ANALYZE {table}")


def _fill(alias: str, table: str, first: int, count: int, columns: dict[str, str]) -> None:
    vendor = connections[alias].vendor
    payload = columns.pop("payload", "'null'")
    columns["payload"] = BYTES[vendor].format(text=payload)
    names, texts = ", ".join(columns), ", ".join(columns.values())
    series = SERIES[vendor].format(first=first, last=first + count - 1)
    statement = f"INSERT INTO {TABLES[vendor][table]} ({names}) SELECT {texts} FROM {series}"
    with connections[alias].cursor() as cursor:
        cursor.execute(statement)


def stored(alias: str, table: str, order: str = "id") -> list[dict[str, Any]]:
    """Return all raw rows of a table."""
    with connections[alias].cursor() as cursor:
        cursor.execute(f"SELECT * FROM {TABLES[connections[alias].vendor][table]} ORDER BY {order}")
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def fill_schedules(alias: str, count: int, *, first: int = 1, **columns: str) -> None:
    """Store schedules; ``payload`` is SQL for a text, ``{true}`` is the engine's truth."""
    truths = {"postgresql": ("true", "false"), "sqlite": ("1", "0")}[connections[alias].vendor]
    schedule = {
        "name": "'s' || n",
        "next_boundary_at": f"{NOW} + n",
        "first_boundary_at": f"{NOW} + n",
        "registered_at": f"{NOW}",
        "changed_at": f"{NOW}",
        "interval_s": "300",
        "visibility_timeout_s": "300",
        "backoff_base_s": "5",
        "priority": "0",
        "max_attempts": "3",
        "declared": "{false}",
        "spec": "'@every 5m'",
        "queue": "'jobs'",
        "codec": "'json'",
        "payload": "'{{\"n\":' || n || '}}'",
    } | columns
    texts = {name: text.format(true=truths[0], false=truths[1]) for name, text in schedule.items()}
    _fill(alias, "schedule", first, count, texts)
