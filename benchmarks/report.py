"""What is shown and kept: the machine, the versions, the table, the file of results."""

import json
import os
import platform
import sqlite3
import sys
from collections.abc import Sequence
from pathlib import Path

import django
from django.db import connections

from .measuring import Result

NAMES = {"sqlite": "SQLite", "postgres": "PostgreSQL"}


def describe_ground(engines: Sequence[str]) -> str:
    """Return what the numbers depend on, in a few lines."""
    load = ", ".join(f"{load:.1f}" for load in os.getloadavg())
    versions = [f"Python {platform.python_version()}", f"Django {django.get_version()}"]
    if "sqlite" in engines:
        versions.append(f"SQLite {sqlite3.sqlite_version} (WAL, synchronous=NORMAL)")
    if "postgres" in engines:
        versions += _postgres_versions()
    return (
        f"Machine   {os.cpu_count()} cores, {_processor()}, {platform.system()} "
        f"{platform.release()}, load {load}\n"
        f"Versions  {', '.join(versions)}"
    )


def _postgres_versions() -> list[str]:
    import psycopg

    shown = []
    with connections["postgres"].cursor() as cursor:
        for name in ("server_version", "fsync", "synchronous_commit"):
            cursor.execute(f"SHOW {name}")
            shown.append(cursor.fetchone()[0])
    version, fsync, commit = shown
    return [
        f"psycopg {psycopg.__version__} ({psycopg.pq.__impl__})",
        f"PostgreSQL {version} (fsync={fsync}, synchronous_commit={commit})",
    ]


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def table(results: Sequence[Result], runs: int) -> str:
    """Return the table of the results."""
    lines = [
        f"Medians of {runs} rounds; package and raw take turns in each. ratio: how fast the",
        "package is for a raw of 1.00; always, more is better. Range: over single rounds.",
        "",
        f"{'engine':<11} {'benchmark':<23} {'package':>10} {'raw':>10} {'unit':<7} "
        f"{'better is':<10} {'ratio':>6}  range",
    ]
    for result in results:
        metric = result.metric
        digits = 0 if metric.higher_is_better else 2
        low, high = result.spread
        lines.append(
            f"{NAMES[result.engine]:<11} {metric.name:<23} {result.value:>10,.{digits}f} "
            f"{result.raw:>10,.{digits}f} {metric.unit:<7} "
            f"{'higher' if metric.higher_is_better else 'lower':<10} {result.ratio:>6.2f}  "
            f"{low:.2f} to {high:.2f}"
        )
    return "\n".join(lines)


def save(results: Sequence[Result], file: Path) -> None:
    """Write the results as JSON; ``value`` and ``raw`` are medians."""
    entries = [
        {
            "name": result.metric.name,
            "engine": result.engine,
            "value": round(result.value, 3),
            "unit": result.metric.unit,
            "raw": round(result.raw, 3),
            "ratio": round(result.ratio, 3),
            "runs": len(result.package_values),
        }
        for result in results
    ]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(entries, indent=2) + "\n", encoding="utf-8")


def progress(text: str) -> None:
    """Tell what goes on, apart from the table."""
    print(text, file=sys.stderr, flush=True)
