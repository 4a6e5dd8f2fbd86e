"""Which jobs a worker takes, and when it ends: 7.1."""

import threading

import pytest

from alkstore_django import StopToken
from tests.support.rows import count_live, live_row

WAIT_S = 20


def processing(queue, ids):
    return sum(job is not None and job.state == "processing" for job in map(queue.get_job, ids))


def test_claims_only_what_can_start_at_once(make_queue, work):
    """7.1 With two threads exactly two of ten jobs are claimed at any time."""
    queue = make_queue()
    pair = threading.Barrier(2, timeout=WAIT_S)
    counts = []

    @queue.handler
    def handle(job):
        pair.wait()  # both run, and hold still while they are counted
        counts.append(processing(queue, ids))
        pair.wait()

    ids = queue.enqueue_many([None] * 10)
    work(queue, threads=2)
    assert counts == [2] * 10


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("place", [0, 1], ids=["quiet-first", "busy-first"])
def test_a_busy_queue_starves_no_other(make_queue, work, events, threads, place):
    """7.1 A job of a quiet queue is claimed among the first, however many the busy one has."""
    busy, quiet = make_queue("busy"), make_queue("quiet")
    for queue in (busy, quiet):
        queue.handler(lambda job: None)
    busy.enqueue_many([None] * 60)
    alone = quiet.enqueue(None)
    queues = [quiet]
    queues.insert(1 - place, busy)
    work(*queues, threads=threads)
    assert events.ids("job_claimed").index(alone) <= threads
    assert len(events.ids("job_acked")) == 61


@pytest.mark.parametrize("threads", [1, 4])
def test_busy_queues_share_alike(make_queue, work, events, threads):
    """7.1 Queues that all have work are served alike, in whatever order they were named."""
    queues = [make_queue(f"q{n}") for n in range(3)]
    for queue in queues:
        queue.handler(lambda job: None)
        queue.enqueue_many([None] * 40)
    work(*queues, threads=threads)
    first = [sent["job"].queue for sent in events.of("job_claimed")[:60]]
    counts = [first.count(queue.name) for queue in queues]
    assert sum(counts) == 60
    assert min(counts) >= 12, counts


def test_work_that_arrives_at_a_quiet_queue(make_queue, work, events):
    """7.1 6.1 A wake gets a quiet queue its turn while a busy one still has plenty."""
    busy, quiet = make_queue("busy"), make_queue("quiet")
    quiet.handler(lambda job: None)
    arrived = []

    @busy.handler
    def handle(job):
        if job.payload == 10:
            with quiet.listen() as listener:
                arrived.append(quiet.enqueue(None))
                assert listener.wait(WAIT_S)

    ids = busy.enqueue_many(list(range(100)))
    work(busy, quiet, poll_interval_s=60)
    claimed = events.ids("job_claimed")
    assert claimed.index(arrived[0]) - claimed.index(ids[10]) <= 4


def test_work_that_comes_due_without_a_wake(clock, make_queue, work, events):
    """7.1 6.1 FR-044 A busy queue does not keep the re-poll from finding what came due meanwhile."""
    busy, quiet = make_queue("busy"), make_queue("quiet")
    quiet.handler(lambda job: None)
    later = quiet.enqueue(None, delay=100)

    @busy.handler
    def handle(job):
        if job.payload == 5:
            clock.advance(100)

    busy.enqueue_many(list(range(300)))
    work(busy, quiet, poll_interval_s=0.01)
    assert events.ids("job_claimed").index(later) < 290


def test_jobs_are_run_in_claim_order(make_queue, work):
    """3.3 One thread runs the jobs of a queue by priority, then run_at, then id."""
    queue = make_queue()
    seen = []
    queue.handler(lambda job: seen.append(job.payload))
    for payload, priority in [("d", -1), ("b", 0), ("c", 0), ("a", 5)]:
        queue.enqueue(payload, priority=priority)
    work(queue)
    assert seen == ["a", "b", "c", "d"]


def test_old_jobs_are_taken_at_the_start(make_queue, work):
    """FR-019 A worker looks for jobs when it starts, and waits for wakes only then."""
    queue = make_queue()
    stop = StopToken()
    seen = []

    @queue.handler
    def handle(job):
        seen.append(job.payload)
        if len(seen) == 3:
            stop.stop()

    queue.enqueue_many([1, 2, 3])
    work(queue, drain=False, poll_interval_s=60, stop=stop)
    assert seen == [1, 2, 3]


