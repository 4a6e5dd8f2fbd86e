"""FR-093: jobs inside Django's TestCase, one transaction that is rolled back."""

from django.test import TestCase

from alkstore_django import Queue, Store, handlers
from alkstore_django.testing import drain, frozen_time
from tests.support.rows import count_dead, count_live
from tests.testapp.models import Note


class InOneTransaction(TestCase):
    """3.1 FR-093 Every operation works on the test's own connection."""

    databases = frozenset({"sqlite", "postgres"})

    def each_alias(self):
        for alias in sorted(self.databases):
            with self.subTest(alias=alias):
                assert (count_live(alias), count_dead(alias)) == (0, 0)
                yield alias

    def test_the_operations(self):
        """FR-093 enqueue, claim, settle, read, sweep; nothing is left to the next test."""
        for alias in self.each_alias():
            with frozen_time(alias, 1_800_000_000) as clock:
                queue = Queue("jobs", using=alias, dead_letter_retention_s=1)
                ids = [Store(alias).enqueue_tx("jobs", 0), *queue.enqueue_many(range(4))]
                handles = queue.claim_batch("worker", 4)
                assert [handle.job.id for handle in handles] == ids[:4]
                assert handles[0].ack() and handles[1].fail() and handles[2].retry(delay=0)
                assert queue.ack_batch([handles[3]]) == 1 and queue.cancel(ids[4])
                clock.advance(1)
                assert queue.sweep_expired() == (0, 1)
                assert (count_live(alias), count_dead(alias)) == (1, 0)

    def test_the_handlers_run_in_line(self):
        """FR-093 The helper runs a queue's jobs without a thread; their effects are seen."""
        for alias in self.each_alias():
            queue = Queue("jobs", using=alias)
            queue.handler(
                lambda job, alias=alias: Note.objects.using(alias).create(text=job.payload)
            )
            try:
                queue.enqueue_many(["a", "b"])
                drain(queue)
            finally:
                handlers.unregister(queue)
            texts = Note.objects.using(alias).order_by("id").values_list("text", flat=True)
            assert list(texts) == ["a", "b"]
            assert count_live(alias) == 0

    def test_the_wake_waits_for_a_commit_that_never_comes(self):
        """3.1 FR-093 Hooks run only where the test asks for them."""
        for alias in self.each_alias():
            with self.captureOnCommitCallbacks(using=alias) as callbacks:
                Queue("jobs", using=alias).enqueue_many([1, 2])
            assert len(callbacks) == 1
