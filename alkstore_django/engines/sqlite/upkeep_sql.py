"""The statements of upkeep on SQLite; the twin of ``engines/postgres/upkeep_sql.py``."""

from .sql import NOW_S


def _names(walk: str, source: str, condition: str) -> str:
    """A loose index scan, as a part of a WITH clause: from each name the index leads straight
    to the next."""
    return f"""{walk} (queue) AS (
    SELECT * FROM (SELECT queue FROM {source} WHERE {condition} ORDER BY queue LIMIT 1)
    UNION ALL
    SELECT (SELECT job.queue FROM {source}
             WHERE {condition} AND job.queue > {walk}.queue
             ORDER BY job.queue LIMIT 1)
      FROM {walk} WHERE {walk}.queue IS NOT NULL
)"""


_PENDING = "$job AS job INDEXED BY __alkstore_job_claim", "state = 'pending'"
_PROCESSING = "$job AS job INDEXED BY __alkstore_job_lapse", "state = 'processing'"
_KEYED = "$job AS job INDEXED BY __alkstore_job_key", "key IS NOT NULL"

# One scan per partial index; together they hold every live row.
LIVE_QUEUE_NAMES = f"""/* alkstore:live_queue_names */
WITH RECURSIVE {_names("pending", *_PENDING)}, {_names("processing", *_PROCESSING)},
{_names("keyed", *_KEYED)}
SELECT queue FROM (
    SELECT * FROM (SELECT queue FROM pending WHERE queue IS NOT NULL LIMIT %(at_most)s)
    UNION
    SELECT * FROM (SELECT queue FROM processing WHERE queue IS NOT NULL LIMIT %(at_most)s)
    UNION
    SELECT * FROM (SELECT queue FROM keyed WHERE queue IS NOT NULL LIMIT %(at_most)s)
) AS names
LIMIT %(at_most)s
"""

DEAD_QUEUE_NAMES = f"""/* alkstore:dead_queue_names */
WITH RECURSIVE {_names("dead", "$dead_job AS job INDEXED BY __alkstore_dead_job_died", "true")}
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
