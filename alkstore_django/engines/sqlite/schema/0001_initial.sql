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
    payload BLOB NOT NULL,
    CONSTRAINT __alkstore_job_state CHECK (
        CASE state
            WHEN 'pending' THEN
                coalesce(worker_id, claimed_at, deadline, claim_token) IS NULL
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
    last_error TEXT NOT NULL,
    payload BLOB NOT NULL
) STRICT;

CREATE INDEX IF NOT EXISTS __alkstore_dead_job_died
    ON ${dead_job} (queue, died_at);
