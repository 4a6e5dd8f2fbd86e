"""The statements of upkeep on SQLite; the twin of ``engines/postgres/upkeep_sql.py``."""

from .sql import NOW_S

# A loose index scan: from each name the index leads straight to the next. One scan per partial
# index, and together they hold every live row.
LIVE_QUEUE_NAMES = """/* alkstore:live_queue_names */
WITH RECURSIVE pending (queue) AS (
    SELECT * FROM (SELECT queue FROM $job INDEXED BY __alkstore_job_claim
                    WHERE state = 'pending' ORDER BY queue LIMIT 1)
    UNION ALL
    SELECT (SELECT job.queue FROM $job AS job INDEXED BY __alkstore_job_claim
             WHERE job.state = 'pending' AND job.queue > pending.queue
             ORDER BY job.queue LIMIT 1)
      FROM pending WHERE pending.queue IS NOT NULL
), processing (queue) AS (
    SELECT * FROM (SELECT queue FROM $job INDEXED BY __alkstore_job_lapse
                    WHERE state = 'processing' ORDER BY queue LIMIT 1)
    UNION ALL
    SELECT (SELECT job.queue FROM $job AS job INDEXED BY __alkstore_job_lapse
             WHERE job.state = 'processing' AND job.queue > processing.queue
             ORDER BY job.queue LIMIT 1)
      FROM processing WHERE processing.queue IS NOT NULL
), keyed (queue) AS (
    SELECT * FROM (SELECT queue FROM $job INDEXED BY __alkstore_job_key
                    WHERE key IS NOT NULL ORDER BY queue LIMIT 1)
    UNION ALL
    SELECT (SELECT job.queue FROM $job AS job INDEXED BY __alkstore_job_key
             WHERE job.key IS NOT NULL AND job.queue > keyed.queue
             ORDER BY job.queue LIMIT 1)
      FROM keyed WHERE keyed.queue IS NOT NULL
)
SELECT queue FROM (
    SELECT * FROM (SELECT queue FROM pending WHERE queue IS NOT NULL LIMIT %(at_most)s)
    UNION
    SELECT * FROM (SELECT queue FROM processing WHERE queue IS NOT NULL LIMIT %(at_most)s)
    UNION
    SELECT * FROM (SELECT queue FROM keyed WHERE queue IS NOT NULL LIMIT %(at_most)s)
) AS names
LIMIT %(at_most)s
"""

DEAD_QUEUE_NAMES = """/* alkstore:dead_queue_names */
WITH RECURSIVE dead (queue) AS (
    SELECT * FROM (SELECT queue FROM $dead_job INDEXED BY __alkstore_dead_job_died
                    ORDER BY queue LIMIT 1)
    UNION ALL
    SELECT (SELECT job.queue FROM $dead_job AS job INDEXED BY __alkstore_dead_job_died
             WHERE job.queue > dead.queue
             ORDER BY job.queue LIMIT 1)
      FROM dead WHERE dead.queue IS NOT NULL
)
SELECT queue FROM dead WHERE queue IS NOT NULL LIMIT %(at_most)s
"""

DEAD_COUNT = """/* alkstore:dead_count */
SELECT count(*) FROM (
    SELECT 1 FROM $dead_job INDEXED BY __alkstore_dead_job_died
     WHERE queue = %(queue)s ORDER BY died_at LIMIT %(at_most)s
) AS dead
"""

ENQUEUE_AGAIN = (
    f"""/* alkstore:enqueue_again */
INSERT INTO $job (queue, state, priority, run_at, attempts, max_attempts,
                  visibility_timeout_s, backoff_base_s, enqueued_at, codec, key, payload)
SELECT queue,
       CASE WHEN key IS NOT NULL
             AND (row_number() OVER (PARTITION BY queue, key ORDER BY id) > 1
                  OR EXISTS (SELECT 1 FROM $job AS job INDEXED BY __alkstore_job_key
                              WHERE job.queue = dead.queue AND job.key = dead.key))
            THEN 'behind' ELSE 'pending' END,
       priority, {NOW_S}, 0, max_attempts,
       visibility_timeout_s, backoff_base_s, {NOW_S}, codec, key, payload
  FROM $dead_job AS dead
 WHERE id IN (SELECT value FROM json_each(%(ids)s))
 ORDER BY id
RETURNING id, state = 'pending'
""",
    """/* alkstore:enqueue_again */
DELETE FROM $dead_job WHERE id IN (SELECT value FROM json_each(%(ids)s))
RETURNING id, queue
""",
)
