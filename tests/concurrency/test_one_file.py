"""Many processes that write to one SQLite file: issue 3, FIELD's sqlite."""

import json
import os
from contextlib import ExitStack

import pytest

from tests.support.processes import started_python
from tests.support.rows import count_dead, count_live
from tests.support.waiting import eventually

N_WORKERS = 8
N_VISITORS = 3
SECONDS = float(os.environ.get("ALKSTORE_TEST_CROWD_S", "10"))


@pytest.mark.parametrize("alias", ["sqlite"], indirect=True)
def test_workers_and_web_processes(alias, start_worker, notes):
    """FR-131 Issue 3: eight workers, and requests with ATOMIC_REQUESTS that write and enqueue: no
    "database is locked", every committed job is done once, none of those rolled back."""
    crowd(alias, start_worker, notes, SECONDS)


def crowd(alias, start_worker, notes, seconds):
    """Let workers and visitors work for so long; return how many jobs were done."""
    with ExitStack() as stack:
        kinds = [("--threads", "2"), ("--threads", "2", "--processes", "2")]
        workers = [
            stack.enter_context(start_worker("--queue", "ledger", *kind))
            for kind in [kinds[0]] * (N_WORKERS - 2) + [kinds[1]]
        ]
        visitors = [
            stack.enter_context(
                started_python(
                    ["-m", "tests.concurrency.visitors", alias, str(seconds), str(number)]
                )
            )
            for number in range(N_VISITORS)
        ]
        for worker in workers:
            worker.wait_for_line("serves")
        for visitor in visitors:
            visitor.wait_for_line("ready")
        for visitor in visitors:
            visitor.say("go")
        reports = [
            json.loads(visitor.wait_for_line("report").removeprefix("report "))
            for visitor in visitors
        ]
        eventually(lambda: count_live(alias) == 0, within_s=60)
        for visitor in visitors:
            visitor.wait()
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.wait()
    for process in [*workers, *visitors]:
        assert "locked" not in process.stderr, process.stderr
        assert "Traceback" not in process.stderr, process.stderr
        assert "Database lost" not in process.stderr, process.stderr
    committed = [job_id for report in reports for job_id in report["committed"]]
    assert not any(report["failed"] for report in reports)
    assert len(committed) > 10 * N_VISITORS
    assert notes("ledger") == sorted(f"ledger {job_id}" for job_id in committed)
    assert len(notes("order")) == len(committed)
    assert count_dead(alias) == 0
    return len(committed)
