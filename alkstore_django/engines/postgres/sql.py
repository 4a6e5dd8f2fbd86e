"""Every statement of the PostgreSQL engine; the twin of ``engines/sqlite/sql.py``.

``$job`` and ``$dead_job`` become quoted identifiers when the engine is made; ``%(name)s``
are parameters, and a literal percent sign is doubled. ``%(now_us)s`` is NULL in production:
then the server's clock decides. ``statement_timestamp()`` moves inside a transaction, and
being STABLE it can be an index condition, which ``clock_timestamp()`` cannot.
"""

NOW_US = """coalesce(%(now_us)s::bigint,
             floor(extract(epoch FROM statement_timestamp()) * 1000000)::bigint)"""
NOW_S = """coalesce(%(now_us)s::bigint / 1000000,
             floor(extract(epoch FROM statement_timestamp()))::bigint)"""
CEIL_NOW_S = f"(({NOW_US} + 999999) / 1000000)"

# What an enqueue promises: the lengths are added to the clock, and the sum is rounded up.
RUN_AT = f"""coalesce(({NOW_US} + %(delay_us)s::bigint + 999999) / 1000000,
                 %(run_at)s::bigint, {NOW_S})"""
EXPIRES_AT = f"({NOW_US} + %(expires_us)s::bigint + 999999) / 1000000"

COLUMNS = """id, queue, CASE state WHEN 'behind' THEN 'pending' ELSE state END AS state, priority,
    run_at, expires_at, attempts, max_attempts, visibility_timeout_s, backoff_base_s,
    enqueued_at, worker_id, claimed_at, deadline,
    claim_token, codec, payload, NULL::text AS last_error, NULL::bigint AS died_at, key"""
CLAIMED_COLUMNS = """job.id, job.priority, job.run_at, job.expires_at, job.attempts,
    job.max_attempts, job.visibility_timeout_s, job.backoff_base_s, job.enqueued_at,
    job.claimed_at, job.deadline, job.codec, job.payload"""
DEAD_COLUMNS = """id, queue, 'dead' AS state, priority, run_at, expires_at, attempts, max_attempts,
    visibility_timeout_s, backoff_base_s, enqueued_at, worker_id, claimed_at,
    NULL::bigint AS deadline, NULL::bigint AS claim_token, codec, payload,
    last_error, died_at, key"""
KEPT_COLUMNS = """id, queue, priority, run_at, expires_at, attempts, max_attempts,
    visibility_timeout_s, backoff_base_s, enqueued_at, worker_id, claimed_at, codec, key, payload"""

# The one predicate of a held claim, and what makes a lapsed one: exact complements.
UNLAPSED = f"state = 'processing' AND deadline > {NOW_S}"
LAPSED = f"state = 'processing' AND deadline <= {NOW_S}"
HELD = f"id = %(id)s AND claim_token = %(token)s AND {UNLAPSED}"
UNEXPIRED = f"(expires_at IS NULL OR expires_at > {NOW_S})"

# The claims of a batch, joined to the rows still held: the token alone says that a row is
# processing (a CHECK sees to it), and asking for the state again would tempt the planner to
# walk all claimed rows. Locked in the order of ids, so that two batches cannot deadlock.
GIVEN = "unnest(%(ids)s::bigint[], %(tokens)s::bigint[]) AS given (id, claim_token)"
HELD_OF_GIVEN = f"""SELECT id FROM {GIVEN} JOIN $job USING (id, claim_token)
     WHERE deadline > {NOW_S}
     ORDER BY id"""

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

ENQUEUE_MANY = f"""/* alkstore:enqueue_many */
INSERT INTO $job (queue, state, priority, run_at, expires_at, attempts, max_attempts,
                  visibility_timeout_s, backoff_base_s, enqueued_at, codec, payload)
SELECT %(queue)s, 'pending', %(priority)s,
       {RUN_AT},
       {EXPIRES_AT},
       0, %(max_attempts)s, %(visibility_timeout_s)s, %(backoff_base_s)s, {NOW_S},
       %(codec)s, payload
  FROM unnest(%(payloads)s::bytea[]) WITH ORDINALITY AS given (payload, place)
 ORDER BY place
RETURNING id, run_at <= {NOW_S}
"""

