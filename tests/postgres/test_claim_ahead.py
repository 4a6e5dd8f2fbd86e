"""The worker's own claim on PostgreSQL against the model, and what it costs: 3.3, issue 3."""

import itertools
import re

import pytest
from django.db import connections, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import sql

from alkstore_django.core.frontier import Frontier
from alkstore_django.engines.registry import engine_for
from alkstore_django.models import Job as JobMirror
from tests.postgres.conftest import direct_connection
from tests.postgres.test_claim_plan import assert_by_index, buffers, explained, fill, stages
from tests.support.claim_model import ahead
from tests.support.tampering import worst_plans
from tests.support.transactions import rolled_back

pytestmark = pytest.mark.parametrize("alias", ["postgres"], indirect=True)

NOW = 1_800_000_000
N = 10
BATCH = 100
BACKLOG = 40_000
CLAIMED = 25_000
QUEUES = ("a", "b")

STORE = """
INSERT INTO alkstore.job (queue, state, priority, run_at, expires_at, enqueued_at, attempts,
    max_attempts, visibility_timeout_s, backoff_base_s, codec, payload,
    worker_id, claimed_at, deadline, claim_token)
VALUES (%s, %s, %s, %s, %s, 0, %s, 3, 300, 5, 'json', 'null', %s, %s, %s, %s)
RETURNING id
"""

kept_rows = st.fixed_dictionaries(
    {
        "queue": st.sampled_from(["a", "a", "b"]),
        "priority": st.sampled_from([-(2**31), -1, 0, 0, 0, 3, 2**31 - 1]),
        "run_at": st.sampled_from([-7200, -5, -4, -1, 0, 0, 1, 60]),  # from now
        "expires_at": st.sampled_from([None, None, None, 60, 0, -1]),
        "attempts": st.sampled_from([0, 0, 1, 2]),
        "is_claimed": st.sampled_from([False, False, False, True]),
        "is_held": st.sampled_from([False, False, False, False, True]),
    }
)
sizes = st.lists(st.integers(1, 6), min_size=1, max_size=6)


class Row:
    """A stored row, and whether it is ready for a worker of its queue."""

    def __init__(self, kept):
        self.kept = kept
        self.id = 0
        self.priority = kept["priority"]
        self.run_at = NOW + kept["run_at"]

    @property
    def is_ready(self):
        expires_at = self.kept["expires_at"]
        unexpired = expires_at is None or expires_at > 0
        is_free = not self.kept["is_claimed"] and not self.kept["is_held"]
        return self.kept["run_at"] <= 0 and unexpired and is_free

    def store(self, connection):
        kept = self.kept
        expires_at = None if kept["expires_at"] is None else NOW + kept["expires_at"]
        claim = [None] * 4
        if kept["is_claimed"]:  # and lapsed: a claim ahead leaves it to the exact one
            claim = ["gone", NOW - 400, NOW - 100, 1]
        state = "processing" if kept["is_claimed"] else "pending"
        attempts = max(kept["attempts"], int(kept["is_claimed"]))
        values = [kept["queue"], state, self.priority, self.run_at, expires_at, attempts, *claim]
        self.id = connection.execute(STORE, values).fetchone()[0]


@pytest.fixture(autouse=True)
def _on_untouched_tables(untouched_tables):
    """Plans depend on what is there, and on nothing else."""


@pytest.fixture
def jobs(alias):
    """The manager of the alias."""
    return JobMirror.objects.db_manager(alias)


