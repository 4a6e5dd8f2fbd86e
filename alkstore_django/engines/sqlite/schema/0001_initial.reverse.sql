-- Takes the engine-owned tables away.
DROP TABLE IF EXISTS ${inbox};
DROP TABLE IF EXISTS ${lease};
DROP TABLE IF EXISTS ${schedule};
DROP TABLE IF EXISTS ${dead_job};
DROP TABLE IF EXISTS ${job};
