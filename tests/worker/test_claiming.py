"""When a worker looks at a queue from its start: issue 3, "Flat claims"."""

from itertools import pairwise
from types import SimpleNamespace

import pytest
from django.db import connections, transaction

from alkstore_django.models import Job as JobMirror
from alkstore_django.worker import claiming
from alkstore_django.worker.claiming import EXACT_EVERY_S, EXACT_PAUSE_S, Claimer
from tests.support.rows import count_live

NEVER = float("inf")


class Watch:
    """The claimer's monotonic clock, which moves by hand."""

    now = 1_000.0

    def monotonic(self):
        return self.now


@pytest.fixture
def watch(monkeypatch):
    """Replace the clock of the claiming module alone."""
    hand = Watch()
    monkeypatch.setattr(claiming, "time", SimpleNamespace(monotonic=hand.monotonic))
    return hand


@pytest.fixture
def claimer(alias, clock, watch):
    """A claimer of the queue ``jobs``; ``claimer.asked`` tells which claims it has made."""
    jobs = JobMirror.objects.db_manager(alias)
    made = Claimer(jobs, "jobs", "w")
    made.asked = []
    exactly, ahead = jobs.claim, jobs.claim_ahead

    def claim(queue, **options):
        made.asked.append("exact, burying" if options["bury_spent"] else "exact")
        return exactly(queue, **options)

    def claim_ahead(queue, **options):
        made.asked.append("ahead")
        return ahead(queue, **options)

    jobs.claim, jobs.claim_ahead = claim, claim_ahead
    return made


@pytest.fixture
def began(claimer, clock, make_queue):
    """The queue, of which the claimer has claimed jobs exactly and ahead."""
    queue = make_queue()
    for _ in range(2):
        queue.enqueue(None)
        [row] = claimer.claim(4)
        assert queue.ack_batch([row.id]) == 1
        clock.advance(60)
    claimer.asked.clear()
    return queue


def ids(rows):
    return [row.id for row in rows]


def test_the_first_claim_is_exact(claimer, make_queue):
    """6.1 Issue 3: a worker that starts looks at everything, and buries what is spent."""
    claimer.claim(1)
    assert claimer.asked == ["exact, burying"]


def test_after_an_exact_claim_it_claims_ahead(claimer, watch, make_queue):
    """Issue 3: between exact passes the claims go ahead of the frontier."""
    queue = make_queue()
    queue.enqueue_many([None] * 20)
    for _ in range(10):
        assert len(claimer.claim(2)) == 2
        watch.now += 0.01
    assert claimer.asked == ["exact, burying"] + ["ahead"] * 9


def test_an_exact_pass_at_least_every_second(claimer, watch, make_queue):
    """Issue 3: however busy the queue is, no second goes by without an exact pass."""
    queue = make_queue()
    queue.enqueue_many([None] * 60)
    exact_at = []
    while claimer.claim(1):
        if claimer.asked.pop() != "ahead":
            exact_at.append(watch.now)
        watch.now += 0.1
    pauses = [after - before for before, after in pairwise(exact_at)]
    assert pauses
    assert max(pauses) <= EXACT_EVERY_S + 0.1001


def test_a_poll_makes_the_next_claim_exact(claimer, began):
    """6.1 Issue 3: what the clock asks for is asked of everything, the spent included."""
    claimer.expect_anything()
    claimer.claim(1)
    claimer.claim(1)
    assert claimer.asked[0] == "exact, burying"
    assert claimer.asked[1:] in (["ahead"], ["ahead", "exact"])


# -- nothing waits longer than one exact pass ----------------------------------------------


def backdated(queue, clock):
    return queue.enqueue(None, run_at=clock.now - 3_600)


def retried(queue, clock):
    """One that was claimed long ago, and given another try at once."""
    job_id = queue.enqueue(None, run_at=clock.now - 7_200)
    handle = queue.claim_one("another")
    assert handle.job.id == job_id
    clock.move_to(clock.now - 3_600)
    assert handle.retry("again", delay=0)
    clock.move_to(clock.now + 3_600)
    return job_id


def lapsed(queue, clock):
    job_id = queue.enqueue(None)
    assert queue.claim_one("gone").job.id == job_id
    clock.advance(queue.options.visibility_timeout_s + 1)
    return job_id


@pytest.mark.parametrize("late", [backdated, retried, lapsed])
def test_found_by_the_next_exact_pass(clock, claimer, watch, began, late):
    """3.3 Issue 3: a job behind the frontier is claimed within a second, while others keep coming."""
    job_id = late(began, clock)
    found = []
    until = watch.now + EXACT_EVERY_S
    while watch.now <= until + 0.01:
        began.enqueue_many([None] * 3)
        found += ids(claimer.claim(2))
        watch.now += 0.1
    found += ids(claimer.claim(2))
    assert job_id in found


