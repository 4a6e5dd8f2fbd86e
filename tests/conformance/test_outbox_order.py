"""Order per key: 5.3, and the owner's issue 4, on both engines."""

import random
import threading
from dataclasses import dataclass

import pytest
from django.db import connections, transaction

from alkstore_django import managers
from tests.support.relay import Relay, ids
from tests.support.rows import count_live, live_row


@pytest.fixture
def outbox(make_outbox):
    """The outbox of the tests: a short visibility timeout."""
    return make_outbox(visibility_timeout_s=30, max_attempts=3)


@pytest.fixture
def relay(outbox):
    """A relay of it."""
    return Relay(outbox)


def test_one_at_a_time_in_order_of_enqueue(outbox, relay):
    """5.3 The next of a key comes when the one before has left, and at once."""
    one, two, three = outbox.enqueue_many(["a", "b", "c"], key="k")
    for expected in (one, two, three):
        [row] = relay.claim_at_once()
        assert row.id == expected and row.key == "k"
        assert relay.claim_at_once() == []
        relay.ack(row)
    assert relay.claim() == []


def test_neither_priority_nor_instant_lets_an_event_overtake(clock, outbox, relay):
    """5.3 Order of enqueue alone counts within a key."""
    slow = outbox.enqueue("slow", key="k", delay=100)
    outbox.enqueue("urgent", key="k", priority=9)
    outbox.enqueue("backdated", key="k", run_at=1)
    assert relay.claim() == []
    clock.advance(100)
    assert ids(relay.claim()) == [slow]


def test_order_between_keys_is_that_of_a_queue(clock, outbox, relay):
    """3.3 5.3 The first events of all keys come by priority, instant and id."""
    low = outbox.enqueue("a", key="a")
    high = outbox.enqueue("b", key="b", priority=1)
    early = outbox.enqueue("c", run_at=1)
    assert ids(relay.claim()) == [high, early, low]


def test_a_failing_head_holds_back_its_own_key_only(clock, outbox, relay):
    """5.3 In back-off, delayed, being delivered: the rest of its key waits, nobody else."""
    head, second = outbox.enqueue_many(["a", "b"], key="k")
    other = outbox.enqueue("x", key="other")
    [row, free] = relay.claim()
    assert ids([row, free]) == [head, other]
    relay.ack(free)
    relay.retry(row, delay_s=60)
    assert relay.claim() == []
    clock.advance(59)
    assert relay.claim() == []
    clock.advance(1)
    [row] = relay.claim()
    assert row.id == head
    relay.ack(row)
    assert ids(relay.claim_at_once()) == [second]


def test_a_dead_event_leaves_a_gap(clock, outbox, relay):
    """5.3 Dead by FailJob or on its last attempt: the next of its key goes on at once."""
    first, second, third = outbox.enqueue_many(["a", "b", "c"], key="k")
    [row] = relay.claim()
    assert row.id == first
    relay.fail(row)
    for _ in range(3):
        [row] = relay.claim_at_once()
        assert row.id == second
        relay.retry(row)
    assert ids(relay.claim_at_once()) == [third]


def test_a_lapsed_claim_is_claimed_again_before_the_next(clock, outbox, relay):
    """5.3 No lock outlives a crash: the head comes again once its claim has lapsed."""
    head, second = outbox.enqueue_many(["a", "b"], key="k")
    relay.claim()
    clock.advance(29)
    assert relay.claim() == []
    clock.advance(1)
    [row] = relay.claim_at_once()
    assert (row.id, row.attempts) == (head, 2)
    relay.ack(row)
    assert ids(relay.claim_at_once()) == [second]


def test_a_head_spent_by_crashes_is_not_in_the_way(alias, clock, outbox, relay):
    """3.4 5.3 Lapsed on its last attempt: dead, and the next goes on."""
    _, second = outbox.enqueue_many(["a", "b"], key="k")
    for _ in range(3):
        assert len(relay.claim()) == 1
        clock.advance(30)
    assert ids(relay.claim()) == [second]
    assert count_live(alias) == 1


def test_an_expired_head_is_not_in_the_way(alias, clock, outbox, relay):
    """5.3 An event that can never be delivered again does not block, swept or not."""
    outbox.enqueue("a", key="k", expires=10)
    outbox.enqueue("b", key="k", expires=10)
    last = outbox.enqueue("c", key="k")
    clock.advance(10)
    assert ids(relay.claim()) == [last]
    assert count_live(alias) == 3
    new = outbox.enqueue("d", key="k2", expires=1)
    clock.advance(1)
    fresh = outbox.enqueue("e", key="k2")
    assert live_row(alias, fresh)["state"] == "pending" and new < fresh


def test_an_expired_head_that_is_being_delivered_is_in_the_way(clock, outbox, relay):
    """5.3 As long as its claim is held, it may yet be delivered."""
    outbox.enqueue("a", key="k", expires=10)
    second = outbox.enqueue("b", key="k")
    [row] = relay.claim()
    clock.advance(20)
    assert relay.claim() == []
    clock.advance(10)
    assert ids(relay.claim()) == [second]
    relay.ack(row)


