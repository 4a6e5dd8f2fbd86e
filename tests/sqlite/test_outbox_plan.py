"""What order per key costs on SQLite, in instructions of its virtual machine: 5.3, FR-099."""

import pytest
from django.db import connections, transaction

from alkstore_django import Outbox
from alkstore_django.core.names import backing_name
from alkstore_django.engines.registry import engine_for
from tests.sqlite.test_claim_plan import INSTRUCTIONS_PER_ROW, STEP, execute, stages
from tests.support.relay import Relay

pytestmark = pytest.mark.parametrize("alias", ["sqlite"], indirect=True)

MANY = 100_000
N = 10
QUEUE = backing_name("events")

FILL_KEYED = """
INSERT INTO __alkstore_job (queue, key, state, priority, run_at, enqueued_at, attempts,
    max_attempts, visibility_timeout_s, backoff_base_s, codec, payload)
WITH RECURSIVE series (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM series WHERE n < %(count)s)
SELECT %(queue)s, {key}, {state}, 0, unixepoch() - 3600, unixepoch() - 7200, 0, 20, 300, 5,
    'json', CAST('null' AS BLOB)
  FROM series
"""


def fill_keyed(count, *, key, state="'behind'"):
    """Store many events by one statement; the arguments are SQL over ``n``."""
    with connections["sqlite"].cursor() as cursor:
        cursor.execute(FILL_KEYED.format(key=key, state=state), {"queue": QUEUE, "count": count})


@pytest.fixture(autouse=True)
def without_statistics(alias):
    """Leave no statistics to others."""
    yield
    execute(alias, "DELETE FROM __alkstore_job")
    execute(alias, "ANALYZE")


def run_counted(alias, name, **values):
    """Run a statement of the outbox and undo it; return its rows and the instructions it took."""
    connection = connections[alias]
    steps = 0

    def step():
        nonlocal steps
        steps += 1
        return 0

    statement = getattr(engine_for(alias).outbox.sql, name)
    with transaction.atomic(using=alias), connection.cursor() as cursor:
        connection.connection.set_progress_handler(step, STEP)
        try:
            cursor.execute(statement, {"now_us": None, "queue": QUEUE, **values})
            rows = cursor.fetchall()
        finally:
            connection.connection.set_progress_handler(None, 0)
        transaction.set_rollback(True, using=alias)
    return rows, steps * STEP


def claim(alias, n=N):
    _, asked = run_counted(alias, "HAS_READY_IN_ORDER", n=1)
    rows, taken = run_counted(alias, "CLAIM_IN_ORDER", worker_id="w", n=n, token=1)
    return len(rows), asked + taken


def test_a_deep_backlog_of_one_key(alias):
    """5.3 100,000 events behind the head of their key cost a claim nothing."""
    outbox = Outbox("events", using=alias)
    outbox.enqueue("head", key="hot")
    Relay(outbox).claim()
    fill_keyed(N, key="'k' || n", state="'pending'")
    n, alone = claim(alias)
    assert n == N
    fill_keyed(MANY, key="'hot'")
    for stage in stages(alias):
        n, taken = claim(alias)
        assert n == N, stage
        assert taken <= N * INSTRUCTIONS_PER_ROW, stage
        assert taken <= 2 * alone, stage


def test_a_deep_backlog_of_many_keys(alias):
    """5.3 Each claimed event costs one look at its key, however many keys and events wait."""
    fill_keyed(MANY // 2, key="'k' || n", state="'pending'")
    fill_keyed(MANY // 2, key="'k' || n")
    for stage in stages(alias):
        n, taken = claim(alias)
        assert n == N, stage
        assert taken <= N * INSTRUCTIONS_PER_ROW, stage


def test_promotion(alias):
    """5.3 The next of a key is found by its index."""
    fill_keyed(MANY, key="'hot'")
    fill_keyed(1_000, key="'k' || n")
    for stage in stages(alias):
        _, taken = run_counted(alias, "PROMOTE", keys='["hot", "k5", "none"]')
        assert taken <= 3 * INSTRUCTIONS_PER_ROW, stage


def test_the_search_for_the_stranded(alias):
    """5.3 A step of the search costs by the keys that wait, not by the events."""
    fill_keyed(MANY, key="'k' || (n %% 100)")
    fill_keyed(MANY // 2, key="'p' || n", state="'pending'")
    for stage in stages(alias):
        rows, taken = run_counted(alias, "WAITING_KEYS", after="", limit=1_000)
        assert len(rows) == 100, stage
        assert taken <= 100 * INSTRUCTIONS_PER_ROW, stage


def test_enqueueing_for_a_key(alias):
    """5.3 Whether another event of the key is in the way is one look at its index."""
    fill_keyed(MANY, key="'hot'")
    stamps = {
        "priority": 0, "delay_us": None, "run_at": None, "expires_us": None, "max_attempts": 20,
        "visibility_timeout_s": 300, "backoff_base_s": 5, "codec": "json", "payload": b"1",
    }  # fmt: skip
    for stage in stages(alias):
        for key in ("hot", "cold"):
            _, taken = run_counted(alias, "ENQUEUE_KEYED", key=key, **stamps)
            assert taken <= INSTRUCTIONS_PER_ROW, (stage, key)
