"""What a claim costs on PostgreSQL, by its plan and its buffers: 3.3, FR-012, FR-099.

Costs are counted in buffers touched, which time and load do not change.
"""

import json
import os

import pytest
from django.db import connections, transaction

from alkstore_django import Queue
from alkstore_django.engines.registry import engine_for
from tests.support.rows import count_live
from tests.support.tampering import worst_plans

pytestmark = pytest.mark.parametrize("alias", ["postgres"], indirect=True)

FULL = os.environ.get("ALKSTORE_TEST_FULL") == "1"
MANY_DELAYED = 1_000_000 if FULL else 200_000
BACKLOG = 100_000
ELSEWHERE = 50_000
N = 10
# A claimed row is fetched, rewritten, and moved between the indexes that its state decides.
BUFFERS_PER_ROW = 40

FILL = """
INSERT INTO alkstore.job (queue, state, priority, run_at, expires_at, enqueued_at, attempts,
    max_attempts, visibility_timeout_s, backoff_base_s, codec, payload,
    worker_id, claimed_at, deadline, claim_token)
SELECT %(queue)s, %(state)s, {priority}, {run_at}, NULL, now.s - 7200, %(attempts)s,
    3, 300, 5, 'json', convert_to('null', 'UTF8'),
    CASE WHEN held THEN 'gone' END, CASE WHEN held THEN now.s - 600 END,
    CASE WHEN held THEN now.s + %(deadline)s END, CASE WHEN held THEN n END
  FROM (SELECT floor(extract(epoch FROM statement_timestamp()))::bigint AS s) AS now,
       (SELECT %(state)s = 'processing' AS held) AS claim,
       generate_series(1, %(count)s) AS n
"""
FILL_DEAD = """
INSERT INTO alkstore.dead_job (id, queue, priority, run_at, enqueued_at, attempts, max_attempts,
    visibility_timeout_s, backoff_base_s, codec, payload, last_error, died_at)
SELECT -n, %(queue)s, 9, 0, 0, 3, 3, 300, 5, 'json', convert_to('null', 'UTF8'), 'failed', 0
  FROM generate_series(1, %(count)s) AS n
"""


def fill(
    count, *, queue="jobs", state="pending", priority="n %% 3", run_at="now.s - 3600 + n %% 1800",
    attempts=0, deadline=0,
):  # fmt: skip
    """Store many rows by one statement; ``priority`` and ``run_at`` are SQL over ``n``."""
    values = {"count": count, "queue": queue, "state": state, "attempts": attempts}
    with connections["postgres"].cursor() as cursor:
        statement = FILL.format(priority=priority, run_at=run_at)
        cursor.execute(statement, {**values, "deadline": deadline})


def fill_dead(count, queue="jobs"):
    with connections["postgres"].cursor() as cursor:
        cursor.execute(FILL_DEAD, {"count": count, "queue": queue})


@pytest.fixture(autouse=True)
def _on_untouched_tables(untouched_tables):
    """Plans depend on what is there, and on nothing else."""


def stages(alias):
    """Go round twice: with statistics that were never taken, and with fresh ones."""
    yield "never analyzed"
    with connections[alias].cursor() as cursor:
        cursor.execute("ANALYZE alkstore.job")
        cursor.execute("ANALYZE alkstore.dead_job")
    yield "analyzed"


def explained(alias, name, **values):
    """Run a statement of the engine under EXPLAIN ANALYZE and undo it; return its plan."""
    engine = engine_for(alias)
    statement = "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + getattr(engine.sql, name)
    with transaction.atomic(using=alias), connections[alias].cursor() as cursor:
        cursor.execute(statement, {"now_us": None, **values})
        [[text]] = cursor.fetchall()
        transaction.set_rollback(True, using=alias)
    return (json.loads(text) if isinstance(text, str) else text)[0]["Plan"]


def claim_plan(alias, *, queue="jobs", n=N):
    return explained(alias, "CLAIM", queue=queue, worker_id="w", n=n, token=1)


def nodes(plan):
    """Yield every node of a plan."""
    yield plan
    for child in plan.get("Plans", []):
        yield from nodes(child)


def buffers(plan):
    return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]


def claimed(plan):
    return plan["Actual Rows"]


def assert_by_index(plan):
    """No scan of the whole table, no sort of it, and only indexes that a claim may use."""
    for node in nodes(plan):
        if node.get("Relation Name") == "job" and node["Node Type"] != "ModifyTable":
            assert node["Node Type"] in {"Index Scan", "Index Only Scan"}, node["Node Type"]
            assert node["Index Name"] in {"job_claim", "job_lapse", "job_pk"}, node["Index Name"]
        if "Sort" in node["Node Type"]:
            assert all(below["Actual Rows"] <= 2 * N for below in nodes(node))
    assert "dead_job" not in json.dumps(plan)


def test_deep_backlog(alias):
    """3.3 FR-099 A claim out of 100,000 ready jobs costs what one out of 1,000 does."""
    fill(1_000)
    shallow = claim_plan(alias)
    assert claimed(shallow) == N
    fill(BACKLOG)
    for stage in stages(alias):
        deep = claim_plan(alias)
        assert claimed(deep) == N, stage
        assert_by_index(deep)
        assert buffers(deep) <= N * BUFFERS_PER_ROW, stage
        assert buffers(deep) <= 2 * buffers(shallow), stage