@pytest.mark.parametrize("how", ["cancel", "sweep", "ack by id", "crash after the ack"])
def test_the_stranded_are_found(clock, outbox, relay, how):
    """5.3 Whatever way the head has left by, the next of its key is found by the clock."""
    head, second = outbox.enqueue_many(["a", "b"], key="k", expires=1_000)
    rest = outbox.enqueue("c", key="k")
    if how == "cancel":
        outbox.cancel(head)
    elif how == "sweep":
        clock.advance(1_000)
        assert outbox.sweep_expired().expired == 2
    else:
        [row] = relay.claim_at_once()
        engine = relay.jobs.engine
        assert engine.ack_ids([head]) if how == "ack by id" else engine.ack([row.claim])
    assert relay.claim_at_once() == []
    assert relay.look() == 1
    assert relay.look() == 0
    assert ids(relay.claim_at_once()) == [rest if how == "sweep" else second]


def test_the_search_goes_from_step_to_step(monkeypatch, outbox, relay):
    """5.3 However many keys wait, each step of the search looks at so many of them."""
    monkeypatch.setattr(managers, "KEYS_AT_ONCE", 10)
    for number in range(15):
        outbox.enqueue_many(["a", "b"], key=f"k{number:02}")
    relay.jobs.engine.ack([row.claim for row in relay.claim()])
    assert relay.jobs.promote_stranded(relay.queue) == (10, "k09")
    assert len(relay.claim_at_once()) == 10
    assert relay.jobs.promote_stranded(relay.queue, after="k09") == (5, "")
    assert len(relay.claim_at_once()) == 5


def test_settling_promotes_and_wakes(outbox, relay, sql_log):
    """5.3 An ack of a keyed event costs one more statement; one without a key none."""
    outbox.enqueue_many(["a", "b"], key="k")
    outbox.enqueue("c")
    [keyed, free] = sorted(relay.claim(), key=lambda row: row.key is None)
    sql_log.clear()
    relay.ack(free)
    assert len(sql_log) == 1 and relay.woken == []
    sql_log.clear()
    relay.ack(keyed)
    sent = [text for text in sql_log if "alkstore:notify" not in text]
    assert ["alkstore:ack" in sent[0], "alkstore:promote" in sent[1], len(sent)] == [True, True, 2]
    assert relay.woken == [relay.queue]


def test_a_retry_and_a_refused_ack_promote_nothing(clock, outbox, relay):
    """5.3 As long as the head is there, nothing else is pending."""
    _, second = outbox.enqueue_many(["a", "b"], key="k")
    [late] = relay.claim()
    clock.advance(30)
    [row] = relay.claim()
    relay.ack(late)
    relay.retry(row)
    assert relay.woken == []
    assert live_row(outbox.using, second)["state"] == "behind"


def test_two_outboxes_share_no_keys(make_outbox):
    """5.3 A key belongs to its outbox."""
    first, second = make_outbox("a"), make_outbox("b")
    first.enqueue("x", key="k")
    there = second.enqueue("y", key="k")
    assert ids(Relay(second).claim_at_once()) == [there]


def test_neighbouring_keys_do_not_mix(outbox, relay):
    """5.3 Keys that sort beside each other, or hold quotes and percent signs, are their own."""
    keys = ["a", "a ", "A", "ä", "a%", "a%s", "'a'", '"a"', "a\n", "a,b", "{a}", "NULL", "\\"]
    first = {outbox.enqueue("1", key=key) for key in keys}
    second = {outbox.enqueue("2", key=key) for key in keys}
    rows = relay.claim()
    assert {row.id for row in rows} == first
    assert {row.key for row in rows} == set(keys)
    relay.ack(*rows)
    assert set(ids(relay.claim_at_once())) == second


def test_producers_of_a_key_take_turns(alias, outbox, relay):
    """5.3 Two open transactions of one key: the one that comes later gets the later id."""
    begun, go, later = threading.Event(), threading.Event(), []

    def second_producer():
        begun.wait(60)
        threading.Timer(0.2, go.set).start()
        later.append(outbox.enqueue("later", key="k"))
        connections[alias].close()

    thread = threading.Thread(target=second_producer)
    thread.start()
    with transaction.atomic(using=alias):
        earlier = outbox.enqueue("earlier", key="k")
        begun.set()
        go.wait(60)
        assert later == []
    thread.join(60)
    assert earlier < later[0]
    assert ids(relay.claim()) == [earlier]