# The earliest deadline by index, however many rows there are: EXISTS tempts the planner to scan.
HAS_SPENT = f"""/* alkstore:has_spent */
SELECT coalesce((SELECT deadline FROM $job
                  WHERE queue = %(queue)s AND state = 'processing' AND attempts >= max_attempts
                  ORDER BY deadline LIMIT 1) <= {NOW_S}, false)
"""

BURY_SPENT = f"""/* alkstore:bury_spent */
WITH spent AS MATERIALIZED (
    SELECT id FROM $job
     WHERE queue = %(queue)s AND attempts >= max_attempts AND {LAPSED}
     ORDER BY deadline
     LIMIT %(limit)s
       FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM $job USING spent WHERE job.id = spent.id RETURNING job.*
)
INSERT INTO $dead_job ({KEPT_COLUMNS}, last_error, died_at)
SELECT {KEPT_COLUMNS}, %(error)s, {NOW_S} FROM gone
"""

# What a claim does to the rows that it has chosen.
MARK_CHOSEN = f"""UPDATE $job
   SET state = 'processing', attempts = attempts + 1, worker_id = %(worker_id)s,
       claimed_at = {NOW_S}, deadline = {CEIL_NOW_S} + visibility_timeout_s,
       claim_token = %(token)s
  FROM chosen
 WHERE job.id = chosen.id"""


# The pending jobs are found by a skip scan: one short index range per distinct priority, so
# that jobs which are not ready yet are never walked over, whatever their number. The lapsed
# ones come in the same order from an index of their own, which holds only claimed jobs.
def candidates(also: str = "") -> str:
    """The ready jobs that a claim chooses from, as two parts of a WITH RECURSIVE clause.

    Args:
        also: one more condition on them, beginning with AND.
    """
    return f"""priorities (priority) AS (
    (SELECT priority FROM $job
      WHERE queue = %(queue)s AND state = 'pending'
      ORDER BY priority DESC LIMIT 1)
    UNION ALL
    SELECT (SELECT lower.priority FROM $job AS lower
             WHERE lower.queue = %(queue)s AND lower.state = 'pending'
               AND lower.priority < priorities.priority
             ORDER BY lower.priority DESC LIMIT 1)
      FROM priorities WHERE priorities.priority IS NOT NULL
), candidates AS MATERIALIZED (
    SELECT * FROM (
        SELECT ready.* FROM priorities CROSS JOIN LATERAL (
            SELECT id, priority, run_at FROM $job
             WHERE queue = %(queue)s AND state = 'pending'
               AND priority = priorities.priority AND run_at <= {NOW_S} AND {UNEXPIRED} {also}
             ORDER BY run_at, id
             LIMIT %(n)s
               FOR UPDATE SKIP LOCKED
        ) AS ready
        WHERE priorities.priority IS NOT NULL
        LIMIT %(n)s
    ) AS pending
    UNION ALL
    SELECT * FROM (
        SELECT id, priority, run_at FROM $job
         WHERE queue = %(queue)s AND {LAPSED} AND attempts < max_attempts AND {UNEXPIRED} {also}
         ORDER BY priority DESC, run_at, id
         LIMIT %(n)s
           FOR UPDATE SKIP LOCKED
    ) AS lapsed
)"""


CLAIM = f"""/* alkstore:claim */
WITH RECURSIVE {candidates()}, chosen AS MATERIALIZED (
    SELECT id FROM candidates ORDER BY priority DESC, run_at, id LIMIT %(n)s
)
{MARK_CHOSEN}
RETURNING {CLAIMED_COLUMNS}
"""

