"""Every statement of the SQLite engine; the twin of ``engines/postgres/sql.py``.

``$job`` and ``$dead_job`` become quoted identifiers when the engine is made; ``%(name)s``
are parameters, and a literal percent sign is doubled. ``%(now_us)s`` is NULL in production:
then SQLite's clock decides, which stands still within one statement and has milliseconds.
A move to the dead takes two statements here: such a constant is a pair, run in order in one
transaction with one clock read, so that both choose the same rows.
"""

NOW_US = """coalesce(%(now_us)s,
             CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000)"""
NOW_S = f"({NOW_US} / 1000000)"
CEIL_NOW_S = f"(({NOW_US} + 999999) / 1000000)"

# What an enqueue promises: the lengths are added to the clock, and the sum is rounded up.
RUN_AT = f"""coalesce(({NOW_US} + %(delay_us)s + 999999) / 1000000, %(run_at)s, {NOW_S})"""
EXPIRES_AT = f"({NOW_US} + %(expires_us)s + 999999) / 1000000"

COLUMNS = """id, queue, CASE state WHEN 'behind' THEN 'pending' ELSE state END AS state, priority,
    run_at, expires_at, attempts, max_attempts, visibility_timeout_s, backoff_base_s,
    enqueued_at, worker_id, claimed_at, deadline,
    claim_token, codec, payload, NULL AS last_error, NULL AS died_at, key"""
CLAIMED_COLUMNS = """id, priority, run_at, expires_at, attempts, max_attempts,
    visibility_timeout_s, backoff_base_s, enqueued_at, claimed_at, deadline, codec, payload"""
DEAD_COLUMNS = """id, queue, 'dead' AS state, priority, run_at, expires_at, attempts, max_attempts,
    visibility_timeout_s, backoff_base_s, enqueued_at, worker_id, claimed_at, NULL AS deadline,
    NULL AS claim_token, codec, payload, last_error, died_at, key"""
KEPT_COLUMNS = """id, queue, priority, run_at, expires_at, attempts, max_attempts,
    visibility_timeout_s, backoff_base_s, enqueued_at, worker_id, claimed_at, codec, key, payload"""

# The one predicate of a held claim, and what makes a lapsed one: exact complements.
UNLAPSED = f"state = 'processing' AND deadline > {NOW_S}"
LAPSED = f"state = 'processing' AND deadline <= {NOW_S}"
HELD = f"id = %(id)s AND claim_token = %(token)s AND {UNLAPSED}"
UNEXPIRED = f"(expires_at IS NULL OR expires_at > {NOW_S})"

# The claims of a batch: a JSON array of [id, token] pairs, joined to the rows still held.
GIVEN = "json_each(%(claims)s) AS given"
HELD_OF_GIVEN = f"""SELECT job.id FROM {GIVEN} CROSS JOIN $job AS job
                  WHERE job.id = json_extract(given.value, '$$[0]')
                    AND job.claim_token = json_extract(given.value, '$$[1]')
                    AND {UNLAPSED}"""

CLOCK = f"""/* alkstore:clock */
SELECT {NOW_US}
"""

ENQUEUE = f"""/* alkstore:enqueue */
INSERT INTO $job (queue, state, priority, run_at, expires_at, attempts, max_attempts,
                  visibility_timeout_s, backoff_base_s, enqueued_at, codec, payload)
VALUES (%(queue)s, 'pending', %(priority)s,
        {RUN_AT},
        {EXPIRES_AT},
        0, %(max_attempts)s, %(visibility_timeout_s)s, %(backoff_base_s)s, {NOW_S},
        %(codec)s, %(payload)s)
RETURNING id, run_at <= {NOW_S}
"""

# The common case by itself: the clock is all there is to reckon with, and half of the parsing.
ENQUEUE_READY = f"""/* alkstore:enqueue_ready */
INSERT INTO $job (queue, state, priority, run_at, attempts, max_attempts,
                  visibility_timeout_s, backoff_base_s, enqueued_at, codec, payload)
VALUES (%(queue)s, 'pending', %(priority)s, {NOW_S}, 0, %(max_attempts)s,
        %(visibility_timeout_s)s, %(backoff_base_s)s, {NOW_S}, %(codec)s, %(payload)s)
RETURNING id
"""

