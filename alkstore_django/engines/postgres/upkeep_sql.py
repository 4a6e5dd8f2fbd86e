"""The statements of upkeep on PostgreSQL; the twin of ``engines/sqlite/upkeep_sql.py``."""

from .sql import NOW_S

# A loose index scan: from each name the index leads straight to the next. One scan per partial
# index, and together they hold every live row.
LIVE_QUEUE_NAMES = """/* alkstore:live_queue_names */
WITH RECURSIVE pending (queue) AS (
    (SELECT queue FROM $job WHERE state = 'pending' ORDER BY queue LIMIT 1)
    UNION ALL
    SELECT (SELECT job.queue FROM $job AS job
             WHERE job.state = 'pending' AND job.queue > pending.queue
             ORDER BY job.queue LIMIT 1)
      FROM pending WHERE pending.queue IS NOT NULL
), processing (queue) AS (
    (SELECT queue FROM $job WHERE state = 'processing' ORDER BY queue LIMIT 1)
    UNION ALL
    SELECT (SELECT job.queue FROM $job AS job
             WHERE job.state = 'processing' AND job.queue > processing.queue
             ORDER BY job.queue LIMIT 1)
      FROM processing WHERE processing.queue IS NOT NULL
), keyed (queue) AS (
    (SELECT queue FROM $job WHERE key IS NOT NULL ORDER BY queue LIMIT 1)
    UNION ALL
    SELECT (SELECT job.queue FROM $job AS job
             WHERE job.key IS NOT NULL AND job.queue > keyed.queue
             ORDER BY job.queue LIMIT 1)
      FROM keyed WHERE keyed.queue IS NOT NULL
)
SELECT queue FROM (
    (SELECT queue FROM pending WHERE queue IS NOT NULL LIMIT %(at_most)s)
    UNION
    (SELECT queue FROM processing WHERE queue IS NOT NULL LIMIT %(at_most)s)
    UNION
    (SELECT queue FROM keyed WHERE queue IS NOT NULL LIMIT %(at_most)s)
) AS names
LIMIT %(at_most)s
"""

DEAD_QUEUE_NAMES = """/* alkstore:dead_queue_names */
WITH RECURSIVE dead (queue) AS (
    (SELECT queue FROM $dead_job ORDER BY queue LIMIT 1)
    UNION ALL
    SELECT (SELECT job.queue FROM $dead_job AS job
             WHERE job.queue > dead.queue
             ORDER BY job.queue LIMIT 1)
      FROM dead WHERE dead.queue IS NOT NULL
)
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
LOCK_KEYS = """/* alkstore:lock_keys */
SELECT pg_advisory_xact_lock(place)
  FROM (SELECT DISTINCT hashtextextended(key, hashtextextended(queue, 0)) AS place FROM $dead_job
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
