"""Purging many dead jobs: 3.13, FR-080. Batch by batch from where the last one ended."""

import pytest

from alkstore_django.engines.registry import engine_for
from alkstore_django.models import Job
from tests.support.filling import NOW, fill_dead, stored


def purge(alias, **options):
    return engine_for(alias).purge_dead("jobs", retention_s=1, **options)


def test_batches_go_on_where_the_last_one_ended(alias, clock):
    """3.13 The oldest first; a batch tells the last instant of death that it reached."""
    clock.move_to(NOW + 1_000)
    fill_dead(alias, 10, died_at=f"{NOW} + n")
    assert purge(alias, limit=4) == (4, NOW + 4)
    assert purge(alias, limit=4, since=NOW + 4) == (4, NOW + 8)
    assert purge(alias, limit=4, since=NOW + 8) == (2, NOW + 10)
    assert purge(alias, limit=4, since=NOW + 10) == (0, NOW + 10)
    assert stored(alias, "dead_job") == []


def test_it_looks_no_further_back(alias, clock):
    """3.13 What died before the position is none of a batch's business."""
    clock.move_to(NOW + 1_000)
    fill_dead(alias, 10, died_at=f"{NOW} + n")
    assert purge(alias, limit=100, since=NOW + 8) == (3, NOW + 10)
    assert len(stored(alias, "dead_job")) == 7
    assert purge(alias, limit=100) == (7, NOW + 7)


@pytest.mark.parametrize("same", ["0", "n / 700"])
def test_many_that_died_in_one_second(alias, clock, same):
    """3.13 FR-080 More of one instant than a batch holds: all go."""
    clock.move_to(NOW + 1_000)
    fill_dead(alias, 2_100, died_at=f"{NOW} + {same}")
    assert Job.objects.db_manager(alias).sweep("jobs", retention_s=1).purged == 2_100
    assert stored(alias, "dead_job") == []