# The worker's own claim: from its frontier on, segment by segment in claim order. A segment
# is one priority from a position on (low = high), or all priorities strictly between two.
# Nothing is lost if the server forgets such a claim in a crash: the job is pending again, and
# whatever was committed under the claim was flushed together with it. So it need not wait
# for its flush.
CLAIM_AHEAD = f"""/* alkstore:claim_ahead */
WITH unflushed AS MATERIALIZED (
    SELECT set_config('synchronous_commit', 'off', true)
), chosen AS MATERIALIZED (
    SELECT ready.id
      FROM unnest(%(lows)s::bigint[], %(highs)s::bigint[], %(run_ats)s::bigint[], %(ids)s::bigint[])
           WITH ORDINALITY AS segment (low, high, run_at, id, place)
     CROSS JOIN LATERAL (
        SELECT * FROM (
            SELECT id FROM $job
             WHERE segment.low = segment.high
               AND queue = %(queue)s AND state = 'pending' AND priority = segment.low
               AND (run_at, id) >= (segment.run_at, segment.id) AND run_at <= {NOW_S}
               AND {UNEXPIRED}
             ORDER BY run_at, id
             LIMIT %(n)s
               FOR UPDATE SKIP LOCKED
        ) AS from_position
        UNION ALL
        SELECT * FROM (
            SELECT id FROM $job
             WHERE segment.low < segment.high
               AND queue = %(queue)s AND state = 'pending'
               AND priority > segment.low AND priority < segment.high AND run_at <= {NOW_S}
               AND {UNEXPIRED}
             ORDER BY priority DESC, run_at, id
             LIMIT %(n)s
               FOR UPDATE SKIP LOCKED
        ) AS in_gap
     ) AS ready
     WHERE (SELECT count(*) FROM unflushed) = 1
     LIMIT %(n)s
)
{MARK_CHOSEN}
RETURNING {CLAIMED_COLUMNS}
"""

ACK = f"""/* alkstore:ack */
WITH held AS MATERIALIZED (
    {HELD_OF_GIVEN}
       FOR UPDATE OF job
)
DELETE FROM $job USING held WHERE job.id = held.id
RETURNING job.id
"""

# As above, but a row that another transaction holds is left alone.
ACK_FREE = f"""/* alkstore:ack_free */
WITH free AS MATERIALIZED (
    {HELD_OF_GIVEN}
       FOR UPDATE OF job SKIP LOCKED
)
DELETE FROM $job USING free WHERE job.id = free.id
RETURNING job.id
"""

ACK_IDS = f"""/* alkstore:ack_ids */
WITH unlapsed AS MATERIALIZED (
    SELECT id FROM $job
     WHERE id = ANY(%(ids)s::bigint[]) AND {UNLAPSED}
     ORDER BY id
       FOR UPDATE
)
DELETE FROM $job USING unlapsed WHERE job.id = unlapsed.id
"""

RETRY = f"""/* alkstore:retry */
UPDATE $job
   SET state = 'pending', run_at = ({NOW_US} + %(delay_us)s::bigint + 999999) / 1000000,
       worker_id = NULL, claimed_at = NULL, deadline = NULL, claim_token = NULL
 WHERE {HELD} AND attempts < max_attempts
"""

BURY = f"""/* alkstore:bury */
WITH gone AS (
    DELETE FROM $job WHERE {HELD} RETURNING *
)
INSERT INTO $dead_job ({KEPT_COLUMNS}, last_error, died_at)
SELECT {KEPT_COLUMNS}, %(error)s, {NOW_S} FROM gone
"""

HEARTBEAT = f"""/* alkstore:heartbeat */
UPDATE $job
   SET deadline = ({NOW_US} + %(extend_us)s::bigint + 999999) / 1000000
 WHERE {HELD}
"""