def store(connection, rows):
    with connection.transaction():
        for row in rows:
            row.store(connection)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    earlier=st.lists(kept_rows, max_size=12),
    later=st.lists(kept_rows, max_size=25),
    sizes=sizes,
    worst=st.booleans(),
)
def test_order_and_completeness(alias, clock, jobs, earlier, later, sizes, worst):
    """3.3 Issue 3: every claim ahead takes exactly what the model's does, in claim order: of many
    queues and priorities, delayed, expired, retried, backdated, claimed and locked rows."""
    clock.move_to(NOW)
    engine_for(alias).empty()
    frontiers = {queue: Frontier() for queue in QUEUES}
    with direct_connection() as connection, direct_connection() as holder:
        rows = [Row(kept) for kept in earlier]
        store(connection, rows)
        for queue in QUEUES:  # what the frontier knows when the later rows come
            taken = jobs.claim(queue, worker_id="w", n=5)
            frontiers[queue].note(taken, full=len(taken) == 5)
            gone = {row.id for row in taken}
            rows = [row for row in rows if row.id not in gone]
        fresh = [Row(kept) for kept in later]
        store(connection, fresh)
        rows += fresh
        held = [row.id for row in rows if row.kept["is_held"]]
        with holder.transaction():
            holder.execute("SELECT 1 FROM alkstore.job WHERE id = ANY(%s) FOR UPDATE", [held])
            for n, queue in itertools.product(sizes, QUEUES):
                ready = [row for row in rows if row.is_ready and row.kept["queue"] == queue]
                segments = frontiers[queue].segments()
                expected = [row.id for row in ahead(ready, segments, n)]
                if worst:
                    with worst_plans(alias):
                        taken = jobs.claim_ahead(queue, worker_id="w", n=n, segments=segments)
                else:
                    taken = jobs.claim_ahead(queue, worker_id="w", n=n, segments=segments)
                assert [row.id for row in taken] == expected
                frontiers[queue].note(taken, full=len(taken) == n)
                rows = [row for row in rows if row.id not in set(expected)]


def test_exactly_n_are_claimed_and_marked(alias, jobs):
    """FR-012 Issue 3: under the planner's worst plans n are asked for, n come, and n are marked."""
    fill(20_000)
    frontier, total = Frontier(), 0
    for stage in stages(alias):
        for n in (1, N, BATCH):
            with worst_plans(alias):
                taken = jobs.claim_ahead("jobs", worker_id="w", n=n, segments=frontier.segments())
            frontier.note(taken, full=len(taken) == n)
            total += n
            assert len(taken) == n, stage
            with connections[alias].cursor() as cursor:
                cursor.execute("SELECT count(*) FROM alkstore.job WHERE state = 'processing'")
                assert cursor.fetchone()[0] == total, stage


def test_a_claim_ahead_writes_what_a_claim_writes(alias, clock, jobs, make_queue):
    """3.3 Issue 3: both mark a row alike: attempts, worker, instants, and a fence of its own."""
    queue = make_queue(visibility_timeout_s=30)
    queue.enqueue_many([None] * 2)
    clock.advance(1.5)
    [exactly] = jobs.claim("jobs", worker_id="w", n=1)
    [row] = jobs.claim_ahead("jobs", worker_id="w", n=1, segments=Frontier().segments())
    assert row.claim_token != exactly.claim_token
    assert row._replace(id=0, claim_token=0) == exactly._replace(id=0, claim_token=0)
    assert (row.attempts, row.claimed_at, row.deadline) == (1, NOW + 1, NOW + 2 + 30)


# -- what it costs -------------------------------------------------------------------------


def values(frontier, n=N):
    columns = map(array, zip(*frontier.segments(), strict=True))
    return {
        "now_us": None, "queue": "jobs", "worker_id": "w", "n": n, "token": 1,
        **dict(zip(("lows", "highs", "run_ats", "ids"), columns, strict=True)),
    }  # fmt: skip


def array(numbers):
    return f"{{{','.join(map(str, numbers))}}}"


def claim_ahead_plan(alias, frontier):
    return explained(alias, "CLAIM_AHEAD", **values(frontier))


