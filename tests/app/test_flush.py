"""manage.py flush: 7.6."""

from django.core.management import call_command
from django.test import TransactionTestCase

from alkstore_django import Queue
from tests.support.fresh import migrate
from tests.support.rows import count_dead, count_live


def test_flush_empties_the_stores_tables(fresh):
    """7.6 Live and dead jobs are gone, and the queue goes on."""
    migrate(fresh)
    queue = Queue("jobs", using=fresh)
    queue.enqueue_many([1, 2])
    queue.claim_one("worker").fail()
    last = queue.enqueue(3)
    call_command("flush", database=fresh, verbosity=0, interactive=False)
    assert count_live(fresh) == count_dead(fresh) == 0
    assert queue.enqueue({}) > last


def test_flush_without_tables_is_no_error(fresh):
    """7.6 1.2 Before migrate there is nothing to empty."""
    call_command("flush", database=fresh, verbosity=0, interactive=False)


class FlushedTestCase(TransactionTestCase):
    """7.6 And so does TransactionTestCase: what one test leaves, the next does not find."""

    databases = frozenset({"sqlite", "postgres"})
    available_apps = None

    def check_and_leave(self):
        for alias in sorted(self.databases):
            queue = Queue("jobs", using=alias)
            assert (count_live(alias), count_dead(alias)) == (0, 0)
            queue.enqueue_many([1, 2])
            queue.claim_one("worker").fail()

    def test_first(self):
        """7.6 Leaves jobs behind."""
        self.check_and_leave()

    def test_second(self):
        """7.6 Finds none."""
        self.check_and_leave()
