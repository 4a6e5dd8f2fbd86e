-- Takes the engine-owned tables away.
DROP TABLE IF EXISTS ${dead_job};
DROP TABLE IF EXISTS ${job};
