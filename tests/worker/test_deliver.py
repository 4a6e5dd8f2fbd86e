"""Deliveries of single events by the worker: 5.2, 5.3, 7.1."""

import gc
import logging
import re

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import transaction

from alkstore_django import FailJob, RetryJob, StopToken, handlers
from alkstore_django.core.names import backing_name
from alkstore_django.handlers import handlers_on
from alkstore_django.models import Job as JobMirror
from alkstore_django.testing import drain
from alkstore_django.worker import claiming_in_order
from alkstore_django.worker.claiming_in_order import OrderedClaimer
from tests.support.relay import Relay
from tests.support.rows import count_dead, count_live, dead_row, live_row


@pytest.fixture
def outbox(make_outbox):
    """The outbox of the tests; what fails is ready again at once."""
    return make_outbox(backoff_base_s=0, max_attempts=3)


@pytest.fixture
def relay_all(work):
    """Serve an outbox with a worker until nothing is ready."""

    def run(*outboxes, **options):
        return work(*[outbox._queue for outbox in outboxes], **options)

    return run


def test_an_event_is_delivered_and_gone(alias, outbox, relay_all):
    """5.2 The delivery gets the event; returning means delivered, whatever is returned."""
    seen = []

    @outbox.deliver
    def deliver(event):
        seen.append((event.id, event.payload, event.key, event.attempts, event.outbox))
        return {"not": "looked at"}

    first = outbox.enqueue({"n": 1})
    second = outbox.enqueue({"n": 2}, key="k")
    tally = relay_all(outbox)
    assert sorted(seen) == [
        (first, {"n": 1}, None, 1, "events"),
        (second, {"n": 2}, "k", 1, "events"),
    ]
    assert tally.count("acked") == 2 and count_live(alias) == 0


def test_async_deliveries(alias, outbox, relay_all):
    """5.2 An async def is delivered on the worker's event loop."""
    seen = []

    @outbox.deliver
    async def deliver(event):
        seen.append(event.payload)

    assert handlers_on(alias)[backing_name("events")].on_event_loop
    outbox.enqueue_many([1, 2, 3], key="k")
    relay_all(outbox)
    assert seen == [1, 2, 3]


def test_an_exception_means_again_then_dead(alias, clock, outbox, relay_all, events):
    """5.2 Retry by the curve, then dead with the last error; the next of its key goes on."""
    seen = []

    @outbox.deliver
    def deliver(event):
        seen.append((event.payload, event.attempts))
        if event.payload == "poison":
            raise ConnectionError("refused")

    poison, _ = outbox.enqueue_many(["poison", "next"], key="k")
    outbox.enqueue("free")
    relay_all(outbox)
    assert ("free", 1) in seen
    seen.remove(("free", 1))
    assert seen == [("poison", 1), ("poison", 2), ("poison", 3), ("next", 1)]
    assert dead_row(alias, poison)["last_error"] == "ConnectionError: refused"
    assert events.ids("job_died") == [poison]


def test_retry_after_and_gone(alias, clock, outbox, relay_all):
    """5.2 RetryJob and FailJob are obeyed, as a webhook wants it for Retry-After and 410."""

    @outbox.deliver
    def deliver(event):
        if event.payload == "busy":
            raise RetryJob(delay=120, error="429")
        if event.payload == "gone":
            raise FailJob("410")

    busy, gone = outbox.enqueue("busy", key="a"), outbox.enqueue("gone", key="b")
    relay_all(outbox)
    assert live_row(alias, busy)["run_at"] == clock.now + 120
    assert dead_row(alias, gone)["last_error"] == "410"
    assert (count_live(alias), count_dead(alias)) == (1, 1)


def test_one_relay_delivers_in_order(alias, outbox, relay_all):
    """FR-127 Numbered events of one key arrive in rising order, whatever the number of threads."""
    seen = []
    outbox.deliver(lambda event: seen.append(event.payload))
    outbox.enqueue_many(list(range(100)), key="k")
    relay_all(outbox, threads=4)
    assert seen == list(range(100))


