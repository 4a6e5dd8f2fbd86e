"""The ledger that the handlers keep, and the audit of it.

Nothing in the tables keeps a key from coming twice: that is what the package promises, and what
a unique key would hide.
"""

from collections import Counter
from collections.abc import Collection

from django.db import connections

from tests.support.rows import count_dead, count_live

PLACES = 16
"""The counter is spread over so many rows, so that handlers do not all wait for one."""


class Books:
    """What the handlers of a run have written."""

    def __init__(self, alias: str) -> None:
        self.alias = alias

    def open(self) -> None:
        """Begin with empty books."""
        self.close()
        self._execute("CREATE TABLE chaos_effect (job_id bigint NOT NULL, attempt int NOT NULL)")
        self._execute("CREATE TABLE chaos_counter (place int PRIMARY KEY, n bigint NOT NULL)")
        self._execute("CREATE TABLE chaos_run (job_id bigint NOT NULL)")
        places = ", ".join(f"({place}, 0)" for place in range(PLACES))
        self._execute(f"INSERT INTO chaos_counter VALUES {places}")

    def close(self) -> None:
        """Take the tables away."""
        for table in ("chaos_effect", "chaos_counter", "chaos_run"):
            self._execute(f"DROP TABLE IF EXISTS {table}")

    def enter(self, job_id: int, attempt: int) -> None:
        """Add a row and one to the counter: the work of an atomic handler."""
        self._execute("INSERT INTO chaos_effect VALUES (%s, %s)", job_id, attempt)
        place = job_id % PLACES
        self._execute("UPDATE chaos_counter SET n = n + 1 WHERE place = %s", place)

    def note_run(self, job_id: int) -> None:
        """Add a row: the work of any other handler."""
        self._execute("INSERT INTO chaos_run VALUES (%s)", job_id)

    def faults(self, atomic: Collection[int], plain: Collection[int]) -> list[str]:
        """Return what is wrong when all is over, in words; nothing, if the promises were kept."""
        effects = Counter(row[0] for row in self._rows("SELECT job_id FROM chaos_effect"))
        counted = self._rows("SELECT sum(n) FROM chaos_counter")[0][0]
        runs = {row[0] for row in self._rows("SELECT job_id FROM chaos_run")}
        twice = sorted(job_id for job_id, n in effects.items() if n > 1)
        found = {
            "atomic jobs without an effect": sorted(set(atomic) - effects.keys()),
            "effects there more than once": twice,
            "effects of no job": sorted(effects.keys() - set(atomic)),
            "plain jobs that never ran": sorted(set(plain) - runs),
        }
        faults = [f"{len(ids)} {what}: {ids[:10]}" for what, ids in found.items() if ids]
        if counted != len(atomic):
            faults.append(f"the counter says {counted}, not {len(atomic)}")
        for where, n in (("live", count_live(self.alias)), ("dead", count_dead(self.alias))):
            if n:
                faults.append(f"{n} jobs are left {where}")
        return faults

    def n_later_attempts(self) -> int:
        """Return how many effects are those of a second or later claim: so often it struck home."""
        return int(self._rows("SELECT count(*) FROM chaos_effect WHERE attempt > 1")[0][0])

    def _execute(self, statement: str, *values: object) -> None:
        with connections[self.alias].cursor() as cursor:
            cursor.execute(statement, values)

    def _rows(self, statement: str) -> list[tuple]:
        with connections[self.alias].cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchall()