@pytest.mark.parametrize("late", [backdated, retried, lapsed])
def test_found_at_once_when_nothing_is_ahead(clock, claimer, watch, began, late):
    """6.1 Issue 3: an idle worker that is woken for a job behind its frontier finds it at once."""
    job_id = late(began, clock)
    watch.now += EXACT_PAUSE_S
    assert ids(claimer.claim(4)) == [job_id]


@pytest.mark.parametrize("late", [backdated, retried, lapsed])
def test_found_soon_when_something_else_is_ahead(clock, claimer, watch, began, late):
    """6.1 Issue 3: one wake for two jobs, one of them behind: no second wake will come, so the
    claimer says itself when to look again, a second later at most."""
    job_id = late(began, clock)
    other = began.enqueue(None)
    found = ids(claimer.claim(4))
    assert other in found
    if job_id not in found:  # the worker now waits for a wake, or for ``look_at``
        assert claimer.look_at <= watch.now + EXACT_EVERY_S
        watch.now = claimer.look_at
        assert ids(claimer.claim(4)) == [job_id]


@pytest.mark.parametrize("alias", ["postgres"], indirect=True)
def test_a_commit_that_was_overtaken_by_many(alias, clock, claimer, watch, make_queue):
    """Issue 3: hundreds of younger jobs were claimed before it committed: the exact pass finds it."""
    queue = make_queue()
    other = connections[alias].copy()
    try:
        other.set_autocommit(False)
        with other.cursor() as cursor:
            cursor.execute(
                "INSERT INTO alkstore.job (queue, state, priority, run_at, enqueued_at, attempts,"
                " max_attempts, visibility_timeout_s, backoff_base_s, codec, payload) VALUES"
                " ('jobs', 'pending', 0, %s, 0, 0, 3, 300, 5, 'json', 'null') RETURNING id",
                [int(clock.now)],
            )
            [overtaken] = cursor.fetchone()
        queue.enqueue_many([None] * 400)
        assert len(claimer.claim(400)) == 400
        other.commit()
    finally:
        other.close()
    queue.enqueue(None)
    assert len(claimer.claim(1)) == 1
    assert claimer.asked[-1] == "ahead"
    watch.now += EXACT_EVERY_S
    assert ids(claimer.claim(1)) == [overtaken]


# -- empty claims --------------------------------------------------------------------------


def test_an_empty_claim_ahead_is_followed_by_an_exact_one(claimer, watch, began):
    """Issue 3: only an exact claim may say that there is nothing."""
    watch.now += EXACT_PAUSE_S
    assert claimer.claim(4) == []
    assert claimer.asked == ["ahead", "exact"]
    assert claimer.look_at == NEVER


def test_not_again_right_after_an_exact_one(claimer, watch, began):
    """Issue 3: wakes upon wakes cost no exact pass each: it is put off for 20 ms, not forgotten."""
    watch.now += EXACT_PAUSE_S
    claimer.claim(4)
    exact_at = watch.now
    claimer.asked.clear()
    watch.now += EXACT_PAUSE_S / 2
    assert claimer.claim(4) == []
    assert claimer.asked == ["ahead"]
    assert claimer.look_at == exact_at + EXACT_PAUSE_S
    watch.now = claimer.look_at
    assert claimer.claim(4) == []
    assert claimer.asked == ["ahead", "ahead", "exact"]
    assert claimer.look_at == NEVER


def test_what_an_exact_pass_buries(alias, clock, claimer, watch, make_queue):
    """3.4 Issue 3: spent jobs are buried at the start and by each poll, by no other claim."""
    queue = make_queue(max_attempts=1, visibility_timeout_s=10)
    claimer.claim(1)
    queue.enqueue(None)
    assert queue.claim_one("gone")
    clock.advance(10)
    watch.now += EXACT_EVERY_S
    assert claimer.claim(1) == []
    assert count_live(alias) == 1
    claimer.expect_anything()
    assert claimer.claim(1) == []
    assert count_live(alias) == 0


# -- a worker ------------------------------------------------------------------------------


def test_a_drain_finds_everything(alias, clock, make_queue, work):
    """7.1 Issue 3: a drain ends with nothing ready, behind the frontier or ahead of it."""
    queue = make_queue(backoff_base_s=0)
    seen = []

    @queue.handler
    def handle(job):
        seen.append(job.payload)
        if isinstance(job.payload, int) and job.payload < 40:
            with transaction.atomic(using=alias):
                queue.enqueue("ahead")
                queue.enqueue("behind", run_at=clock.now - 10_000, priority=job.payload % 3)
            clock.advance(1)

    queue.enqueue_many(list(range(60)))
    work(queue, threads=2, poll_interval_s=60)
    assert count_live(alias) == 0
    assert (seen.count("ahead"), seen.count("behind")) == (40, 40)