def test_keys_are_independent_and_each_in_order(alias, clock, outbox, relay_all):
    """5.3 Many keys at once: each in its order, though one in three deliveries fails."""
    seen, calls = {}, []

    @outbox.deliver
    def deliver(event):
        calls.append(event.id)
        if event.attempts < 3 and event.id % 3 == 0:
            raise RetryJob(delay=0)
        seen.setdefault(event.key, []).append(event.payload)

    for number in range(8):
        for key in "abcdefgh":
            outbox.enqueue(number, key=key)
    relay_all(outbox, threads=4)
    assert seen == {key: list(range(8)) for key in "abcdefgh"}


def test_an_event_enqueued_by_a_delivery(alias, outbox, relay_all):
    """5.2 A delivery may enqueue the next event, of its own key too."""
    seen = []

    @outbox.deliver
    def deliver(event):
        seen.append(event.payload)
        if event.payload < 5:
            with transaction.atomic(using=alias):
                outbox.enqueue_tx(event.payload + 1, key="k")

    outbox.enqueue(1, key="k")
    relay_all(outbox)
    assert seen == [1, 2, 3, 4, 5]


def test_a_drain_finds_the_stranded(alias, outbox, relay_all):
    """5.3 7.1 A relay looks for what nobody promoted."""
    seen = []
    outbox.deliver(lambda event: seen.append(event.payload))
    first, *_ = outbox.enqueue_many(["a", "b", "c"], key="k")
    outbox.cancel(first)
    relay_all(outbox)
    assert seen == ["b", "c"]


def test_a_timeout_ends_a_delivery(clock, outbox, relay_all):
    """7.1 timeout_s counts for deliveries as for handlers."""
    attempts = []

    @outbox.deliver(timeout_s=0.05)
    def deliver(event):
        attempts.append(event.attempts)
        while event.attempts == 1 and not event.lost:
            pass

    outbox.enqueue("x", key="k")
    tally = relay_all(outbox, threads=2)
    assert attempts == [1, 2]
    assert (tally.count("retried"), tally.count("acked")) == (1, 1)


def test_a_stop_gives_back(alias, make_outbox, relay_all):
    """7.4 A stopping relay gives back what it has not delivered, its attempt returned."""
    outbox, stop, stop_now = make_outbox(), StopToken(), StopToken()

    @outbox.deliver
    def deliver(event):
        stop.stop()
        stop_now.stop()
        while not event.lost:
            pass

    first, second = outbox.enqueue_many(["a", "b"], key="k")
    tally = relay_all(outbox, stop=stop, stop_now=stop_now, drain=False)
    assert tally.count("given_back") == 1
    row = live_row(alias, first)
    assert (row["state"], row["attempts"], live_row(alias, second)["state"]) == (
        "pending",
        0,
        "behind",
    )


def test_two_deliveries_for_one_outbox(alias, outbox):
    """5.2 An outbox has one delivery; what is no function has none."""
    outbox.deliver(lambda event: None)
    with pytest.raises(ImproperlyConfigured, match="outbox 'events' has two handlers"):
        outbox.deliver(print)


class ToOneAddress:
    """A delivery that is an object, as the ready ones are."""

    def __call__(self, event):
        return None


def test_two_objects_of_one_class_for_one_outbox(outbox):
    """5.2 Two webhooks are two deliveries; the same one may be registered again."""
    delivery = ToOneAddress()
    outbox.deliver(delivery)
    outbox.deliver(delivery)
    with pytest.raises(ImproperlyConfigured, match="outbox 'events' has two handlers"):
        outbox.deliver(ToOneAddress())


def test_a_queue_beside_an_outbox(alias, outbox, make_queue, relay_all, work):
    """7.1 One worker serves both, and a name may be that of either."""
    seen = []
    queue = make_queue("events")
    queue.handler(lambda job: seen.append(("job", job.payload)))
    outbox.deliver(lambda event: seen.append(("event", event.payload)))
    queue.enqueue(1)
    outbox.enqueue(2)
    work(queue, outbox._queue, threads=2)
    assert sorted(seen) == [("event", 2), ("job", 1)]


