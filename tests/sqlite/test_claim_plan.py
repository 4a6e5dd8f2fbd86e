"""What a claim costs on SQLite, by its plan and the instructions that it runs: 3.3, FR-099.

Costs are counted in instructions of SQLite's virtual machine, which time and load do not
change.
"""

import os

import pytest
from django.db import connections, transaction

from alkstore_django.engines.registry import engine_for

pytestmark = pytest.mark.parametrize("alias", ["sqlite"], indirect=True)

FULL = os.environ.get("ALKSTORE_TEST_FULL") == "1"
MANY_DELAYED = 1_000_000 if FULL else 200_000
BACKLOG = 100_000
ELSEWHERE = 50_000
N = 10
STEP = 10
INSTRUCTIONS_PER_ROW = 600

FILL = """
INSERT INTO __alkstore_job (queue, state, priority, run_at, enqueued_at, attempts,
    max_attempts, visibility_timeout_s, backoff_base_s, codec, payload,
    worker_id, claimed_at, deadline, claim_token)
WITH RECURSIVE series (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM series WHERE n < %(count)s),
     now (s) AS (SELECT unixepoch())
SELECT %(queue)s, %(state)s, {priority}, {run_at}, s - 7200, %(attempts)s,
    3, 300, 5, 'json', CAST('null' AS BLOB),
    iif(%(held)s, 'gone', NULL), iif(%(held)s, s - 600, NULL),
    iif(%(held)s, s + %(deadline)s, NULL), iif(%(held)s, n, NULL)
  FROM series, now
"""
FILL_DEAD = """
INSERT INTO __alkstore_dead_job (id, queue, priority, run_at, enqueued_at, attempts, max_attempts,
    visibility_timeout_s, backoff_base_s, codec, payload, last_error, died_at)
WITH RECURSIVE series (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM series WHERE n < %(count)s)
SELECT -n, %(queue)s, 9, 0, 0, 3, 3, 300, 5, 'json', CAST('null' AS BLOB), 'failed', 0 FROM series
"""


def fill(
    count, *, queue="jobs", state="pending", priority="n %% 3", run_at="s - 3600 + n %% 1800",
    attempts=0, deadline=0,
):  # fmt: skip
    """Store many rows by one statement; ``priority`` and ``run_at`` are SQL over ``n``."""
    values = {"count": count, "queue": queue, "state": state, "attempts": attempts}
    held = {"held": state == "processing", "deadline": deadline}
    with connections["sqlite"].cursor() as cursor:
        cursor.execute(FILL.format(priority=priority, run_at=run_at), values | held)


def fill_dead(count, queue="jobs"):
    with connections["sqlite"].cursor() as cursor:
        cursor.execute(FILL_DEAD, {"count": count, "queue": queue})


@pytest.fixture(autouse=True)
def without_statistics(alias):
    """Leave no statistics to others."""
    yield
    for table in ("job", "dead_job"):
        execute(alias, f"DELETE FROM __alkstore_{table}")
    execute(alias, "ANALYZE")


def stages(alias):
    """Go round twice: without statistics, and with fresh ones."""
    yield "never analyzed"
    execute(alias, "ANALYZE")
    yield "analyzed"


def execute(alias, statement):
    with connections[alias].cursor() as cursor:
        cursor.execute(statement)


def run_counted(alias, name, **values):
    """Run a statement of the engine and undo it; return its rows and the instructions it took."""
    connection = connections[alias]
    steps = 0

    def step():
        nonlocal steps
        steps += 1
        return 0

    statement = getattr(engine_for(alias).sql, name)
    with transaction.atomic(using=alias), connection.cursor() as cursor:
        connection.connection.set_progress_handler(step, STEP)
        try:
            cursor.execute(statement, {"now_us": None, **values})
            rows = cursor.fetchall()
        finally:
            connection.connection.set_progress_handler(None, 0)
        transaction.set_rollback(True, using=alias)
    return rows, steps * STEP


def claim(alias, *, queue="jobs", n=N):
    """Claim as the engine does, and undo it; return how many and what it cost."""
    _, spent = run_counted(alias, "HAS_SPENT", queue=queue)
    [[ready]], asked = run_counted(alias, "HAS_READY", queue=queue, n=1)
    if not ready:
        return 0, spent + asked
    rows, taken = run_counted(alias, "CLAIM", queue=queue, worker_id="w", n=n, token=1)
    return len(rows), spent + asked + taken


def plan(alias, name, **values):
    statement = "EXPLAIN QUERY PLAN " + getattr(engine_for(alias).sql, name)
    with connections[alias].cursor() as cursor:
        cursor.execute(statement, {"now_us": None, **values})
        return [row[3] for row in cursor.fetchall()]