# A row that another transaction holds is passed over: it is the handler's own, and counts as
# held (see STILL_HELD). Waiting for it would hold up the renewal of all the others.
RENEW = f"""/* alkstore:renew */
WITH free AS MATERIALIZED (
    {HELD_OF_GIVEN}
       FOR UPDATE OF job SKIP LOCKED
)
UPDATE $job
   SET deadline = {CEIL_NOW_S} + visibility_timeout_s
  FROM free
 WHERE job.id = free.id
RETURNING job.id
"""

STILL_HELD = f"""/* alkstore:still_held */
{HELD_OF_GIVEN}
"""

GIVE_BACK = f"""/* alkstore:give_back */
WITH held AS MATERIALIZED (
    {HELD_OF_GIVEN}
       FOR UPDATE OF job
)
UPDATE $job
   SET state = 'pending', attempts = attempts - 1,
       worker_id = NULL, claimed_at = NULL, deadline = NULL, claim_token = NULL
  FROM held
 WHERE job.id = held.id
RETURNING job.id
"""

CANCEL = """/* alkstore:cancel */
DELETE FROM $job WHERE id = %(id)s
"""

GET_JOB = f"""/* alkstore:get_job */
SELECT {COLUMNS} FROM $job
 WHERE id = %(id)s AND (%(queue)s::text IS NULL OR queue = %(queue)s::text)
UNION ALL
SELECT {DEAD_COLUMNS} FROM $dead_job
 WHERE id = %(id)s AND (%(queue)s::text IS NULL OR queue = %(queue)s::text)
"""

# The rows go by an array of their ids: joined to them, the planner may think of reading the table.
SWEEP_EXPIRED = f"""/* alkstore:sweep_expired */
WITH past AS MATERIALIZED (
    SELECT id FROM $job
     WHERE queue = %(queue)s AND expires_at <= {NOW_S}
     ORDER BY expires_at
     LIMIT %(limit)s
       FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM $job WHERE id = ANY(ARRAY(SELECT id FROM past)) RETURNING *
)
INSERT INTO $dead_job ({KEPT_COLUMNS}, last_error, died_at)
SELECT {KEPT_COLUMNS}, %(error)s, {NOW_S} FROM gone
"""

PURGE_DEAD = f"""/* alkstore:purge_dead */
WITH old AS MATERIALIZED (
    SELECT id FROM $dead_job
     WHERE queue = %(queue)s AND died_at <= {NOW_S} - %(retention_s)s::bigint
       AND died_at >= %(since)s::bigint
     ORDER BY died_at
     LIMIT %(limit)s
       FOR UPDATE SKIP LOCKED
)
DELETE FROM $dead_job WHERE id = ANY(ARRAY(SELECT id FROM old))
RETURNING died_at
"""

LIVE_COUNT = """/* alkstore:live_count */
SELECT count(*) FROM (
    (SELECT 1 FROM $job WHERE queue = %(queue)s AND state = 'pending' LIMIT %(at_most)s)
    UNION ALL
    (SELECT 1 FROM $job WHERE queue = %(queue)s AND state = 'processing' LIMIT %(at_most)s)
    UNION ALL
    (SELECT 1 FROM $job WHERE queue = %(queue)s AND state = 'behind' LIMIT %(at_most)s)
) AS live
"""

HAS_TABLES = """/* alkstore:has_tables */
SELECT bool_and(to_regclass(name) IS NOT NULL) FROM unnest(%(names)s::text[]) AS given (name)
"""

EMPTY = """/* alkstore:empty */
TRUNCATE $job, $dead_job, $schedule, $lease, $inbox
"""

# NOTIFY in a transaction of its own, which does not wait for its flush.
NOTIFY = """/* alkstore:notify */
SELECT set_config('synchronous_commit', 'off', true), pg_notify(%(channel)s, '')
"""

BACKEND_PID = """/* alkstore:backend_pid */
SELECT pg_backend_pid()
"""

IN_RECOVERY = """/* alkstore:in_recovery */
SELECT pg_is_in_recovery()
"""
