"""Random walks beside a model: 4.3 to 4.5, issue 4. ``make chaos`` takes 10,000 per engine."""

import pytest

from alkstore_django.scheduling import ticking
from tests.support.schedule_walk import Walk

N_WALKS = 200


def test_walks(alias):
    """4.3 4.4 4.5 Registers, spec changes, unregisters, crashes, losses and jumps of the clock: every
    boundary is accounted for after each step, and each job is the model's."""
    n_steps = n_jobs = 0
    for seed in range(N_WALKS):
        walk = Walk(alias, seed)
        walk.run()
        n_steps += len(walk.trail)
        n_jobs += walk.jobs.total()
    assert n_jobs > N_WALKS


def _grid_lost(real):
    """A plan that starts the grid anew at the present."""
    return lambda at, interval, now: real(at, interval, now)._replace(
        next_boundary_at=now + interval
    )


def _too_much(real):
    """A plan that fires its first boundary once more."""

    def plan(at, interval, now):
        made = real(at, interval, now)
        return made._replace(boundaries=range(at - interval, made.boundaries.stop, interval))

    return plan


@pytest.mark.parametrize("fault", [_grid_lost, _too_much])
def test_a_walk_finds_what_is_wrong(alias, monkeypatch, fault):
    """4.5 The walk itself is tested: with the rule spoilt it fails."""
    monkeypatch.setattr(ticking, "plan", fault(ticking.plan))
    with pytest.raises(AssertionError):
        for seed in range(20):
            Walk(alias, seed).run()