def assert_by_index(alias):
    """Each look at the table goes by one of its indexes or by id; only the few chosen are sorted."""
    for name in ("CLAIM", "HAS_READY"):
        steps = plan(alias, name, queue="jobs", worker_id="w", n=N, token=1)
        looks = [
            step for step in steps if "__alkstore_" in step or " job" in step or "lower" in step
        ]
        assert looks, steps
        for look in looks:
            assert look.startswith("SEARCH"), look
            assert (
                "INDEX __alkstore_job_claim (queue=?" in look
                or "INDEX __alkstore_job_lapse (queue=?" in look
                or "USING INTEGER PRIMARY KEY (rowid=?)" in look
            ), look
        assert sum("TEMP B-TREE" in step for step in steps) <= 1, steps
        assert not any("dead" in step for step in steps)


def test_deep_backlog(alias):
    """3.3 FR-099 A claim out of 100,000 ready jobs costs what one out of 1,000 does."""
    fill(1_000)
    shallow, shallow_cost = claim(alias)
    assert shallow == N
    fill(BACKLOG)
    for stage in stages(alias):
        deep, deep_cost = claim(alias)
        assert deep == N, stage
        assert_by_index(alias)
        assert deep_cost <= N * INSTRUCTIONS_PER_ROW, stage
        assert deep_cost <= 1.2 * shallow_cost, stage


def test_rows_that_are_none_of_its_business(alias):
    """3.10 FR-099 Other queues' jobs and dead jobs, however many, cost a claim nothing."""
    fill(1_000)
    _, alone = claim(alias)
    fill(ELSEWHERE, queue="other", priority="9")
    fill(ELSEWHERE, queue="later", run_at="s + 3600 + n")
    fill_dead(ELSEWHERE)
    for stage in stages(alias):
        count, among = claim(alias)
        assert count == N, stage
        assert_by_index(alias)
        assert among <= 1.2 * alone, stage
        for queue in ("later", "empty"):
            count, cost = claim(alias, queue=queue)
            assert count == 0, stage
            assert cost <= 1_000, stage


def test_delayed_jobs_of_higher_priority(alias):
    """3.3 FR-099 A million delayed jobs of higher priority are not walked over on the way to ten ready.

    In full with ALKSTORE_TEST_FULL=1; else a fifth of them.
    """
    fill(N, priority="0")
    _, alone = claim(alias)
    fill(MANY_DELAYED, priority="1 + n %% 5", run_at="s + 3600 + n")
    for stage in stages(alias):
        count, behind = claim(alias)
        assert count == N, stage
        assert_by_index(alias)
        assert behind <= alone + 5 * 300, stage  # a probe for each priority


def test_priorities_below_are_not_visited(alias):
    """3.3 FR-099 Lower priorities, however many there are, are left alone once n jobs are found."""
    fill(10_000, priority="-n")
    fill(N, priority="1")
    for stage in stages(alias):
        count, cost = claim(alias)
        assert count == N, stage
        assert_by_index(alias)
        assert cost <= N * INSTRUCTIONS_PER_ROW, stage


def test_lapsed_jobs(alias):
    """3.3 FR-099 Of 50,000 lapsed and 50,000 running jobs, ten are claimed by the index alone."""
    fill(1_000, state="processing", attempts=1, deadline=-60)
    shallow, shallow_cost = claim(alias)
    assert shallow == N
    fill(BACKLOG // 2, state="processing", attempts=1, deadline=-60)
    fill(BACKLOG // 2, state="processing", attempts=1, deadline=600, priority="0")
    for stage in stages(alias):
        deep, deep_cost = claim(alias)
        assert deep == N, stage
        assert_by_index(alias)
        assert deep_cost <= 1.2 * shallow_cost, stage


def test_running_jobs_in_front_of_lapsed_ones(alias):
    """3.3 FR-099 Running jobs before a lapsed one are passed in the index, a few steps each."""
    fill(BACKLOG // 2, state="processing", attempts=1, deadline=600, priority="9")
    fill(N, state="processing", attempts=1, deadline=-60, priority="0")
    for stage in stages(alias):
        count, cost = claim(alias)
        assert count == N, stage
        assert_by_index(alias)
        assert cost <= 40 * BACKLOG // 2, stage


def test_spent_jobs(alias):
    """3.4 FR-099 Whether a claim must bury anything first is told by an index, among any number."""
    fill(BACKLOG // 2, state="processing", attempts=1, deadline=-60)
    fill(BACKLOG // 2, state="processing", attempts=3, deadline=600)
    for stage in stages(alias):
        rows, cost = run_counted(alias, "HAS_SPENT", queue="jobs")
        assert [tuple(row) for row in rows] == [(0,)], stage
        assert cost <= 100, stage
        steps = plan(alias, "HAS_SPENT", queue="jobs")
        assert any("__alkstore_job_spent" in step for step in steps), stage


def test_an_empty_claim_takes_no_write_lock(alias, sql_log, make_queue):
    """FR-131 A claimant that finds nothing sends no statement that writes."""
    fill(1_000, run_at="s + 3600")
    sql_log.clear()
    assert make_queue().claim_batch("w", N) == []
    assert [statement.split("*/")[0] for statement in sql_log] == [
        "/* alkstore:has_spent ",
        "/* alkstore:has_ready ",
    ]