def test_log_lines_name_the_outbox(clock, outbox, relay_all, caplog):
    """7.7 No line tells the name of the backing queue, none the payload."""
    caplog.set_level(logging.DEBUG, logger="alkstore_django")

    @outbox.deliver
    def deliver(event):
        if event.attempts == 1:
            raise RetryJob(delay=0, error="later")
        raise FailJob("gone")

    event_id = outbox.enqueue("secret", key="k")
    relay_all(outbox)
    lines = [r.getMessage() for r in caplog.records if r.name == "alkstore_django.worker"]
    assert f"Event claimed id={event_id} outbox=events attempt=1/3" in lines
    assert f"Event died id={event_id} outbox=events attempt=2/3 error=gone" in lines
    assert "__alkstore" not in caplog.text and "secret" not in caplog.text


# -- testing.drain ---------------------------------------------------------------------------


def test_drain(alias, clock, outbox):
    """7.1 testing.drain delivers in line, inside a transaction too."""
    seen = []

    @outbox.deliver
    def deliver(event):
        seen.append((event.payload, event.attempts))
        if event.payload == "b" and event.attempts == 1:
            raise RetryJob(delay=0)

    with transaction.atomic(using=alias):
        first, *_ = outbox.enqueue_many(["gone", "a", "b", "c"], key="k")
        outbox.cancel(first)
        assert drain(outbox).count("acked") == 3
    assert seen == [("a", 1), ("b", 1), ("b", 2), ("c", 1)]
    with pytest.raises(LookupError, match="outbox 'other' has no delivery"):
        drain(type(outbox)("other", using=alias))


def test_drain_of_batches(alias, outbox):
    """7.1 testing.drain hands over batches to a delivery of batches."""
    seen = []

    @outbox.deliver(batch=3)
    def deliver(events):
        seen.append([event.payload for event in events])
        return {event.id: FailJob("bad") for event in events if event.payload == 2}

    outbox.enqueue_many([1, 2, 3, 4])
    with transaction.atomic(using=alias):
        tally = drain(outbox)
    assert seen == [[1, 2, 3], [4]]
    assert (tally.count("acked"), tally.count("died")) == (3, 1)


# -- the search for stranded events ----------------------------------------------------------


class Hand:
    """A monotonic clock that moves by hand."""

    now = 100.0

    def monotonic(self):
        return self.now


def test_when_a_relay_searches(monkeypatch, alias, outbox):
    """5.3 At the start, once a second, and when a claim finds less than was asked for."""
    hand = Hand()
    monkeypatch.setattr(claiming_in_order, "time", hand)
    jobs = JobMirror.objects.db_manager(alias)
    found, searches = jobs.promote_stranded, []
    jobs.promote_stranded = lambda queue, **at: searches.append(hand.now) or found(queue, **at)
    claimer = OrderedClaimer(jobs, backing_name("events"), "w")
    assert claimer.claim(1) == [] and searches == [100.0]
    assert claimer.look_at == float("inf")
    hand.now += 0.01  # woken right after: it looks again when the pause is over
    assert claimer.claim(1) == [] and len(searches) == 1
    assert claimer.look_at == pytest.approx(100.02)
    hand.now = claimer.look_at
    first, *_ = outbox.enqueue_many(["a", "b"], key="k")
    outbox.cancel(first)
    assert [row.key for row in claimer.claim(1)] == ["k"] and len(searches) == 2
    hand.now += 0.5
    outbox.enqueue("x")
    assert len(claimer.claim(1)) == 1 and len(searches) == 2
    hand.now += 0.6
    outbox.enqueue("x")
    assert len(claimer.claim(1)) == 1 and len(searches) == 3
    claimer.expect_anything()
    claimer.claim(1)
    assert len(searches) == 4


# -- the command -----------------------------------------------------------------------------


