-- Takes the engine-owned tables away, and the schema too if nothing else lives in it.
DROP TABLE IF EXISTS ${inbox};
DROP TABLE IF EXISTS ${lease};
DROP TABLE IF EXISTS ${schedule};
DROP TABLE IF EXISTS ${dead_job};
DROP TABLE IF EXISTS ${job};
DO $$alkstore$$
BEGIN
    DROP SCHEMA IF EXISTS ${schema} RESTRICT;
EXCEPTION
    WHEN dependent_objects_still_exist OR insufficient_privilege THEN
        RAISE NOTICE 'schema % is kept: it is not empty or not ours', ${schema_literal};
END
$$alkstore$$;