# SQLite has no array parameters: the engine puts one more parameter per payload in place of
# the mark.
ENQUEUE_MANY = f"""/* alkstore:enqueue_many */
INSERT INTO $job (queue, state, priority, run_at, expires_at, attempts, max_attempts,
                  visibility_timeout_s, backoff_base_s, enqueued_at, codec, payload)
SELECT %(queue)s, 'pending', %(priority)s,
       {RUN_AT},
       {EXPIRES_AT},
       0, %(max_attempts)s, %(visibility_timeout_s)s, %(backoff_base_s)s, {NOW_S},
       %(codec)s, column1
  FROM (VALUES (%(payloads)s))
RETURNING id, run_at <= {NOW_S}
"""

HAS_SPENT = f"""/* alkstore:has_spent */
SELECT EXISTS (SELECT 1 FROM $job INDEXED BY __alkstore_job_spent
                WHERE queue = %(queue)s AND attempts >= max_attempts AND {LAPSED})
"""

_SPENT_IDS = f"""SELECT id FROM $job INDEXED BY __alkstore_job_spent
     WHERE queue = %(queue)s AND attempts >= max_attempts AND {LAPSED}
     ORDER BY deadline, id
     LIMIT %(limit)s"""
BURY_SPENT = (
    f"""/* alkstore:bury_spent */
INSERT INTO $dead_job ({KEPT_COLUMNS}, last_error, died_at)
SELECT {KEPT_COLUMNS}, %(error)s, {NOW_S} FROM $job WHERE id IN ({_SPENT_IDS})
""",
    f"""/* alkstore:bury_spent */
DELETE FROM $job WHERE id IN ({_SPENT_IDS})
""",
)


# The pending jobs are found by a skip scan: one short index range per distinct priority, so
# that jobs which are not ready yet are never walked over, whatever their number. CROSS JOIN
# fixes the order of the loops, and with it the order of the rows; INDEXED BY keeps the
# planner from sorting, and the likelihood (of few priorities) from scanning the whole table
# for a Bloom filter after ANALYZE. The lapsed ones come in the same order from an index of
# their own.
def ready(also: str = "") -> str:
    """The ready jobs, as a compound SELECT of id, priority and run_at.

    Args:
        also: one more condition on them, beginning with AND.
    """
    return f"""
    SELECT * FROM (
        WITH RECURSIVE priorities (priority) AS (
            SELECT * FROM (SELECT priority FROM $job INDEXED BY __alkstore_job_claim
                            WHERE queue = %(queue)s AND state = 'pending'
                            ORDER BY priority DESC LIMIT 1)
            UNION ALL
            SELECT (SELECT lower.priority FROM $job AS lower INDEXED BY __alkstore_job_claim
                     WHERE lower.queue = %(queue)s AND lower.state = 'pending'
                       AND lower.priority < priorities.priority
                     ORDER BY lower.priority DESC LIMIT 1)
              FROM priorities WHERE priorities.priority IS NOT NULL
        )
        SELECT job.id, job.priority, job.run_at
          FROM priorities CROSS JOIN $job AS job INDEXED BY __alkstore_job_claim
         WHERE likelihood(priorities.priority IS NOT NULL, 0.000001)
           AND job.queue = %(queue)s AND job.state = 'pending'
           AND job.priority = priorities.priority AND job.run_at <= {NOW_S} AND {UNEXPIRED}
           {also}
         LIMIT %(n)s
    )
    UNION ALL
    SELECT * FROM (
        SELECT id, priority, run_at FROM $job AS job INDEXED BY __alkstore_job_lapse
         WHERE queue = %(queue)s AND {LAPSED} AND attempts < max_attempts AND {UNEXPIRED}
           {also}
         ORDER BY priority DESC, run_at, id
         LIMIT %(n)s
    )"""


# What a claim does to the rows that it has chosen.
MARK_CHOSEN = f"""UPDATE $job
   SET state = 'processing', attempts = attempts + 1, worker_id = %(worker_id)s,
       claimed_at = {NOW_S}, deadline = {CEIL_NOW_S} + visibility_timeout_s,
       claim_token = %(token)s"""

# Asked before the claim, so that a claimant that finds nothing never takes the write lock.
HAS_READY = f"""/* alkstore:has_ready */
SELECT EXISTS ({ready()})
"""

CLAIM = f"""/* alkstore:claim */
{MARK_CHOSEN}
 WHERE id IN (SELECT id FROM ({ready()}) ORDER BY priority DESC, run_at, id LIMIT %(n)s)
RETURNING {CLAIMED_COLUMNS}
"""

ACK = f"""/* alkstore:ack */
DELETE FROM $job WHERE id IN ({HELD_OF_GIVEN})
RETURNING id
"""

