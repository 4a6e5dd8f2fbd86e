"""The statements of outboxes and inboxes; the twin of ``engines/postgres/outbox_sql.py``.

See ``sql.py`` for the form, and ``engines/outbox.py`` for what is in the way of what. The one
writer's turn is the producers' turn, too: what they insert is there in the order of the ids.
"""

from .sql import CLAIMED_COLUMNS, EXPIRES_AT, MARK_CHOSEN, NOW_S, RUN_AT, ready

# Whether a row is in the way of the later ones of its key: not if it can never be claimed again.
IN_THE_WAY = f"""CASE WHEN first.state = 'processing' AND first.deadline > {NOW_S} THEN 1
         WHEN first.expires_at <= {NOW_S} THEN 0
         WHEN first.state = 'processing' AND first.attempts >= first.max_attempts THEN 0
         ELSE 1 END <> 0"""


def _first_from(key: str) -> str:
    """The first event in the way from a key on, as FROM and what follows it."""
    return f"""FROM $job AS first INDEXED BY __alkstore_job_key
     WHERE first.queue = %(queue)s AND first.key >= {key} AND {IN_THE_WAY}
     ORDER BY first.key, first.id
     LIMIT 1"""


ENQUEUE_KEYED = f"""/* alkstore:enqueue_keyed */
INSERT INTO $job (queue, key, state, priority, run_at, expires_at, attempts, max_attempts,
                  visibility_timeout_s, backoff_base_s, enqueued_at, codec, payload)
VALUES (%(queue)s, %(key)s,
        CASE WHEN (SELECT first.key {_first_from("%(key)s")}) = %(key)s
             THEN 'behind' ELSE 'pending' END,
        %(priority)s,
        {RUN_AT},
        {EXPIRES_AT},
        0, %(max_attempts)s, %(visibility_timeout_s)s, %(backoff_base_s)s, {NOW_S},
        %(codec)s, %(payload)s)
RETURNING id, run_at <= {NOW_S}
"""

# The rest of many: the first of them is in their way.
ENQUEUE_BEHIND = f"""/* alkstore:enqueue_behind */
INSERT INTO $job (queue, key, state, priority, run_at, expires_at, attempts, max_attempts,
                  visibility_timeout_s, backoff_base_s, enqueued_at, codec, payload)
SELECT %(queue)s, %(key)s, 'behind', %(priority)s,
       {RUN_AT},
       {EXPIRES_AT},
       0, %(max_attempts)s, %(visibility_timeout_s)s, %(backoff_base_s)s, {NOW_S},
       %(codec)s, column1
  FROM (VALUES (%(payloads)s))
RETURNING id, run_at <= {NOW_S}
"""

# A row without a key is always its own first.
IN_ORDER = f"""CASE WHEN job.key IS NULL THEN 1
                    WHEN (SELECT first.id {_first_from("job.key")}) = job.id THEN 1
                    ELSE 0 END <> 0"""

_READY_IN_ORDER = ready(f"AND {IN_ORDER}")

# Asked before the claim, so that a claimant that finds nothing never takes the write lock.
HAS_READY_IN_ORDER = f"""/* alkstore:has_ready_in_order */
SELECT EXISTS ({_READY_IN_ORDER})
"""

CLAIM_IN_ORDER = f"""/* alkstore:claim_in_order */
{MARK_CHOSEN}
 WHERE id IN (SELECT id FROM ({_READY_IN_ORDER}) ORDER BY priority DESC, run_at, id LIMIT %(n)s)
RETURNING {CLAIMED_COLUMNS}, key
"""

PROMOTE = f"""/* alkstore:promote */
UPDATE $job SET state = 'pending'
 WHERE state = 'behind'
   AND id IN (SELECT (SELECT CASE WHEN first.key = given.value AND first.state = 'behind'
                                  THEN first.id END {_first_from("given.value")})
                FROM json_each(%(keys)s) AS given)
"""

# One short index range per key that has events behind, however many these are.
WAITING_KEYS = f"""/* alkstore:waiting_keys */
WITH RECURSIVE waiting (key, place) AS (
    SELECT * FROM (SELECT key, 1 FROM $job INDEXED BY __alkstore_job_behind
                    WHERE queue = %(queue)s AND state = 'behind' AND key > %(after)s
                    ORDER BY key LIMIT 1)
    UNION ALL
    SELECT (SELECT above.key FROM $job AS above INDEXED BY __alkstore_job_behind
             WHERE above.queue = %(queue)s AND above.state = 'behind' AND above.key > waiting.key
             ORDER BY above.key LIMIT 1), place + 1
      FROM waiting WHERE waiting.key IS NOT NULL AND place < %(limit)s
)
SELECT waiting.key,
       coalesce((SELECT first.key = waiting.key AND first.state = 'behind'
                   {_first_from("waiting.key")}), 0)
  FROM waiting
 WHERE waiting.key IS NOT NULL
 ORDER BY waiting.key
"""

NOTE_SEEN = f"""/* alkstore:note_seen */
INSERT INTO $inbox (consumer, event_id, seen_at) VALUES (%(consumer)s, %(event_id)s, {NOW_S})
    ON CONFLICT (consumer, event_id) DO NOTHING
"""

FORGET_SEEN = f"""/* alkstore:forget_seen */
DELETE FROM $inbox WHERE (consumer, event_id) IN (
    SELECT consumer, event_id FROM $inbox INDEXED BY __alkstore_inbox_seen
     WHERE consumer = %(consumer)s AND seen_at <= {NOW_S} - %(retention_s)s
     ORDER BY seen_at
     LIMIT %(limit)s
)
"""
