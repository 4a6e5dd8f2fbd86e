"""Where the databases are: what ``ground.py`` tells the settings, and every measured process."""

SQLITE_VARIABLE = "ALKSTORE_BENCH_SQLITE"
POSTGRES_VARIABLE = "ALKSTORE_BENCH_POSTGRES"
POSTGRES_SCHEMA = "alkstore_bench"
