"""What becomes of a job: acked, retried by the curve, or buried. 7.1."""

import asyncio

import pytest

from alkstore_django import FailJob, RetryJob
from tests.support.rows import count_dead, count_live, dead_row, live_row


def failing(error):
    def handle(job):
        raise error

    return handle


def test_done_is_deleted(alias, make_queue, work, events):
    """7.1 3.7 A handler that returns has its job acked."""
    queue = make_queue()
    seen = []
    queue.handler(lambda job: seen.append((job.id, job.payload, job.attempts, job.queue)))
    job_id = queue.enqueue({"order": 7})
    assert str(work(queue)) == "acked=1 retried=0 died=0 given_back=0 lost=0"
    assert seen == [(job_id, {"order": 7}, 1, "jobs")]
    assert (count_live(alias), count_dead(alias)) == (0, 0)
    assert [name for name, _, _ in events] == ["job_claimed", "job_acked"]
    assert events.of("job_acked")[0]["duration_s"] >= 0


def test_an_error_is_retried_by_the_curve(alias, clock, make_queue, work):
    """7.1 3.8 FR-083 Each failed attempt waits as the curve says, then the job is dead."""
    queue = make_queue(max_attempts=3, backoff_base_s=10)
    queue.handler(failing(ValueError("no")))
    job_id = queue.enqueue(None)
    for attempt, (least, most) in enumerate([(5, 10), (10, 20)], start=1):
        assert work(queue).count("retried") == 1
        row = live_row(alias, job_id)
        assert (row["state"], row["attempts"]) == ("pending", attempt)
        assert least <= row["run_at"] - clock.now <= most
        clock.move_to(row["run_at"])
    assert work(queue).count("died") == 1
    assert live_row(alias, job_id) is None
    assert (dead_row(alias, job_id)["attempts"], dead_row(alias, job_id)["last_error"]) == (
        3,
        "ValueError: no",
    )


@pytest.mark.parametrize(
    ("signal", "delays", "error"),
    [
        (RetryJob(), range(3, 6), ""),
        (RetryJob(error="busy"), range(3, 6), "busy"),
        (RetryJob(delay=60), [60], ""),
        (RetryJob(delay=60.25, error="later"), [61], "later"),
        (RetryJob(delay=0), [0], ""),
        (RetryJob(delay=-1), range(3, 6), "delay"),
        (RetryJob(delay=float("nan")), range(3, 6), "delay"),
        (RetryJob(delay=True), range(3, 6), "delay"),
        (RetryJob(delay="soon"), range(3, 6), "delay"),
    ],
    ids=repr,
)
def test_a_handler_asks_for_a_retry(alias, clock, make_queue, work, events, signal, delays, error):
    """7.1 3.8 RetryJob puts the job back after its delay; a wrong delay is a plain failure."""
    queue = make_queue()

    @queue.handler
    def handle(job):
        if job.attempts == 1:
            raise signal

    job_id = queue.enqueue(None)
    tally = work(queue)
    if delays == [0]:
        assert str(tally) == "acked=1 retried=1 died=0 given_back=0 lost=0"
        return
    assert str(tally) == "acked=0 retried=1 died=0 given_back=0 lost=0"
    assert live_row(alias, job_id)["run_at"] - clock.now in delays
    told = events.of("job_retried")[0]
    assert error in told["error"]
    assert (told["exception"] is None) == (error != "delay")


@pytest.mark.parametrize(
    ("signal", "error"),
    [(RetryJob(error="busy"), "busy"), (RetryJob(), "max attempts exceeded"),
     (RetryJob(delay=60, error=""), ""), (FailJob("hopeless"), "hopeless"), (FailJob(""), "")],
    ids=repr,
)  # fmt: skip
def test_the_last_attempt(alias, make_queue, work, signal, error):
    """7.1 3.8 3.9 FR-085 With no attempt left the job dies with the error that was given."""
    queue = make_queue(max_attempts=1)
    queue.handler(failing(signal))
    job_id = queue.enqueue("keep me")
    assert str(work(queue)) == "acked=0 retried=0 died=1 given_back=0 lost=0"
    assert live_row(alias, job_id) is None
    assert dead_row(alias, job_id)["last_error"] == error
    assert queue.get_job(job_id).payload == "keep me"


