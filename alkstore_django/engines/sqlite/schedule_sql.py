"""The statements of schedules and leases; the twin of ``engines/postgres/schedule_sql.py``.

Written like ``sql.py``. Lengths and instants of leases are microseconds.
"""

from .sql import NOW_S, NOW_US

_FIRST_BOUNDARY = f"(({NOW_US} + 999999) / 1000000 + %(interval_s)s)"

IS_REGISTERED = """/* alkstore:is_registered */
SELECT EXISTS (
    SELECT 1 FROM $schedule
     WHERE name = %(name)s AND spec = %(spec)s AND interval_s = %(interval_s)s
       AND queue = %(queue)s AND codec = %(codec)s AND payload = %(payload)s
       AND priority = %(priority)s AND max_attempts = %(max_attempts)s
       AND visibility_timeout_s = %(visibility_timeout_s)s
       AND backoff_base_s = %(backoff_base_s)s
       AND expires_us IS %(expires_us)s AND declared = %(declared)s
)
"""

# Another interval begins a new grid; the boundaries of the old one are summed up in n_before,
# those that had elapsed and were not fired among them, which thereby are skipped.
_SAME_GRID = "kept.interval_s = excluded.interval_s"
_UNFIRED = f"""CASE WHEN kept.next_boundary_at <= {NOW_S}
                       THEN ({NOW_S} - kept.next_boundary_at) / kept.interval_s + 1
                       ELSE 0 END"""

REGISTER = f"""/* alkstore:register */
INSERT INTO $schedule AS kept
       (name, spec, interval_s, next_boundary_at, first_boundary_at, registered_at, changed_at,
        queue, codec, priority, max_attempts, visibility_timeout_s, backoff_base_s, expires_us,
        declared, payload)
VALUES (%(name)s, %(spec)s, %(interval_s)s, {_FIRST_BOUNDARY}, {_FIRST_BOUNDARY}, {NOW_S}, {NOW_S},
        %(queue)s, %(codec)s, %(priority)s, %(max_attempts)s, %(visibility_timeout_s)s,
        %(backoff_base_s)s, %(expires_us)s, %(declared)s, %(payload)s)
    ON CONFLICT (name) DO UPDATE
   SET next_boundary_at = CASE WHEN {_SAME_GRID} THEN kept.next_boundary_at
                               ELSE excluded.next_boundary_at END,
       first_boundary_at = CASE WHEN {_SAME_GRID} THEN kept.first_boundary_at
                                ELSE excluded.first_boundary_at END,
       n_before = CASE WHEN {_SAME_GRID} THEN kept.n_before
                       ELSE kept.n_before
                            + (kept.next_boundary_at - kept.first_boundary_at) / kept.interval_s
                            + {_UNFIRED} END,
       n_skipped = CASE WHEN {_SAME_GRID} THEN kept.n_skipped
                        ELSE kept.n_skipped + {_UNFIRED} END,
       spec = excluded.spec, interval_s = excluded.interval_s, queue = excluded.queue,
       codec = excluded.codec, priority = excluded.priority,
       max_attempts = excluded.max_attempts,
       visibility_timeout_s = excluded.visibility_timeout_s,
       backoff_base_s = excluded.backoff_base_s, expires_us = excluded.expires_us,
       declared = excluded.declared, payload = excluded.payload,
       changed_at = excluded.changed_at, revision = kept.revision + 1
 WHERE (kept.spec, kept.interval_s, kept.queue, kept.codec, kept.priority, kept.max_attempts,
        kept.visibility_timeout_s, kept.backoff_base_s, kept.expires_us, kept.declared,
        kept.payload)
       IS NOT
       (excluded.spec, excluded.interval_s, excluded.queue, excluded.codec, excluded.priority,
        excluded.max_attempts, excluded.visibility_timeout_s, excluded.backoff_base_s,
        excluded.expires_us, excluded.declared, excluded.payload)
RETURNING revision
"""

UNREGISTER = """/* alkstore:unregister */
DELETE FROM $schedule WHERE name = %(name)s AND (declared OR NOT %(only_declared)s)
"""

DECLARED_NAMES = """/* alkstore:declared_names */
SELECT name FROM $schedule WHERE declared ORDER BY name
"""

# The earliest by index, whatever the planner believes: EXISTS tempts it to scan.
OUTLOOK = f"""/* alkstore:outlook */
SELECT coalesce((SELECT next_boundary_at FROM $schedule
                  ORDER BY next_boundary_at LIMIT 1) <= {NOW_S}, false),
       (SELECT next_boundary_at FROM $schedule WHERE next_boundary_at > {NOW_S}
         ORDER BY next_boundary_at LIMIT 1),
       {NOW_US}
"""