@pytest.fixture
def command(alias, capsys):
    """Run the command to its end, return what it printed."""

    def run(*options):
        call_command("alkstore_worker", "--database", alias, "--drain", *options)
        return capsys.readouterr().out

    return run


@pytest.fixture
def served(alias, outbox, make_queue, make_outbox):
    """A queue and an outbox that are served, and an outbox that is only declared."""
    handlers._handlers.clear()
    seen = []
    queue = make_queue("letters")
    queue.handler(lambda job: seen.append(job.payload))
    outbox.deliver(lambda event: seen.append(event.payload))
    silent = make_outbox("silent")
    queue.enqueue("job")
    outbox.enqueue("event")
    return seen, silent


def test_the_command_serves_both(served, command):
    """5.2 7.5 By default all queues and outboxes; its lines never tell the backing name."""
    seen, _ = served
    said = command()
    assert sorted(seen) == ["event", "job"]
    assert "serves 1 queue and 1 outbox on" in said
    assert "letters, outbox events" in said
    assert re.search(r"  outbox events: tests.*batch=none .*max_attempts=3", said)
    assert "  outbox events: acked=1" in said and "__alkstore" not in said


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--outbox", "events"], ["event"]),
        (["--outbox", "events:2"], ["event"]),
        (["--queue", "letters"], ["job"]),
        (["--queue", "letters", "--outbox", "events"], ["event", "job"]),
    ],
)
def test_the_command_serves_what_is_named(served, command, options, expected):
    """7.5 --queue or --outbox alone serve just those."""
    seen, _ = served
    said = command(*options)
    assert sorted(seen) == expected
    assert (" limit=2" in said) is ("events:2" in options)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--outbox", "silent"], "Outbox 'silent' has no delivery: put @outbox.deliver"),
        (["--outbox", "event"], "Outbox 'event' is unknown on {alias!r}. Did you mean 'events'?"),
        (["--outbox", "letters"], "Outbox 'letters' is unknown"),
        (["--queue", "events"], "Queue 'events' is unknown"),
        (["--queue", "__alkstore_outbox_events"], "is unknown"),
        (["--outbox", "events:1", "--outbox", "events:2"], "Outbox 'events' has two limits"),
        (["--outbox", "events:0"], "The limit of outbox 'events' must be"),
    ],
)
def test_the_command_refuses(alias, served, command, options, complaint):
    """7.5 An outbox that is unknown or has no delivery: an error that names it, nothing claimed."""
    gc.collect()  # a queue of another test, of that name, counts as declared while it lives
    with pytest.raises(CommandError, match=re.escape(complaint.format(alias=alias))):
        command(*options)
    assert count_live(alias) == 2


def test_a_relay_for_the_longest_name(alias, make_outbox, relay_all):
    """6.2 1.3 The wake and the claims of an outbox with 200 characters work."""
    outbox = make_outbox("😀" * 200)
    seen = []
    outbox.deliver(lambda event: seen.append(event.outbox))
    outbox.enqueue("x", key="😀" * 200)
    relay_all(outbox)
    assert seen == ["😀" * 200] and Relay(outbox).claim() == []


def test_a_slow_search_takes_a_tenth_of_the_time(monkeypatch, alias, outbox):
    """5.3 Neither a poll nor a wake makes a relay search again before its pause is over."""
    hand = Hand()
    monkeypatch.setattr(claiming_in_order, "time", hand)
    jobs = JobMirror.objects.db_manager(alias)
    searches = []

    def search(queue, *, after):
        searches.append(after)
        hand.now += 2
        return 0, "k" if len(searches) == 1 else ""

    jobs.promote_stranded = search
    claimer = OrderedClaimer(jobs, backing_name("events"), "w")
    claimer.claim(1)
    assert searches == [""] and claimer.is_searching
    claimer.expect_anything()
    hand.now += 19
    claimer.claim(1)
    assert len(searches) == 1 and claimer.look_at == pytest.approx(122)
    hand.now += 1
    claimer.claim(1)
    assert searches == ["", "k"] and not claimer.is_searching
