"""Deliveries of many events by one call: 5.2, 7.1."""

import asyncio
import threading

import pytest

from alkstore_django import FailJob, RetryJob, StopToken
from tests.support.rows import count_dead, count_live, dead_row, live_row


@pytest.fixture
def outbox(make_outbox):
    """The outbox of the tests; what fails is ready again at once."""
    return make_outbox(backoff_base_s=0, max_attempts=3)


@pytest.fixture
def relay_all(work):
    """Serve an outbox with a worker until nothing is ready."""

    def run(outbox, **options):
        return work(outbox._queue, **options)

    return run


@pytest.fixture(params=["def", "async def"])
def deliver_with(request, outbox):
    """Register a function of a list as the delivery, as it is or as a coroutine function."""

    def register(function, **options):
        if request.param == "def":
            return outbox.deliver(function, **options)

        async def deliver(events):
            await asyncio.sleep(0)
            return function(events)

        return outbox.deliver(deliver, **options)

    return register


def test_batches_are_full_and_no_larger(alias, outbox, deliver_with, relay_all):
    """5.2 One call, and one slot, for up to so many events, in claim order."""
    seen = []
    deliver_with(lambda events: seen.append([event.payload for event in events]), batch=10)
    outbox.enqueue_many(list(range(25)))
    tally = relay_all(outbox)
    assert sorted(map(len, seen)) == [5, 10, 10]
    assert sum(sorted(seen), []) == list(range(25))
    assert tally.count("acked") == 25 and count_live(alias) == 0


def test_a_batch_of_one_is_a_list(outbox, deliver_with, relay_all):
    """5.2 batch=1 gives a list, too."""
    seen = []
    deliver_with(lambda events: seen.append(len(events)), batch=1)
    outbox.enqueue_many([1, 2])
    relay_all(outbox)
    assert seen == [1, 1]


def test_no_two_of_one_key_in_a_batch(outbox, deliver_with, relay_all):
    """5.3 A batch holds the heads of several keys; each key stays in order."""
    seen = {}

    def deliver(events):
        keys = [event.key for event in events]
        assert len(set(keys)) == len(keys)
        for event in events:
            seen.setdefault(event.key, []).append(event.payload)

    deliver_with(deliver, batch=100)
    for number in range(5):
        for key in "abc":
            outbox.enqueue(number, key=key)
    relay_all(outbox)
    assert seen == {key: list(range(5)) for key in "abc"}


def test_a_mapping_says_which_failed(alias, clock, outbox, deliver_with, relay_all):
    """5.2 RetryJob, FailJob and any other exception count per event; the rest is delivered."""
    attempts = {}

    def deliver(events):
        for event in events:
            attempts[event.payload] = event.attempts
        errors = {"busy": RetryJob(delay=60), "gone": FailJob("410"), "bad": ValueError("no")}
        return {event.id: errors[event.payload] for event in events if event.payload in errors}

    deliver_with(deliver, batch=10)
    busy, gone, bad, good = outbox.enqueue_many(["busy", "gone", "bad", "good"])
    relay_all(outbox)
    assert live_row(alias, busy)["run_at"] == clock.now + 60
    assert dead_row(alias, gone)["last_error"] == "410"
    assert dead_row(alias, bad)["last_error"] == "ValueError: no"
    assert outbox.get_job(good) is None
    assert attempts == {"busy": 1, "gone": 1, "bad": 3, "good": 1}


@pytest.mark.parametrize(
    ("raised", "last_error"),
    [(ConnectionError("down"), "ConnectionError: down"), (FailJob("no more"), "no more")],
)
def test_raising_fails_all(
    alias, clock, outbox, deliver_with, relay_all, events, raised, last_error
):
    """5.2 What is raised counts for every event of the batch; its traceback is told once."""

    def deliver(events):
        raise raised

    deliver_with(deliver, batch=10)
    ids = outbox.enqueue_many([1, 2, 3], max_attempts=1)
    relay_all(outbox)
    assert count_dead(alias) == 3
    assert {dead_row(alias, event_id)["last_error"] for event_id in ids} == {last_error}
    told = [sent["exception"] for sent in events.of("job_died")]
    assert told == [raised if isinstance(raised, OSError) else None, None, None]


