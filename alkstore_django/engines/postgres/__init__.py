"""The PostgreSQL engine: SKIP LOCKED claims, LISTEN/NOTIFY wake, psycopg 3."""
