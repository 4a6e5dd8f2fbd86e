"""What a tick costs on PostgreSQL with many schedules, by its plans: 4.5."""

import json

import pytest
from django.db import connections, transaction

from alkstore_django.engines.registry import engine_for

pytestmark = pytest.mark.parametrize("alias", ["postgres"], indirect=True)

MANY = 20_000
FILL = """
INSERT INTO alkstore.schedule (name, next_boundary_at, first_boundary_at, registered_at,
    changed_at, interval_s, visibility_timeout_s, backoff_base_s, priority, max_attempts, spec,
    queue, codec, payload)
SELECT 's' || n, now.s + n %% 1000 - 10, now.s + n %% 1000 - 10, now.s, now.s, 1000, 300, 5, 0, 3,
       '@every 1000s', 'q', 'json', convert_to('null', 'UTF8')
  FROM (SELECT floor(extract(epoch FROM statement_timestamp()))::bigint AS s) AS now,
       generate_series(1, %s) AS n
"""


@pytest.fixture(params=["analyzed", "not analyzed"])
def many(alias, request):
    with connections[alias].cursor() as cursor:
        cursor.execute("TRUNCATE alkstore.schedule")
        cursor.execute(FILL, [MANY])
        if request.param == "analyzed":
            cursor.execute("ANALYZE alkstore.schedule")
    yield engine_for(alias)
    with connections[alias].cursor() as cursor:
        cursor.execute("TRUNCATE alkstore.schedule")


def plan(engine, statement, **values):
    [[text]] = engine.rows("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + statement, **values)
    return (text if isinstance(text, list) else json.loads(text))[0]["Plan"]


def nodes(tree):
    yield tree
    for child in tree.get("Plans", ()):
        yield from nodes(child)


def test_due_is_an_index_range(many):
    """4.5 The due ones come from the index in order: nothing is sorted or scanned whole."""
    until = many.clock_us() // 10**6
    with transaction.atomic(using="postgres"):
        tree = plan(many, many.schedules.sql.DUE, until=until, after_at=0, after_name="", n=100)
    kinds = {node["Node Type"] for node in nodes(tree)}
    assert "Sort" not in kinds and "Seq Scan" not in kinds, kinds
    assert {n.get("Index Name") for n in nodes(tree)} >= {"schedule_due"}
    assert tree["Actual Rows"] == 100
    assert tree["Shared Hit Blocks"] + tree["Shared Read Blocks"] < 1000


def test_the_outlook_is_two_looks_at_the_index(many):
    """4.5 However many there are, and whatever is due."""
    tree = plan(many, many.schedules.sql.OUTLOOK)
    kinds = {node["Node Type"] for node in nodes(tree)}
    assert "Seq Scan" not in kinds and "Sort" not in kinds, kinds
    assert tree["Shared Hit Blocks"] + tree["Shared Read Blocks"] < 50


def test_a_batch_touches_its_own_rows(many):
    """4.5 Advance and fire find their rows by name, and no others."""
    names = [f"s{n}" for n in range(1, 101)]
    zeros = [0] * 100
    with transaction.atomic(using="postgres"):
        trees = [
            plan(many, many.schedules.sql.FIRE, boundaries=zeros, names=names),
            plan(
                many, many.schedules.sql.ADVANCE,
                names=names, froms=zeros, nexts=zeros, fireds=zeros, skippeds=zeros, lasts=zeros,
            ),
        ]  # fmt: skip
        transaction.set_rollback(True, using="postgres")
    for tree in trees:
        assert "Seq Scan" not in {node["Node Type"] for node in nodes(tree)}, tree