@pytest.mark.parametrize(
    "returned",
    ["a text", ["an", "id"], {-1: ValueError()}, {"id": "not an exception"}, 5, True],
    ids=repr,
)
def test_what_a_batch_may_not_return(alias, clock, outbox, deliver_with, relay_all, returned):
    """5.2 Anything but None and such a mapping is a mistake: none of the events is delivered."""

    def deliver(events):
        if isinstance(returned, dict) and "id" in returned:
            return {events[0].id: returned["id"]}
        return returned

    deliver_with(deliver, batch=10)
    first, *_ = outbox.enqueue_many([1, 2])
    relay_all(outbox)
    assert count_dead(alias) == 2
    assert "a batch delivery" in dead_row(alias, first)["last_error"]


def test_slots_are_counted_by_calls(alias, outbox, relay_all):
    """5.2 With two threads, two batches run at once, and no third."""
    running, most, both = [], [], threading.Barrier(2, timeout=30)

    @outbox.deliver(batch=5)
    def deliver(events):
        running.append(1)
        most.append(len(running))
        both.wait()
        running.pop()

    outbox.enqueue_many(list(range(20)))
    relay_all(outbox, threads=2)
    assert max(most) == 2 and len(most) == 4


def test_a_timeout_ends_all_of_a_batch(clock, outbox, relay_all):
    """7.1 The claims of a batch that takes too long end, and its late result changes nothing."""
    seen = []

    @outbox.deliver(batch=5, timeout_s=0.05)
    def deliver(events):
        seen.append(sorted(event.attempts for event in events))
        while events[0].attempts == 1 and not all(event.lost for event in events):
            pass

    outbox.enqueue_many([1, 2, 3])
    tally = relay_all(outbox, threads=2)
    assert seen == [[1, 1, 1], [2, 2, 2]]
    assert (tally.count("retried"), tally.count("acked")) == (3, 3)


def test_an_async_batch_is_cancelled_when_all_of_it_is_over(clock, outbox, relay_all):
    """7.1 A coroutine that waits for ever is cancelled at its time's end."""
    seen = []

    @outbox.deliver(batch=5, timeout_s=0.05)
    async def deliver(events):
        seen.append(sorted(event.attempts for event in events))
        if events[0].attempts == 1:
            await asyncio.Event().wait()

    outbox.enqueue_many([1, 2])
    tally = relay_all(outbox)
    assert seen == [[1, 1], [2, 2]]
    assert (tally.count("retried"), tally.count("acked")) == (2, 2)


def test_one_lost_event_of_a_batch(alias, outbox, relay_all):
    """3.5 5.2 An event that was cancelled meanwhile is lost by itself; the others are delivered."""
    lost = []

    @outbox.deliver(batch=5)
    def deliver(events):
        lost.append(events[1].id)
        assert outbox.cancel(events[1].id)

    outbox.enqueue_many([1, 2, 3])
    tally = relay_all(outbox)
    assert (tally.count("acked"), tally.count("lost")) == (2, 1)
    assert count_live(alias) == 0


def test_a_stop_gives_a_batch_back(alias, outbox, relay_all):
    """7.4 Each event of it, its attempt returned."""
    stop, stop_now = StopToken(), StopToken()

    @outbox.deliver(batch=5)
    def deliver(events):
        stop.stop()
        stop_now.stop()
        while not all(event.lost for event in events):
            pass

    ids = outbox.enqueue_many([1, 2, 3])
    tally = relay_all(outbox, stop=stop, stop_now=stop_now, drain=False)
    assert tally.count("given_back") == 3
    assert {live_row(alias, event_id)["attempts"] for event_id in ids} == {0}
