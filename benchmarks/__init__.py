"""How fast the package is, beside the bare statements of its driver. ``python -m benchmarks``.

One file per benchmark, each measuring the package and a **raw** counterpart in turns, in the
same run: the bare statements through ``psycopg`` or ``sqlite3`` on a bare table of the same
columns, constraints and indexes. Raw promises nothing: no fence, no retry, no wake, no
options. The ratio says what the promises cost; 1.00 is as fast as raw.

These are measurements, no tests: they fail when a job is lost, never when one is slow.
"""
