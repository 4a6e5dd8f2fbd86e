"""The chaos in short: every kind of strike once or twice; ``make chaos`` goes on for long."""

import random

import pytest
from django.db import connections

from alkstore_django.engines.registry import engine_for
from tests.concurrency.chaos.trial import Trial

SEED = 3


@pytest.fixture(autouse=True)
def new_connection(alias):
    """A server that was restarted has cut the test's connection; on a file it was made patient."""
    yield
    connections[alias].close()


def test_workers_under_fire(alias):
    """7.1 7.2 7.4 Issue 3: workers of both kinds are killed, paused, redeployed and cut off, and their
    server restarted: each effect is there once, each plain job ran, nothing is left, and nobody
    ended wrongly."""
    trial = Trial(alias, n_jobs=1_000, n_strikes=12, draw=random.Random(SEED))
    assert trial.run() == []
    assert set(trial.struck) == set(trial.kinds)
    assert trial.n_done >= 1_000
    assert trial.n_later > 0, "no strike has struck home"


def test_the_audit_finds_what_the_fence_prevents(alias):
    """7.2 Issue 3: with the fence taken out, workers that pause beyond their deadlines break the
    promise, and the audit says so; at the latest in the third round, as chance has it."""
    nap_s = 0.1 if engine_for(alias).supports_parallel_writers else 0.02
    trials = (
        Trial(
            alias,
            n_jobs=400,
            n_strikes=8,
            draw=random.Random(seed),
            pause_s=(0.8, 1.6),
            fence=False,
            strikes=("pause",),
            nap_s=nap_s,
        )
        for seed in range(3)
    )
    faults = next(filter(None, (trial.run() for trial in trials)), [])
    assert any("effects there more than once" in fault for fault in faults), faults