def test_a_handler_buries_its_job(alias, make_queue, work, events):
    """7.1 3.9 FailJob buries the job at once, whatever attempts are left."""
    queue = make_queue(max_attempts=9)
    queue.handler(failing(FailJob("no such order")))
    job_id = queue.enqueue(None)
    work(queue)
    assert dead_row(alias, job_id)["last_error"] == "no such order"
    assert events.of("job_died")[0]["error"] == "no such order"
    assert events.of("job_died")[0]["exception"] is None


def test_an_async_handler(alias, make_queue, work):
    """7.1 FR-030 A coroutine function is run to its end; one that is cancelled is retried."""
    queue = make_queue()
    seen = []

    @queue.handler
    async def handle(job):
        await asyncio.sleep(0)
        if job.payload == "cancelled":
            raise asyncio.CancelledError
        seen.append(job.payload)

    cancelled = queue.enqueue("cancelled", priority=1)
    queue.enqueue("done")
    tally = work(queue)
    assert seen == ["done"]
    assert (tally.count("acked"), tally.count("retried")) == (1, 1)
    assert live_row(alias, cancelled)["attempts"] == 1


@pytest.mark.parametrize("atomic", [False, True], ids=["plain", "atomic"])
def test_an_async_handler_writes(alias, make_queue, work, business, atomic):
    """7.1 7.2 What a coroutine function writes through the ORM is the job's, as any handler's."""
    queue = make_queue()

    @queue.handler(atomic=atomic)
    async def handle(job):
        await business.objects.using(alias).acreate(text=job.payload)

    queue.enqueue("from afar")
    assert work(queue).count("acked") == 1
    assert business.objects.using(alias).get().text == "from afar"


def test_cancelled_while_it_runs(alias, make_queue, work, events):
    """FR-009 3.11 The job of a running handler is cancelled: its failure brings nothing back."""
    queue = make_queue()

    @queue.handler
    def handle(job):
        assert queue.cancel(job.id)
        if job.payload == "fails":
            raise ValueError("no")

    ids = queue.enqueue_many(["fails", "returns"])
    assert str(work(queue)) == "acked=0 retried=0 died=0 given_back=0 lost=2"
    assert (count_live(alias), count_dead(alias)) == (0, 0)
    assert sorted(events.ids("claim_lost")) == ids


def test_an_expired_job_is_not_run(alias, clock, make_queue, work):
    """3.3 FR-076 What has expired is never handed to a handler, and the drain does not hang on it."""
    queue = make_queue()
    seen = []
    queue.handler(lambda job: seen.append(job.payload))
    expired = queue.enqueue("expired", expires=10)
    clock.advance(10)
    queue.enqueue("fresh", expires=10)
    work(queue)
    assert seen == ["fresh"]
    assert live_row(alias, expired)["state"] == "pending"


def test_a_delay_longer_than_the_visibility_timeout(alias, clock, make_queue, work):
    """FR-071 A delayed job is not claimed before its time, however short its claims are."""
    queue = make_queue(visibility_timeout_s=2)
    seen = []
    queue.handler(lambda job: seen.append(job.attempts))
    job_id = queue.enqueue(None, delay=8)
    for _ in range(4):
        work(queue)
        assert live_row(alias, job_id)["attempts"] == 0
        clock.advance(1.99)
    clock.advance(0.04)
    work(queue)
    assert seen == [1]
    assert live_row(alias, job_id) is None


def test_stamps_are_the_rows_own(alias, clock, make_queue, work):
    """FR-075 2.1 A worker goes by what is stamped on the job, whatever its own queue object says."""
    make_queue(max_attempts=1, visibility_timeout_s=7).enqueue(None)
    queue = make_queue(max_attempts=9, visibility_timeout_s=60)
    seen = []

    @queue.handler
    def handle(job):
        seen.append((job.max_attempts, job.deadline.timestamp() - clock.now))
        raise ValueError("no")

    assert work(queue).count("died") == 1
    assert seen == [(1, 7)]


def test_a_spent_job_is_buried_not_run(alias, clock, make_queue, work):
    """FR-027 3.4 A job that lapsed on its last attempt goes to the dead; the good one is run."""
    queue = make_queue(max_attempts=1, visibility_timeout_s=5)
    seen = []
    queue.handler(lambda job: seen.append(job.payload))
    spent = queue.enqueue("spent")
    assert queue.claim_one("gone").job.id == spent
    clock.advance(5)
    queue.enqueue("good")
    work(queue)
    assert seen == ["good"]
    assert dead_row(alias, spent)["last_error"] == "max attempts exceeded"