def test_rows_that_are_none_of_its_business(alias):
    """3.10 FR-099 Other queues' jobs and dead jobs, however many, cost a claim nothing."""
    fill(1_000)
    alone = claim_plan(alias)
    fill(ELSEWHERE, queue="other", priority="9")
    fill(ELSEWHERE, queue="later", run_at="now.s + 3600 + n")
    fill_dead(ELSEWHERE)
    for stage in stages(alias):
        among = claim_plan(alias)
        assert claimed(among) == N, stage
        assert_by_index(among)
        assert buffers(among) <= 2 * buffers(alone), stage
        for queue in ("later", "empty"):
            plan = claim_plan(alias, queue=queue)
            assert claimed(plan) == 0, stage
            assert_by_index(plan)
            assert buffers(plan) <= 30, stage


def test_delayed_jobs_of_higher_priority(alias):
    """3.3 FR-099 A million delayed jobs of higher priority are not walked over on the way to ten ready.

    In full with ALKSTORE_TEST_FULL=1; else a fifth of them.
    """
    fill(N, priority="0")
    alone = claim_plan(alias)
    fill(MANY_DELAYED, priority="1 + n %% 5", run_at="now.s + 3600 + n")
    for stage in stages(alias):
        behind = claim_plan(alias)
        assert claimed(behind) == N, stage
        assert_by_index(behind)
        assert buffers(behind) <= N * BUFFERS_PER_ROW, stage
        assert buffers(behind) <= 2 * buffers(alone) + 5 * 10, stage  # a probe for each priority


def test_priorities_below_are_not_visited(alias):
    """3.3 FR-099 Lower priorities, however many there are, are left alone once n jobs are found."""
    fill(10_000, priority="-n")
    fill(N, priority="1")
    for stage in stages(alias):
        plan = claim_plan(alias)
        assert claimed(plan) == N, stage
        assert_by_index(plan)
        assert buffers(plan) <= N * BUFFERS_PER_ROW, stage


def test_lapsed_jobs(alias):
    """3.3 FR-099 Of 50,000 lapsed and 50,000 running jobs, ten are claimed by the index alone."""
    fill(1_000, state="processing", attempts=1, deadline=-60)
    shallow = claim_plan(alias)
    assert claimed(shallow) == N
    fill(BACKLOG // 2, state="processing", attempts=1, deadline=-60)
    fill(BACKLOG // 2, state="processing", attempts=1, deadline=600, priority="0")
    for stage in stages(alias):
        deep = claim_plan(alias)
        assert claimed(deep) == N, stage
        assert_by_index(deep)
        assert buffers(deep) <= 2 * buffers(shallow), stage


def test_running_jobs_in_front_of_lapsed_ones(alias):
    """3.3 FR-099 Running jobs that stand before a lapsed one are passed in the index, not fetched."""
    fill(BACKLOG // 2, state="processing", attempts=1, deadline=600, priority="9")
    fill(N, state="processing", attempts=1, deadline=-60, priority="0")
    for stage in stages(alias):
        plan = claim_plan(alias)
        assert claimed(plan) == N, stage
        assert_by_index(plan)
        assert buffers(plan) < BACKLOG // 2 / 20, stage


def test_spent_jobs(alias):
    """3.4 FR-099 Whether a claim must bury anything first is told by an index, among any number."""
    fill(BACKLOG // 2, state="processing", attempts=1, deadline=-60)
    fill(BACKLOG // 2, state="processing", attempts=3, deadline=600)
    fill(BACKLOG // 2)
    for stage in stages(alias):
        plan = explained(alias, "HAS_SPENT", queue="jobs")
        used = [node for node in nodes(plan) if node.get("Relation Name") == "job"]
        assert {node.get("Index Name") for node in used} == {"job_spent"}, stage
        assert buffers(plan) <= 10, stage


def test_settling_goes_by_id(alias):
    """3.5 FR-099 Acks and renewals find their rows by primary key, in a deep store and among
    any number of held claims."""
    fill(BACKLOG)
    queue = Queue("jobs", using=alias)
    fill(BACKLOG // 4, state="processing", attempts=1, deadline=600)  # held by others
    claims = [handle.claim for handle in queue.claim_batch("w", N)]
    ids, tokens = map(list, zip(*claims, strict=True))
    for stage in stages(alias):
        for name in ("ACK", "ACK_FREE", "RENEW", "STILL_HELD", "GIVE_BACK"):
            plan = explained(alias, name, ids=ids, tokens=tokens)
            for node in nodes(plan):
                if node.get("Relation Name") == "job" and node["Node Type"] != "ModifyTable":
                    looks = {"Index Scan", "Index Only Scan", "Bitmap Heap Scan", "Tid Scan"}
                    assert node["Node Type"] in looks, (name, stage)
                assert node.get("Index Name", "job_pk") == "job_pk", (name, stage)
            assert buffers(plan) <= N * BUFFERS_PER_ROW, (name, stage)


def test_no_plan_claims_too_many(alias):
    """FR-012 Under the planner's worst plans n are asked for, n are returned and n are marked."""
    fill(BACKLOG)
    queue = Queue("jobs", using=alias)
    total = 0
    for stage in stages(alias):
        for n in (1, N):
            with worst_plans(alias):
                assert len(queue.claim_batch("w", n)) == n, stage
            total += n
            with connections[alias].cursor() as cursor:
                cursor.execute("SELECT count(*) FROM alkstore.job WHERE state = 'processing'")
                assert cursor.fetchone()[0] == total, stage
    assert count_live(alias) == BACKLOG
