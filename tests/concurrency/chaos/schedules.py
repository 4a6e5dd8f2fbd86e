"""Random walks of schedules beside a model, as many as are asked for."""

import io
import logging
import time
from collections import Counter
from collections.abc import Callable

from django.core.management import call_command

from tests.support.schedule_walk import Walk, empty


def walk(alias: str, n: int, first_seed: int, tell: Callable[[str], None]) -> list[str]:
    """Walk ``n`` times; print what was walked, and return the faults of the first that had any."""
    logging.getLogger("alkstore_django.scheduler").setLevel(logging.ERROR)  # skips are no news
    began = time.monotonic()
    steps: Counter[str] = Counter()
    n_jobs = n_walks = 0
    faults = []
    for seed in range(first_seed, first_seed + n):
        if n_walks % 100 == 0:
            tell(f"{alias}, walk {n_walks + 1} of {n}, {time.monotonic() - began:.0f} s")
        made = Walk(alias, seed)
        try:
            made.run()
        except AssertionError as error:
            faults = [f"schedules, seed {seed}: {str(error).splitlines()[0]}"]
            break
        n_walks += 1
        n_jobs += made.jobs.total()
        steps.update(step.lstrip("_") for step in made.trail if step.startswith("_"))
    call_command("alkstore_schedules", "--audit", database=alias, stdout=io.StringIO())
    empty(alias)
    taken = ", ".join(f"{step} {count}" for step, count in sorted(steps.items()))
    tell("")
    print(
        f"{alias}: {n_walks} walks of schedules in {time.monotonic() - began:.0f} s; "
        f"{n_jobs} jobs fired; {steps.total()} steps ({taken}); "
        f"{'BROKEN' if faults else 'every boundary accounted for'}",
        flush=True,
    )
    return faults