def test_a_wake_is_enough(make_queue, work):
    """6.1 7.1 FR-133 Each job is claimed on its wake, with the re-poll a minute away."""
    queue = make_queue()
    stop = StopToken()
    seen = []

    @queue.handler
    def handle(job):
        seen.append(job.payload)
        if job.payload < 20:
            queue.enqueue(job.payload + 1)
        else:
            stop.stop()

    queue.enqueue(1)
    work(queue, drain=False, poll_interval_s=60, stop=stop)
    assert seen == list(range(1, 21))


def test_a_job_between_the_subscription_and_the_first_claim(alias, make_queue, work, monkeypatch):
    """FR-037 A job that is committed just before the worker's first claim is handled at once."""
    from alkstore_django.engines.registry import engine_for

    queue = make_queue()
    stop = StopToken()
    queue.handler(lambda job: stop.stop())
    engine = engine_for(alias)
    subscribe = engine.subscribe

    def subscribe_then_enqueue(*args, **options):
        subscription = subscribe(*args, **options)
        queue.enqueue(None)
        return subscription

    monkeypatch.setattr(engine, "subscribe", subscribe_then_enqueue)
    tally = work(queue, drain=False, poll_interval_s=60, stop=stop)
    assert tally.count("acked") == 1


# -- drain ---------------------------------------------------------------------------------


def test_drain_of_nothing(make_queue, work):
    """7.1 A drain of empty queues returns at once."""
    queue = make_queue()
    queue.handler(lambda job: None)
    assert str(work(queue, threads=4)) == "acked=0 retried=0 died=0 given_back=0 lost=0"


def test_drain_leaves_a_retry_that_is_due_later(alias, make_queue, work):
    """7.1 A retry due later does not hold a drain."""
    queue = make_queue(backoff_base_s=3600)

    @queue.handler
    def handle(job):
        raise ValueError("no")

    job_id, later = queue.enqueue(None), queue.enqueue(None, delay=3600)
    assert work(queue).count("retried") == 1
    assert live_row(alias, job_id)["attempts"] == 1
    assert live_row(alias, later)["attempts"] == 0


def test_drain_takes_what_its_handlers_enqueue(alias, make_queue, work):
    """7.1 A drain ends only when nothing is ready: what handlers enqueue is handled too."""
    first, second = make_queue("first"), make_queue("second")
    seen = []
    first.handler(lambda job: seen.append(second.enqueue(job.payload)))
    second.handler(lambda job: job.payload and first.enqueue(job.payload - 1))
    first.enqueue(5)
    work(first, second, threads=3)
    assert len(seen) == 6
    assert count_live(alias) == 0


def test_drain_waits_for_what_runs(make_queue, work):
    """7.1 A drain does not end while a handler runs, idle threads or not."""
    queue = make_queue()
    follow_up = []

    @queue.handler
    def handle(job):
        if job.payload == "late":
            with queue.listen() as listener:
                listener.wait(0.5)  # longer than many turns of the loop
            queue.enqueue("follow-up")
        else:
            follow_up.append(job.payload)

    queue.enqueue("late")
    work(queue, threads=4, poll_interval_s=0.01)
    assert follow_up == ["follow-up"]


def test_drain_does_not_wait_for_others(make_queue, work):
    """7.1 Jobs that another worker runs are not ready and not ours: they hold no drain."""
    queue = make_queue()
    queue.handler(lambda job: None)
    queue.enqueue(None)
    handle = queue.claim_one("another")
    assert work(queue).count("acked") == 0
    assert handle.ack()


def test_drain_takes_lapsed_jobs(clock, make_queue, work):
    """7.1 3.3 A lapsed claim of another worker is ready, and is drained."""
    queue = make_queue(visibility_timeout_s=10)
    seen = []
    queue.handler(lambda job: seen.append(job.attempts))
    queue.enqueue(None)
    handle = queue.claim_one("gone")
    clock.advance(10)
    work(queue)
    assert seen == [2]
    assert handle.ack() is False


def test_other_queues_are_left_alone(alias, make_queue, work):
    """7.5 A worker touches the queues that it serves, and no other."""
    served, other = make_queue("served"), make_queue("other")
    for queue in (served, other):
        queue.handler(lambda job: None)
        queue.enqueue(None)
    work(served)
    assert count_live(alias) == 1
    assert other.claim_one("w").job.attempts == 1
