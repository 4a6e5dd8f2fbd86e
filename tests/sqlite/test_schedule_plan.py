"""What a tick costs on SQLite with many schedules, by its plans: 4.5."""

import json

import pytest
from django.db import connections

from alkstore_django.engines.registry import engine_for

pytestmark = pytest.mark.parametrize("alias", ["sqlite"], indirect=True)

MANY = 20_000
FILL = """
INSERT INTO __alkstore_schedule (name, next_boundary_at, first_boundary_at, registered_at,
    changed_at, interval_s, visibility_timeout_s, backoff_base_s, priority, max_attempts, spec,
    queue, codec, payload)
WITH RECURSIVE series (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM series WHERE n < %s)
SELECT 's' || n, unixepoch() + n %% 1000 - 10, unixepoch() + n %% 1000 - 10, 0, 0, 1000, 300, 5, 0,
       3, '@every 1000s', 'q', 'json', CAST('null' AS BLOB) FROM series
"""


@pytest.fixture(params=["analyzed", "not analyzed"])
def many(alias, request):
    with connections[alias].cursor() as cursor:
        cursor.execute(FILL, [MANY])
        if request.param == "analyzed":
            cursor.execute("ANALYZE")
    yield engine_for(alias)
    with connections[alias].cursor() as cursor:
        cursor.execute("DELETE FROM __alkstore_schedule")
        cursor.execute("ANALYZE")


def plan(engine, statement, **values):
    return " | ".join(row[3] for row in engine.rows("EXPLAIN QUERY PLAN " + statement, **values))


def test_due_is_an_index_range(many):
    """4.5 The due ones come from the index in order, and nothing is sorted."""
    text = plan(many, many.schedules.sql.DUE, until=2**40, after_at=0, after_name="", n=100)
    assert "SEARCH" in text and "__alkstore_schedule_due" in text, text
    assert "SCAN" not in text and "TEMP B-TREE" not in text, text


def test_the_outlook_is_two_looks_at_the_index(many):
    """4.5 However many there are, and whatever is due."""
    text = plan(many, many.schedules.sql.OUTLOOK)
    assert text.count("__alkstore_schedule_due") == 2, text
    assert "TEMP B-TREE" not in text, text


def test_a_batch_touches_its_own_rows(many):
    """4.5 Advance and fire find their rows by name."""
    fire = plan(many, many.schedules.sql.FIRE, fires=json.dumps([[0, "s1"]]))
    advance = plan(many, many.schedules.sql.ADVANCE, advances=json.dumps([["s1", 0, 0, 0, 0, 0]]))
    for text in (fire, advance):
        assert "name=?)" in text, text
        assert "SCAN schedule" not in text and "SCAN kept" not in text, text
