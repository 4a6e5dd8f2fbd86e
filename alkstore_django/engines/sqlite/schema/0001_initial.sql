-- The engine-owned tables on SQLite. Instants are UTC epoch seconds, lengths seconds.
-- AUTOINCREMENT: an id is never used twice, even after its row was deleted.
CREATE TABLE IF NOT EXISTS ${job} (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    run_at INTEGER NOT NULL,
    expires_at INTEGER,
    enqueued_at INTEGER NOT NULL,
    claimed_at INTEGER,
    deadline INTEGER,
    claim_token INTEGER,
    visibility_timeout_s INTEGER NOT NULL,
    backoff_base_s INTEGER NOT NULL,
    priority INTEGER NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    max_attempts INTEGER NOT NULL,
    state TEXT NOT NULL DEFAULT 'pending',
    queue TEXT NOT NULL,
    codec TEXT NOT NULL,
    worker_id TEXT,
    key TEXT,
    payload BLOB NOT NULL,
    CONSTRAINT __alkstore_job_state CHECK (
        CASE state
            WHEN 'pending' THEN
                coalesce(worker_id, claimed_at, deadline, claim_token) IS NULL
            -- Pending to the world, but another event of its key has to leave first.
            WHEN 'behind' THEN
                key IS NOT NULL
                AND coalesce(worker_id, claimed_at, deadline, claim_token) IS NULL
            WHEN 'processing' THEN
                worker_id IS NOT NULL AND claimed_at IS NOT NULL
                AND deadline IS NOT NULL AND claim_token IS NOT NULL
            ELSE 0
        END
    )
) STRICT;

CREATE INDEX IF NOT EXISTS __alkstore_job_claim
    ON ${job} (queue, priority DESC, run_at, id)
    WHERE state = 'pending';
CREATE INDEX IF NOT EXISTS __alkstore_job_lapse
    ON ${job} (queue, priority DESC, run_at, id, deadline)
    WHERE state = 'processing';
CREATE INDEX IF NOT EXISTS __alkstore_job_spent
    ON ${job} (queue, deadline)
    WHERE state = 'processing' AND attempts >= max_attempts;
CREATE INDEX IF NOT EXISTS __alkstore_job_expires
    ON ${job} (queue, expires_at)
    WHERE expires_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS __alkstore_job_key
    ON ${job} (queue, key, id)
    WHERE key IS NOT NULL;
CREATE INDEX IF NOT EXISTS __alkstore_job_behind
    ON ${job} (queue, key)
    WHERE state = 'behind';

CREATE TABLE IF NOT EXISTS ${dead_job} (
    id INTEGER PRIMARY KEY,
    run_at INTEGER NOT NULL,
    expires_at INTEGER,
    enqueued_at INTEGER NOT NULL,
    claimed_at INTEGER,
    died_at INTEGER NOT NULL,
    visibility_timeout_s INTEGER NOT NULL,
    backoff_base_s INTEGER NOT NULL,
    priority INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    max_attempts INTEGER NOT NULL,
    queue TEXT NOT NULL,
    codec TEXT NOT NULL,
    worker_id TEXT,
    key TEXT,
    last_error TEXT NOT NULL,
    payload BLOB NOT NULL
) STRICT;

CREATE INDEX IF NOT EXISTS __alkstore_dead_job_died
    ON ${dead_job} (queue, died_at, id);
CREATE INDEX IF NOT EXISTS __alkstore_dead_job_recent
    ON ${dead_job} (died_at, id);

-- The ledger of a schedule: boundaries expected = n_before + (next_boundary_at -
-- first_boundary_at) / interval_s = n_fired + n_skipped. A new interval begins a new grid at
-- first_boundary_at; what the earlier grids had is in n_before.
CREATE TABLE IF NOT EXISTS ${schedule} (
    name TEXT NOT NULL PRIMARY KEY,
    next_boundary_at INTEGER NOT NULL,
    first_boundary_at INTEGER NOT NULL,
    last_boundary_at INTEGER,
    last_fired_at INTEGER,
    registered_at INTEGER NOT NULL,
    changed_at INTEGER NOT NULL,
    interval_s INTEGER NOT NULL CONSTRAINT __alkstore_schedule_interval CHECK (interval_s > 0),
    n_before INTEGER NOT NULL DEFAULT 0,
    n_fired INTEGER NOT NULL DEFAULT 0,
    n_skipped INTEGER NOT NULL DEFAULT 0,
    expires_us INTEGER,
    visibility_timeout_s INTEGER NOT NULL,
    backoff_base_s INTEGER NOT NULL,
    priority INTEGER NOT NULL,
    max_attempts INTEGER NOT NULL,
    revision INTEGER NOT NULL DEFAULT 1,
    declared INTEGER NOT NULL DEFAULT 0,
    spec TEXT NOT NULL,
    queue TEXT NOT NULL,
    codec TEXT NOT NULL,
    payload BLOB NOT NULL
) STRICT;

CREATE INDEX IF NOT EXISTS __alkstore_schedule_due
    ON ${schedule} (next_boundary_at, name);

-- Who may fire. Instants and lengths in microseconds, since a lease may be short.
CREATE TABLE IF NOT EXISTS ${lease} (
    name TEXT NOT NULL PRIMARY KEY,
    owner TEXT NOT NULL,
    taken_at_us INTEGER NOT NULL,
    expires_at_us INTEGER NOT NULL,
    lease_us INTEGER NOT NULL
) STRICT;

-- The events that a consumer has seen.
CREATE TABLE IF NOT EXISTS ${inbox} (
    consumer TEXT NOT NULL,
    event_id TEXT NOT NULL,
    seen_at INTEGER NOT NULL,
    PRIMARY KEY (consumer, event_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS __alkstore_inbox_seen
    ON ${inbox} (consumer, seen_at);
