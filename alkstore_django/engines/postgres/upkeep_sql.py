"""The statements of upkeep on PostgreSQL; the twin of ``engines/sqlite/upkeep_sql.py``."""

from .outbox_sql import turn_of
from .sql import NOW_S


def _names(walk: str, table: str, condition: str) -> str:
    """A loose index scan, as a part of a WITH clause: from each name the index leads straight
    to the next."""
    return f"""{walk} (queue) AS (
    (SELECT queue FROM {table} WHERE {condition} ORDER BY queue LIMIT 1)
    UNION ALL
    SELECT (SELECT job.queue FROM {table} AS job
             WHERE {condition} AND job.queue > {walk}.queue
             ORDER BY job.queue LIMIT 1)
      FROM {walk} WHERE {walk}.queue IS NOT NULL
)"""


# One scan per partial index; together they hold every live row.
LIVE_QUEUE_NAMES = f"""/* alkstore:live_queue_names */
WITH RECURSIVE {_names("pending", "$job", "state = 'pending'")},
{_names("processing", "$job", "state = 'processing'")},
{_names("keyed", "$job", "key IS NOT NULL")}
SELECT queue FROM (
    (SELECT queue FROM pending WHERE queue IS NOT NULL LIMIT %(at_most)s)
    UNION
    (SELECT queue FROM processing WHERE queue IS NOT NULL LIMIT %(at_most)s)
    UNION
    (SELECT queue FROM keyed WHERE queue IS NOT NULL LIMIT %(at_most)s)
) AS names
LIMIT %(at_most)s
"""

DEAD_QUEUE_NAMES = f"""/* alkstore:dead_queue_names */
WITH RECURSIVE {_names("dead", "$dead_job", "true")}
SELECT queue FROM dead WHERE queue IS NOT NULL LIMIT %(at_most)s
"""

DEAD_COUNT = """/* alkstore:dead_count */
SELECT count(*) FROM (
    SELECT 1 FROM $dead_job WHERE queue = %(queue)s ORDER BY died_at LIMIT %(at_most)s
) AS dead
"""

# Events of one key come into being one after the other: whoever stores one holds this lock to
# the end of the transaction. Locks are taken in one order, so that two such calls cannot
# deadlock, and in a statement of their own: the next one sees what was stored before them.
LOCK_KEYS = f"""/* alkstore:lock_keys */
SELECT pg_advisory_xact_lock(place)
  FROM (SELECT DISTINCT {turn_of("queue", "key")} AS place FROM $dead_job
         WHERE id = ANY(%(ids)s::bigint[]) AND key IS NOT NULL
         ORDER BY place
        OFFSET 0) AS places
"""

ENQUEUE_AGAIN = f"""/* alkstore:enqueue_again */
WITH chosen AS MATERIALIZED (
    SELECT id FROM $dead_job
     WHERE id = ANY(%(ids)s::bigint[])
     ORDER BY id
       FOR UPDATE SKIP LOCKED
), gone AS MATERIALIZED (
    DELETE FROM $dead_job WHERE id = ANY(ARRAY(SELECT id FROM chosen)) RETURNING *
), placed AS MATERIALIZED (
    SELECT gone.*, row_number() OVER (ORDER BY id) AS place,
           CASE WHEN key IS NOT NULL
                 AND (row_number() OVER (PARTITION BY queue, key ORDER BY id) > 1
                      OR EXISTS (SELECT 1 FROM $job AS job
                                  WHERE job.queue = gone.queue AND job.key = gone.key))
                THEN 'behind' ELSE 'pending' END AS state
      FROM gone
), stored AS (
    INSERT INTO $job (queue, state, priority, run_at, attempts, max_attempts,
                      visibility_timeout_s, backoff_base_s, enqueued_at, codec, key, payload)
    SELECT queue, state, priority, {NOW_S}, 0, max_attempts,
           visibility_timeout_s, backoff_base_s, {NOW_S}, codec, key, payload
      FROM placed
     ORDER BY id
    RETURNING id
)
SELECT placed.id, numbered.id, placed.queue, placed.state = 'pending'
  FROM placed
  JOIN (SELECT id, row_number() OVER (ORDER BY id) AS place FROM stored) AS numbered USING (place)
 ORDER BY placed.id
"""