def generic_plan(alias, frontier):
    """The plan of a prepared statement that the planner made without knowing any value."""
    names = []

    def place(match):
        if match[1] not in names:
            names.append(match[1])
        return f"${names.index(match[1]) + 1}"

    statement = re.sub(r"%\((\w+)\)s", place, engine_for(alias).sql.CLAIM_AHEAD)
    execute = sql.SQL("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE ahead ({})").format(
        sql.SQL(", ").join(sql.Literal(values(frontier)[name]) for name in names)
    )
    with direct_connection() as connection:
        connection.execute("SET plan_cache_mode = force_generic_plan")
        connection.execute("PREPARE ahead AS " + statement.replace("%%", "%"))
        with connection.transaction(force_rollback=True):
            [[plan]] = connection.execute(execute).fetchall()
    return plan[0]["Plan"]


def claim_and_delete(jobs, frontier, count):
    """Work off jobs in batches as a worker does, without the time its handlers take."""
    for _ in range(count // BATCH):
        rows = jobs.claim_ahead("jobs", worker_id="w", n=BATCH, segments=frontier.segments())
        assert len(rows) == BATCH
        frontier.note(rows, full=True)
        assert len(jobs.ack([row.claim for row in rows])) == BATCH


def test_flat_under_a_held_snapshot(alias, jobs):
    """FR-099 Issue 3: while an old snapshot keeps every claimed and deleted entry in the index, a
    claim ahead touches no more than half again as much as at the start; the exact one does.
    With statistics or without, with the planner knowing the values or not."""
    fill(BACKLOG)
    frontier = Frontier()
    claim_and_delete(jobs, frontier, BATCH)
    with direct_connection() as other, other.transaction():
        other.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        other.execute("SELECT count(*) FROM (SELECT 1 FROM alkstore.job LIMIT 1) AS snapshot")
        for plan_of in (claim_ahead_plan, generic_plan):
            plan_of(alias, frontier)  # what is read for the first time costs more
        fresh = {plan: buffers(plan(alias, frontier)) for plan in (claim_ahead_plan, generic_plan)}
        fresh_exact = buffers(explained(alias, "CLAIM", queue="jobs", worker_id="w", n=N, token=1))
        claim_and_delete(jobs, frontier, CLAIMED)
        for stage in stages(alias):
            for plan_of, before in fresh.items():
                plan = plan_of(alias, frontier)
                assert plan["Actual Rows"] == N, stage
                assert_by_index(plan)
                assert set(indexes(plan)) <= {"job_claim", "job_pk"}, (stage, plan_of.__name__)
                assert buffers(plan) <= 1.5 * before, (stage, plan_of.__name__)
        exact = buffers(explained(alias, "CLAIM", queue="jobs", worker_id="w", n=N, token=1))
        assert exact > 3 * fresh_exact


def indexes(plan):
    """Yield the index of every node that has one."""
    if "Index Name" in plan:
        yield plan["Index Name"]
    for child in plan.get("Plans", []):
        yield from indexes(child)


# -- its flush -----------------------------------------------------------------------------


def synchronous_commit(alias):
    with connections[alias].cursor() as cursor:
        cursor.execute("SHOW synchronous_commit")
        return cursor.fetchone()[0]


def test_a_claim_ahead_does_not_wait_for_its_flush(alias, jobs):
    """Issue 3: its own transaction commits without a wait, empty or not; the session's setting is
    as it was, and what else the session writes waits as ever."""
    segments = Frontier().segments()
    for count in (0, 3):
        fill(count)
        with transaction.atomic(using=alias):
            assert len(jobs.claim_ahead("jobs", worker_id="w", n=2, segments=segments)) <= 2
            inside = synchronous_commit(alias)
        assert (inside, synchronous_commit(alias)) == ("off", "on")
        jobs.claim_ahead("jobs", worker_id="w", n=1, segments=segments)
        assert synchronous_commit(alias) == "on"
    with rolled_back(alias):
        jobs.claim_ahead("jobs", worker_id="w", n=1, segments=segments)
    assert synchronous_commit(alias) == "on"