DUE = """/* alkstore:due */
SELECT name, queue, spec, interval_s, next_boundary_at
  FROM $schedule INDEXED BY __alkstore_schedule_due
 WHERE next_boundary_at <= %(until)s
   AND (next_boundary_at, name) > (%(after_at)s, %(after_name)s)
 ORDER BY next_boundary_at, name
 LIMIT %(n)s
"""

ADVANCE = f"""/* alkstore:advance */
UPDATE $schedule AS kept
   SET next_boundary_at = given.next_at, last_boundary_at = given.last_at,
       last_fired_at = {NOW_S}, n_fired = kept.n_fired + given.n_fired,
       n_skipped = kept.n_skipped + given.n_skipped
  FROM (SELECT json_extract(value, '$$[0]') AS name, json_extract(value, '$$[1]') AS from_at,
               json_extract(value, '$$[2]') AS next_at, json_extract(value, '$$[3]') AS n_fired,
               json_extract(value, '$$[4]') AS n_skipped, json_extract(value, '$$[5]') AS last_at
          FROM json_each(%(advances)s)) AS given
 WHERE kept.name = given.name AND kept.next_boundary_at = given.from_at
RETURNING name
"""

FIRE = f"""/* alkstore:fire */
INSERT INTO $job (queue, state, priority, run_at, expires_at, attempts, max_attempts,
                  visibility_timeout_s, backoff_base_s, enqueued_at, codec, payload)
SELECT schedule.queue, 'pending', schedule.priority, given.boundary_at,
       ({NOW_US} + schedule.expires_us + 999999) / 1000000, 0, schedule.max_attempts,
       schedule.visibility_timeout_s, schedule.backoff_base_s, {NOW_S}, schedule.codec,
       schedule.payload
  FROM (SELECT key AS place, json_extract(value, '$$[0]') AS boundary_at,
               json_extract(value, '$$[1]') AS name
          FROM json_each(%(fires)s)) AS given
 CROSS JOIN $schedule AS schedule ON schedule.name = given.name
 ORDER BY given.place
"""

AUDIT = f"""/* alkstore:audit */
SELECT name, spec, queue, declared,
       n_before + (next_boundary_at - first_boundary_at) / interval_s AS n_expected,
       n_fired, n_skipped,
       CASE WHEN next_boundary_at <= {NOW_S}
            THEN ({NOW_S} - next_boundary_at) / interval_s + 1 ELSE 0 END AS n_due,
       n_before + (next_boundary_at - first_boundary_at) / interval_s = n_fired + n_skipped
           AND (next_boundary_at - first_boundary_at) %% interval_s = 0 AS adds_up,
       next_boundary_at, last_boundary_at, {NOW_S}
  FROM $schedule
 ORDER BY name
"""

# Two lengths: a valid lease reaches one length ahead of the clock, and of a clock that was read
# up to one length ago, by who had to wait for the holder's renewal, two.
_HELD = f"held.expires_at_us > {NOW_US} AND held.expires_at_us <= {NOW_US} + 2 * held.lease_us"

IS_LEASE_HELD = f"""/* alkstore:is_lease_held */
SELECT EXISTS (SELECT 1 FROM $lease AS held WHERE held.name = %(name)s AND {_HELD})
"""

TAKE_LEASE = f"""/* alkstore:take_lease */
INSERT INTO $lease AS held (name, owner, taken_at_us, expires_at_us, lease_us)
VALUES (%(name)s, %(owner)s, {NOW_US}, {NOW_US} + %(lease_us)s, %(lease_us)s)
    ON CONFLICT (name) DO UPDATE
   SET owner = excluded.owner, taken_at_us = excluded.taken_at_us,
       expires_at_us = excluded.expires_at_us, lease_us = excluded.lease_us
 WHERE NOT ({_HELD})
RETURNING owner
"""

RENEW_LEASE = f"""/* alkstore:renew_lease */
UPDATE $lease
   SET expires_at_us = {NOW_US} + %(lease_us)s, lease_us = %(lease_us)s
 WHERE name = %(name)s AND owner = %(owner)s
"""

RELEASE_LEASE = """/* alkstore:release_lease */
DELETE FROM $lease WHERE name = %(name)s AND owner = %(owner)s
"""