ACK_IDS = f"""/* alkstore:ack_ids */
DELETE FROM $job WHERE id IN (SELECT value FROM json_each(%(ids)s)) AND {UNLAPSED}
"""

RETRY = f"""/* alkstore:retry */
UPDATE $job
   SET state = 'pending', run_at = ({NOW_US} + %(delay_us)s + 999999) / 1000000,
       worker_id = NULL, claimed_at = NULL, deadline = NULL, claim_token = NULL
 WHERE {HELD} AND attempts < max_attempts
"""

BURY = (
    f"""/* alkstore:bury */
INSERT INTO $dead_job ({KEPT_COLUMNS}, last_error, died_at)
SELECT {KEPT_COLUMNS}, %(error)s, {NOW_S} FROM $job WHERE {HELD}
""",
    f"""/* alkstore:bury */
DELETE FROM $job WHERE {HELD}
""",
)

HEARTBEAT = f"""/* alkstore:heartbeat */
UPDATE $job
   SET deadline = ({NOW_US} + %(extend_us)s + 999999) / 1000000
 WHERE {HELD}
"""

RENEW = f"""/* alkstore:renew */
UPDATE $job
   SET deadline = {CEIL_NOW_S} + visibility_timeout_s
 WHERE id IN ({HELD_OF_GIVEN})
RETURNING id
"""

STILL_HELD = f"""/* alkstore:still_held */
{HELD_OF_GIVEN}
"""

GIVE_BACK = f"""/* alkstore:give_back */
UPDATE $job
   SET state = 'pending', attempts = attempts - 1,
       worker_id = NULL, claimed_at = NULL, deadline = NULL, claim_token = NULL
 WHERE id IN ({HELD_OF_GIVEN})
RETURNING id
"""

CANCEL = """/* alkstore:cancel */
DELETE FROM $job WHERE id = %(id)s
"""

GET_JOB = f"""/* alkstore:get_job */
SELECT {COLUMNS} FROM $job
 WHERE id = %(id)s AND (%(queue)s IS NULL OR queue = %(queue)s)
UNION ALL
SELECT {DEAD_COLUMNS} FROM $dead_job
 WHERE id = %(id)s AND (%(queue)s IS NULL OR queue = %(queue)s)
"""

_PAST_IDS = f"""SELECT id FROM $job INDEXED BY __alkstore_job_expires
     WHERE queue = %(queue)s AND expires_at <= {NOW_S}
     ORDER BY expires_at, id
     LIMIT %(limit)s"""
SWEEP_EXPIRED = (
    f"""/* alkstore:sweep_expired */
INSERT INTO $dead_job ({KEPT_COLUMNS}, last_error, died_at)
SELECT {KEPT_COLUMNS}, %(error)s, {NOW_S} FROM $job WHERE id IN ({_PAST_IDS})
""",
    f"""/* alkstore:sweep_expired */
DELETE FROM $job WHERE id IN ({_PAST_IDS})
""",
)

PURGE_DEAD = f"""/* alkstore:purge_dead */
DELETE FROM $dead_job WHERE id IN (
    SELECT id FROM $dead_job INDEXED BY __alkstore_dead_job_died
     WHERE queue = %(queue)s AND died_at <= {NOW_S} - %(retention_s)s AND died_at >= %(since)s
     ORDER BY died_at
     LIMIT %(limit)s
)
RETURNING died_at
"""

LIVE_COUNT = """/* alkstore:live_count */
SELECT count(*) FROM (
    SELECT * FROM (SELECT 1 FROM $job INDEXED BY __alkstore_job_claim
                    WHERE queue = %(queue)s AND state = 'pending' LIMIT %(at_most)s)
    UNION ALL
    SELECT * FROM (SELECT 1 FROM $job INDEXED BY __alkstore_job_lapse
                    WHERE queue = %(queue)s AND state = 'processing' LIMIT %(at_most)s)
    UNION ALL
    SELECT * FROM (SELECT 1 FROM $job INDEXED BY __alkstore_job_behind
                    WHERE queue = %(queue)s AND state = 'behind' LIMIT %(at_most)s)
)
"""

HAS_TABLES = """/* alkstore:has_tables */
SELECT count(*) = json_array_length(%(names)s) FROM sqlite_master
 WHERE type = 'table' AND name IN (SELECT value FROM json_each(%(names)s))
"""

EMPTY = tuple(
    f"""/* alkstore:empty */
DELETE FROM {table}
"""
    for table in ("$job", "$dead_job", "$schedule", "$lease", "$inbox")
)
