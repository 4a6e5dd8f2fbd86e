"""The statements of outboxes and inboxes; the twin of ``engines/sqlite/outbox_sql.py``.

See ``sql.py`` for the form, and ``engines/outbox.py`` for what is in the way of what.
"""

from .sql import CLAIMED_COLUMNS, EXPIRES_AT, MARK_CHOSEN, NOW_S, RUN_AT, candidates

# Whether a row is in the way of the later ones of its key: not if it can never be claimed again.
# A number, and unequal to 0: the planner takes that for true of nearly all rows, as it is. If it
# believed in half of them it might rather fetch and sort the rows than follow their index.
IN_THE_WAY = f"""CASE WHEN first.state = 'processing' AND first.deadline > {NOW_S} THEN 1
         WHEN first.expires_at <= {NOW_S} THEN 0
         WHEN first.state = 'processing' AND first.attempts >= first.max_attempts THEN 0
         ELSE 1 END <> 0"""


def _first_from(key: str) -> str:
    """The first event in the way from a key on, as FROM and what follows it.

    Asked for like this, and not for that key alone, since no index but that of the keys has
    the rows in this order.
    """
    return f"""FROM $job AS first
     WHERE first.queue = %(queue)s AND first.key >= {key} AND {IN_THE_WAY}
     ORDER BY first.key, first.id
     LIMIT 1"""


# Producers of one key take turns: the id is drawn after the lock, which lasts until the
# transaction has ended and its row is there for all to see.
def turn_of(queue: str, key: str) -> str:
    """The number of the advisory lock of a key; all that store its events take this one."""
    return f"hashtextextended({key}, hashtextextended({queue}, 0))"


_TURN = f"SELECT pg_advisory_xact_lock({turn_of('%(queue)s', '%(key)s')})"

# A commit that a crash of the server may forget: a claim, or a promotion, is then made again.
_UNFLUSHED = "SELECT set_config('synchronous_commit', 'off', true)"

ENQUEUE_KEYED = f"""/* alkstore:enqueue_keyed */
WITH turn AS MATERIALIZED ({_TURN})
INSERT INTO $job (queue, key, state, priority, run_at, expires_at, attempts, max_attempts,
                  visibility_timeout_s, backoff_base_s, enqueued_at, codec, payload)
SELECT %(queue)s, %(key)s,
       CASE WHEN (SELECT first.key {_first_from("%(key)s::text")}) = %(key)s::text
            THEN 'behind' ELSE 'pending' END,
       %(priority)s,
       {RUN_AT},
       {EXPIRES_AT},
       0, %(max_attempts)s, %(visibility_timeout_s)s, %(backoff_base_s)s, {NOW_S},
       %(codec)s, %(payload)s
  FROM turn
RETURNING id, run_at <= {NOW_S}
"""

# The rest of many: the first of them has the turn, and is in their way.
ENQUEUE_BEHIND = f"""/* alkstore:enqueue_behind */
INSERT INTO $job (queue, key, state, priority, run_at, expires_at, attempts, max_attempts,
                  visibility_timeout_s, backoff_base_s, enqueued_at, codec, payload)
SELECT %(queue)s, %(key)s, 'behind', %(priority)s,
       {RUN_AT},
       {EXPIRES_AT},
       0, %(max_attempts)s, %(visibility_timeout_s)s, %(backoff_base_s)s, {NOW_S},
       %(codec)s, payload
  FROM unnest(%(payloads)s::bytea[]) WITH ORDINALITY AS given (payload, place)
 ORDER BY place
RETURNING id, run_at <= {NOW_S}
"""

# A row without a key is always its own first. A number again: see IN_THE_WAY.
IN_ORDER = f"""CASE WHEN job.key IS NULL THEN 1
                    WHEN (SELECT first.id {_first_from("job.key")}) = job.id THEN 1
                    ELSE 0 END <> 0"""

# As CLAIM in sql.py, in order per key.
CLAIM_IN_ORDER = f"""/* alkstore:claim_in_order */
WITH RECURSIVE unflushed AS MATERIALIZED (
    {_UNFLUSHED}
), {candidates(f"AND {IN_ORDER}")}, chosen AS MATERIALIZED (
    SELECT id FROM candidates
     WHERE (SELECT count(*) FROM unflushed) = 1
     ORDER BY priority DESC, run_at, id LIMIT %(n)s
)
{MARK_CHOSEN}
RETURNING {CLAIMED_COLUMNS}, job.key
"""

PROMOTE = f"""/* alkstore:promote */
WITH unflushed AS MATERIALIZED (
    {_UNFLUSHED}
), next AS MATERIALIZED (
    SELECT id FROM $job
     WHERE id = ANY(ARRAY(SELECT head.id
                            FROM unnest(%(keys)s::text[]) AS given (key)
                           CROSS JOIN LATERAL (
                                SELECT first.id, first.key, first.state {_first_from("given.key")}
                           ) AS head
                           WHERE head.key = given.key AND head.state = 'behind'))
       AND state <> 'pending' AND state <> 'processing' AND (SELECT count(*) FROM unflushed) = 1
     ORDER BY id
       FOR UPDATE SKIP LOCKED
)
UPDATE $job SET state = 'pending' FROM next WHERE job.id = next.id
"""

# One short index range per key that has events behind, however many these are.
WAITING_KEYS = f"""/* alkstore:waiting_keys */
WITH RECURSIVE waiting (key, place) AS (
    (SELECT key, 1 FROM $job
      WHERE queue = %(queue)s AND state = 'behind' AND key > %(after)s
      ORDER BY key LIMIT 1)
    UNION ALL
    SELECT (SELECT above.key FROM $job AS above
             WHERE above.queue = %(queue)s AND above.state = 'behind' AND above.key > waiting.key
             ORDER BY above.key LIMIT 1), place + 1
      FROM waiting WHERE waiting.key IS NOT NULL AND place < %(limit)s
)
SELECT waiting.key, coalesce(head.key = waiting.key AND head.state = 'behind', false)
  FROM waiting LEFT JOIN LATERAL (
       SELECT first.key, first.state {_first_from("waiting.key")}
       ) AS head ON true
 WHERE waiting.key IS NOT NULL
 ORDER BY waiting.key
"""

NOTE_SEEN = f"""/* alkstore:note_seen */
INSERT INTO $inbox (consumer, event_id, seen_at) VALUES (%(consumer)s, %(event_id)s, {NOW_S})
    ON CONFLICT (consumer, event_id) DO NOTHING
"""

FORGET_SEEN = f"""/* alkstore:forget_seen */
WITH old AS MATERIALIZED (
    SELECT consumer, event_id FROM $inbox
     WHERE consumer = %(consumer)s AND seen_at <= {NOW_S} - %(retention_s)s::bigint
     ORDER BY seen_at
     LIMIT %(limit)s
       FOR UPDATE SKIP LOCKED
)
DELETE FROM $inbox USING old
 WHERE inbox.consumer = old.consumer AND inbox.event_id = old.event_id
"""
