"""The job that tidies up is a job like any other: FIELD's stuck."""

import signal

from alkstore_django import Queue
from alkstore_django.engines.registry import engine_for
from alkstore_django.testing import frozen_time
from tests.support.processes import started_python
from tests.support.rows import count_dead, count_live, dead_row
from tests.support.waiting import eventually


def test_a_sweep_that_is_killed(alias):
    """FR-023 The worker is killed inside its sweep: the next takes the job over, and the one after
    that runs as well; what expired is in the dead once. Reclaiming takes no helper."""
    maintenance = Queue("maintenance", using=alias, visibility_timeout_s=1, max_attempts=5)
    now = engine_for(alias).clock_us() / 1_000_000
    with frozen_time(alias, now - 60):
        expired = Queue("swept", using=alias).enqueue_many([None] * 3, expires=1)
    maintenance.enqueue("die")
    command = ["-m", "tests.concurrency.maintenance", alias]
    with started_python(command) as worker:
        worker.wait(code=-signal.SIGKILL)
    assert (count_live(alias), count_dead(alias)) == (4, 0)
    maintenance.enqueue("the next boundary's")
    with started_python(command) as worker:
        eventually(lambda: count_live(alias) == 0, within_s=10)
        worker.terminate()
        worker.wait()
    assert count_dead(alias) == 3
    assert all(dead_row(alias, job_id)["last_error"] == "expired" for job_id in expired)
