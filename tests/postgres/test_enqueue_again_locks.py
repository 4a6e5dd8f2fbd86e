"""Enqueueing dead jobs again beside other sessions: 3.14, on PostgreSQL, which has row locks."""

from alkstore_django.models import Job
from tests.postgres.conftest import direct_connection
from tests.support.filling import fill_dead, stored


def test_a_row_that_is_held_is_passed_over(alias, clock):
    """3.14 It waits for nobody: a dead row that another session is about to take is left to that."""
    fill_dead(alias, 3)
    with direct_connection() as other, other.transaction():
        other.execute("SELECT 1 FROM alkstore.dead_job WHERE id = -2 FOR UPDATE")
        done = Job.objects.db_manager(alias).enqueue_again([-1, -2, -3])
        assert [job.dead_id for job in done] == [-3, -1]
    assert [row["id"] for row in stored(alias, "dead_job")] == [-2]
