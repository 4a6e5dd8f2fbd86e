"""``python -m tests.concurrency.chaos``: rounds of jobs under fire until the time is over.

Prints a line of progress, and at the end what was done and found; exits with 1 if a promise
was broken.
"""

import argparse
import os
import random
import signal
import sys
import time
from collections import Counter

ENGINES = ("postgres", "sqlite")


def main() -> None:
    options = _options()
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the server is stopped
    from tests.support.ground import Ground

    ground = Ground()
    try:
        ground.make()
        _set_up()
        engines = ENGINES if options.engine == "both" else (options.engine,)
        faults = [fault for engine in engines for fault in _run(engine, options)]
    finally:
        ground.remove()
    sys.exit(1 if faults else 0)


def _set_up() -> None:
    import django
    from django.test.utils import setup_databases

    django.setup()
    setup_databases(verbosity=0, interactive=False)


def _run(engine: str, options: argparse.Namespace) -> list[str]:
    """Walk schedules, then rage among workers; return the faults."""
    from tests.concurrency.chaos.schedules import walk

    faults = []
    if options.schedules:
        faults = walk(engine, options.schedules, options.seed, _progress)
    if options.duration > 0:
        faults += _rage(engine, options)
    for fault in faults:
        print(f"  {fault}", flush=True)
    return faults


def _rage(engine: str, options: argparse.Namespace) -> list[str]:
    """Run rounds on an engine; return the faults of the first that had any."""
    from tests.concurrency.chaos.trial import Trial

    began = time.monotonic()
    struck: Counter[str] = Counter()
    n_rounds = n_jobs = n_later = 0
    faults: list[str] = []

    def tell(text: str) -> None:
        _progress(f"{engine}, round {n_rounds + 1}, {time.monotonic() - began:.0f} s: {text}")

    while not faults and (not n_rounds or time.monotonic() < began + options.duration):
        seed = options.seed + n_rounds
        trial = Trial(
            engine,
            n_jobs=options.jobs,
            n_strikes=1,
            draw=random.Random(seed),
            size=options.workers,
            fence=not options.without_fence,
            on_progress=tell,
        )
        faults = [f"seed {seed}: {fault}" for fault in trial.run()]
        n_rounds += 1
        n_jobs += trial.n_done
        n_later += trial.n_later
        struck += trial.struck
    _progress("")
    blows = ", ".join(f"{kind} {n}" for kind, n in sorted(struck.items()))
    print(
        f"{engine}: {n_jobs} jobs in {n_rounds} rounds and {time.monotonic() - began:.0f} s;"
        f" {struck.total()} strikes ({blows}); {n_later} effects by a later claim;"
        f" {'BROKEN' if faults else 'all promises kept'}",
        flush=True,
    )
    return faults


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.concurrency.chaos",
        description="Kill, pause, redeploy and cut off workers while they do jobs, restart their "
        "server, and check that every effect is there once. Before that, walk schedules at random, "
        "and check that every boundary is accounted for.",
    )
    parser.add_argument("--engine", choices=(*ENGINES, "both"), default="both")
    parser.add_argument(
        "--duration",
        type=float,
        default=600,
        metavar="S",
        help="seconds per engine (600); 0 leaves the workers in peace",
    )
    parser.add_argument(
        "--schedules",
        type=int,
        default=10_000,
        metavar="RUNS",
        help="random walks of schedules beside a model, per engine (10000)",
    )
    parser.add_argument("--jobs", type=int, default=20_000, metavar="N", help="per round (20000)")
    parser.add_argument("--workers", type=int, default=3, metavar="N", help="commands (3)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of the first round (1)")
    parser.add_argument(
        "--without-fence",
        action="store_true",
        help="let handlers commit whatever their ack says: the run must then fail",
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
