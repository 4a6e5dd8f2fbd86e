"""What order per key costs on PostgreSQL, in buffers touched: 5.3, FR-099."""

import json

import pytest
from django.db import connections, transaction

from alkstore_django import Outbox
from alkstore_django.core.names import backing_name
from alkstore_django.engines.registry import engine_for
from tests.postgres.test_claim_plan import BUFFERS_PER_ROW, buffers, fill, stages
from tests.support.relay import Relay

pytestmark = pytest.mark.parametrize("alias", ["postgres"], indirect=True)

MANY = 100_000
N = 10
QUEUE = backing_name("events")

FILL_KEYED = """
INSERT INTO alkstore.job (queue, key, state, priority, run_at, expires_at, enqueued_at, attempts,
    max_attempts, visibility_timeout_s, backoff_base_s, codec, payload)
SELECT %(queue)s, {key}, {state}, 0, now.s - 3600, {expires_at}, now.s - 7200, 0, 20, 300, 5,
    'json', convert_to('null', 'UTF8')
  FROM (SELECT floor(extract(epoch FROM statement_timestamp()))::bigint AS s) AS now,
       generate_series(1, %(count)s) AS n
"""


def fill_keyed(count, *, key, state="'behind'", expires_at="NULL"):
    """Store many events by one statement; the arguments are SQL over ``n``."""
    with connections["postgres"].cursor() as cursor:
        statement = FILL_KEYED.format(key=key, state=state, expires_at=expires_at)
        cursor.execute(statement, {"queue": QUEUE, "count": count})


@pytest.fixture(autouse=True)
def _on_untouched_tables(untouched_tables):
    """Plans depend on what is there, and on nothing else."""


def explained(alias, name, **values):
    """Run a statement of the outbox under EXPLAIN ANALYZE and undo it; return its plan."""
    statement = "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + getattr(
        engine_for(alias).outbox.sql, name
    )
    with transaction.atomic(using=alias), connections[alias].cursor() as cursor:
        cursor.execute(statement, {"now_us": None, "queue": QUEUE, **values})
        [[text]] = cursor.fetchall()
        transaction.set_rollback(True, using=alias)
    return (json.loads(text) if isinstance(text, str) else text)[0]["Plan"]


def claim_plan(alias, n=N):
    return explained(alias, "CLAIM_IN_ORDER", worker_id="w", n=n, token=1)


def test_a_deep_backlog_of_one_key(alias):
    """5.3 100,000 events behind the head of their key cost a claim nothing."""
    outbox = Outbox("events", using=alias)
    outbox.enqueue("head", key="hot")
    Relay(outbox).claim()
    fill_keyed(N, key="'k' || n", state="'pending'")
    alone = claim_plan(alias)
    assert alone["Actual Rows"] == N
    fill_keyed(MANY, key="'hot'")
    for stage in stages(alias):
        plan = claim_plan(alias)
        assert plan["Actual Rows"] == N, stage
        assert buffers(plan) <= N * BUFFERS_PER_ROW, stage
        assert buffers(plan) <= 2 * buffers(alone) + 20, stage


def test_a_deep_backlog_of_many_keys(alias):
    """5.3 Each claimed event costs one look at its key, however many keys and events wait."""
    fill_keyed(MANY // 2, key="'k' || n", state="'pending'")
    fill_keyed(MANY // 2, key="'k' || n")
    fill(MANY // 2, queue="other")
    for stage in stages(alias):
        plan = claim_plan(alias)
        assert plan["Actual Rows"] == N, stage
        assert buffers(plan) <= N * BUFFERS_PER_ROW, stage


def test_promotion(alias):
    """5.3 The next of a key is found by its index."""
    fill_keyed(MANY, key="'hot'")
    fill_keyed(1_000, key="'k' || n")
    for stage in stages(alias):
        plan = explained(alias, "PROMOTE", keys=["hot", "k5", "none"])
        assert buffers(plan) <= 3 * BUFFERS_PER_ROW, (stage, json.dumps(plan))


def test_the_search_for_the_stranded(alias):
    """5.3 A step of the search costs by the keys that wait, not by the events."""
    fill_keyed(MANY, key="'k' || (n %% 100)")
    fill_keyed(MANY // 2, key="'p' || n", state="'pending'")
    for stage in stages(alias):
        plan = explained(alias, "WAITING_KEYS", after="", limit=1_000)
        assert plan["Actual Rows"] == 100, stage
        assert buffers(plan) <= 100 * 20, stage
        few = explained(alias, "WAITING_KEYS", after="k50", limit=3)
        assert few["Actual Rows"] == 3, stage
        assert buffers(few) <= 4 * 20, stage


def test_enqueueing_for_a_key(alias):
    """5.3 Whether another event of the key is in the way is one look at its index."""
    fill_keyed(MANY, key="'hot'")
    stamps = {
        "priority": 0, "delay_us": None, "run_at": None, "expires_us": None, "max_attempts": 20,
        "visibility_timeout_s": 300, "backoff_base_s": 5, "codec": "json", "payload": b"1",
    }  # fmt: skip
    for stage in stages(alias):
        for key in ("hot", "cold"):
            plan = explained(alias, "ENQUEUE_KEYED", key=key, **stamps)
            assert buffers(plan) <= BUFFERS_PER_ROW, (stage, key)


def test_a_small_store(alias):
    """5.3 Nor does the planner fetch and sort the rows of a small table, whose size it guesses."""
    fill_keyed(1_000, key="'k' || n", state="'pending'")
    fill_keyed(1_000, key="'k' || n")
    fill_keyed(500, key="'k' || (n %% 50)")
    for stage in stages(alias):
        plan = explained(alias, "WAITING_KEYS", after="", limit=1_000)
        assert buffers(plan) <= 1_000 * 12, stage
        assert buffers(claim_plan(alias)) <= N * BUFFERS_PER_ROW, stage
        plan = explained(alias, "PROMOTE", keys=["k1", "k2"])
        assert buffers(plan) <= 2 * BUFFERS_PER_ROW, stage