def test_a_race_of_enqueue_and_ack_is_healed(alias, outbox, relay):
    """5.3 An event that was stored behind one that left before it was committed is found."""
    outbox.enqueue("a", key="k")
    [row] = relay.claim()
    if not relay.jobs.engine.supports_parallel_writers:
        second = outbox.enqueue("b", key="k")
        relay.jobs.engine.ack([row.claim])
    else:
        stored, go = threading.Event(), threading.Event()

        def produce():
            with transaction.atomic(using=alias):
                found.append(outbox.enqueue("b", key="k"))
                stored.set()
                go.wait(60)
            connections[alias].close()

        found = []
        thread = threading.Thread(target=produce)
        thread.start()
        stored.wait(60)
        relay.ack(row)
        assert relay.woken == []
        go.set()
        thread.join(60)
        [second] = found
    assert live_row(alias, second)["state"] == "behind"
    assert ids(relay.claim()) == [second]


# -- against a model -------------------------------------------------------------------------


@dataclass
class Kept:
    """An event as the model knows it."""

    id: int
    key: str | None
    priority: int
    run_at: int
    expires_at: int | None
    state: str = "pending"
    deadline: int = 0
    attempts: int = 0

    def is_held(self, now):
        return self.state == "processing" and self.deadline > now

    def is_claimable_some_day(self, now):
        if self.is_held(now):
            return True
        if self.expires_at is not None and self.expires_at <= now:
            return False
        return self.state == "pending" or self.attempts < 3

    def is_ready(self, now):
        reached = self.run_at <= now if self.state == "pending" else self.deadline <= now
        return self.is_claimable_some_day(now) and reached


class Model:
    """An outbox in plain Python."""

    def __init__(self):
        self.events = {}

    def claimable(self, now):
        ready = [
            event
            for event in self.events.values()
            if event.is_ready(now)
            and not any(
                other.key == event.key and other.id < event.id and other.is_claimable_some_day(now)
                for other in self.events.values()
                if event.key is not None
            )
        ]
        return sorted(ready, key=lambda event: (-event.priority, event.run_at, event.id))

    def drop(self, gone):
        for event_id in [event.id for event in self.events.values() if gone(event)]:
            del self.events[event_id]


@pytest.mark.parametrize("seed", range(12))
def test_order_per_key_against_a_model(alias, clock, outbox, relay, seed):
    """5.3 FR-127 Whatever happens in between, each claim takes exactly what the rules say."""
    chance = random.Random(seed)
    model, claims = Model(), {}
    keys = [None, "a", "b", "c"]

    def enqueue():
        key = chance.choice(keys)
        options = {"priority": chance.choice([0, 0, 1])}
        if chance.random() < 0.3:
            options["delay"] = chance.randint(1, 40)
        if chance.random() < 0.3:
            options["expires"] = options.get("delay", 0) + chance.randint(1, 60)
        n = chance.choice([1, 1, 3])
        for event_id in outbox.enqueue_many(["x"] * n, key=key, **options):
            expires_at = clock.now + options["expires"] if "expires" in options else None
            run_at = clock.now + options.get("delay", 0)
            model.events[event_id] = Kept(event_id, key, options["priority"], run_at, expires_at)

    def claim():
        now, n = clock.now, chance.choice([1, 2, 100])
        model.drop(lambda e: e.state == "processing" and e.deadline <= now and e.attempts >= 3)
        expected = model.claimable(now)[:n]
        rows = relay.claim(n)
        assert ids(rows) == [event.id for event in expected]
        for row, event in zip(rows, expected, strict=True):
            event.state, event.deadline = "processing", now + 30
            event.attempts += 1
            assert (row.attempts, row.key) == (event.attempts, event.key)
            claims[row.id] = row

    def settle():
        if not claims:
            return
        row = claims.pop(chance.choice(sorted(claims)))
        how = chance.choice(["ack", "ack", "retry", "fail", "give back"])
        event = model.events.get(row.id)
        holds = event is not None and event.is_held(clock.now) and event.attempts == row.attempts
        if how == "ack":
            relay.ack(row)
        elif how == "fail":
            relay.fail(row)
        elif how == "retry":
            delay = chance.choice([0, 7, 50])
            relay.retry(row, delay_s=delay)
            if holds and event.attempts < 3:
                event.state, event.run_at = "pending", clock.now + delay
                return
        else:
            relay.jobs.engine.give_back([row.claim])
            if holds:
                event.state = "pending"
                event.attempts -= 1
            return
        if holds:
            del model.events[row.id]

    def cancel():
        if model.events:
            event_id = chance.choice(sorted(model.events))
            assert outbox.cancel(event_id)
            del model.events[event_id]

    def sweep():
        outbox.sweep_expired()
        model.drop(lambda e: e.expires_at is not None and e.expires_at <= clock.now)

    def pass_time():
        clock.advance(chance.choice([1, 5, 31]))

    steps = [enqueue] * 4 + [claim] * 5 + [settle] * 5 + [cancel, sweep, pass_time, pass_time]
    for _ in range(120):
        chance.choice(steps)()
    while any(event.expires_at is None for event in model.events.values()):
        clock.advance(60)
        claim()
        relay.ack(*[claims.pop(event_id) for event_id in sorted(claims)])
        model.drop(lambda e: e.is_held(clock.now))
    clock.advance(200)
    sweep()
    assert model.events == {} and count_live(alias) == 0
