"""Outboxes: CONTRACT section 5, on both engines."""

import datetime as dt
import pickle
import queue
import random
import threading

import pytest
from django.db import connections, transaction

from alkstore_django import (
    BYTES,
    InvalidName,
    InvalidOptions,
    InvalidPayload,
    JobState,
    Outbox,
    Queue,
    Store,
    StoreClosed,
    TransactionRequired,
)
from alkstore_django.core.names import backing_name
from tests.core.hostile import BAD_NAMES, BAD_TEXT, cases
from tests.support.relay import Relay, ids
from tests.support.rows import count_dead, count_live, dead_row, live_row
from tests.support.statements import no_sql

LONGEST = "ö" * 200


# -- 5.1: names ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", cases(BAD_NAMES))
def test_a_bad_name_is_refused_at_construction(alias, name):
    """5.1 1.3 An outbox's name obeys the rule for names, before any SQL."""
    with no_sql(alias), pytest.raises(InvalidName) as refused:
        Outbox(name, using=alias)
    assert refused.value.kind == "outbox"


def test_the_longest_name(alias, make_outbox):
    """1.3 An outbox's own name may have the full 200 characters."""
    outbox = make_outbox(LONGEST)
    event_id = outbox.enqueue("x", key=LONGEST)
    [event] = Relay(outbox).events()
    assert (event.id, event.outbox, event.key) == (event_id, LONGEST, LONGEST)
    assert live_row(alias, event_id)["queue"] == f"__alkstore_outbox_{LONGEST}"


def test_the_backing_queue_is_reachable_in_no_other_way(alias, make_outbox, make_queue):
    """5.1 Nobody can make a queue of that name; a queue of the outbox's name is another one."""
    make_outbox("events").enqueue("x")
    with pytest.raises(InvalidName):
        Queue("__alkstore_outbox_events", using=alias)
    with pytest.raises(InvalidName):
        Store(alias).queue("__alkstore_outbox_events")
    with pytest.raises(InvalidName):
        Store(alias).get_job_tx("__alkstore_outbox_events", 1)
    assert make_queue("events").claim_one("w") is None
    make_queue("events").enqueue("job")
    assert len(Relay(make_outbox("events")).claim()) == 1


def test_making_one_runs_no_sql(alias):
    """5.1 An outbox is a name and its options."""
    with no_sql(alias):
        outbox = Outbox("events", using=alias, visibility_timeout_s=1.5)
        assert repr(outbox) == f"<Outbox 'events' using={alias!r}>"
    assert outbox.options.visibility_timeout_s == 2
    assert outbox.options.max_attempts == 20


# -- 5.1: enqueue ----------------------------------------------------------------------------


def test_the_default_stamps(alias, clock, make_outbox):
    """5.1 5.2 An event carries its outbox's options; 20 attempts unless told otherwise."""
    row = live_row(alias, make_outbox().enqueue({"a": 1}))
    assert (row["max_attempts"], row["visibility_timeout_s"], row["backoff_base_s"]) == (20, 300, 5)
    assert (row["state"], row["key"], row["attempts"]) == ("pending", None, 0)
    row = live_row(
        alias,
        make_outbox("b", max_attempts=4, codec=BYTES).enqueue(
            b"\0", key="k", delay=1.5, priority=3, max_attempts=7, expires=60
        ),
    )
    assert (row["max_attempts"], row["codec"], row["priority"], row["key"]) == (7, "bytes", 3, "k")
    assert (row["run_at"], row["expires_at"]) == (clock.now + 2, clock.now + 60)


@pytest.mark.parametrize("key", [None, "k"])
def test_an_event_goes_with_its_transaction(alias, make_outbox, business, key):
    """5.1 FR-125 An event commits with the business row, or vanishes with it."""
    outbox = make_outbox()
    with pytest.raises(RuntimeError), transaction.atomic(using=alias):
        business.objects.using(alias).create(text="order")
        outbox.enqueue("order", key=key)
        outbox.enqueue_many(["a", "b"], key=key)
        raise RuntimeError
    assert count_live(alias) == 0
    with transaction.atomic(using=alias):
        outbox.enqueue("order", key=key)
        with pytest.raises(RuntimeError), transaction.atomic(using=alias):
            outbox.enqueue("savepoint", key=key)
            raise RuntimeError
        outbox.enqueue("more", key=key)
    relay = Relay(outbox)
    seen = []
    while events := relay.claim():
        seen += [event.payload for event in events]
        relay.ack(*events)
    assert seen == [b'"order"', b'"more"']


def test_enqueue_tx_wants_a_transaction(alias, make_outbox):
    """5.1 enqueue_tx refuses to run outside a transaction, on the outbox and on the store."""
    outbox, store = make_outbox(), Store(alias)
    with no_sql(alias):
        with pytest.raises(TransactionRequired):
            outbox.enqueue_tx("x")
        with pytest.raises(TransactionRequired):
            store.outbox_enqueue_tx("events", "x")
    with transaction.atomic(using=alias):
        first = outbox.enqueue_tx("x", key="k", priority=1)
        second = store.outbox_enqueue_tx("events", "y", key="k")
    assert live_row(alias, first)["priority"] == 1
    assert live_row(alias, second)["max_attempts"] == 20


def test_enqueue_many(alias, make_outbox):
    """3.2 Ids in the order given, all with the same key; nothing for nothing."""
    outbox = make_outbox()
    assert outbox.enqueue_many([], key="k") == []
    many = outbox.enqueue_many(list(range(1_200)), key="k")
    assert many == sorted(set(many)) and len(many) == 1_200
    states = [live_row(alias, event_id)["state"] for event_id in (many[0], many[1], many[-1])]
    assert states == ["pending", "behind", "behind"]
    assert outbox.get_job(many[-1]).payload == 1_199
    with no_sql(alias), pytest.raises(InvalidPayload):
        outbox.enqueue_many(["a", object()], key="k")


BAD_KEYS = {label: value for label, value in BAD_TEXT.items() if label != "none"}


@pytest.mark.parametrize("key", cases(BAD_KEYS))
def test_a_bad_key_is_refused(alias, make_outbox, key):
    """5.3 A key is None or a text by the rule for names; else InvalidOptions, before any SQL."""
    outbox = make_outbox()
    with no_sql(alias):
        with pytest.raises(InvalidOptions) as refused:
            outbox.enqueue("x", key=key)
        assert refused.value.field == "key"
        with pytest.raises(InvalidOptions):
            outbox.enqueue_many(["x"], key=key)


def test_a_key_may_be_reserved(make_outbox):
    """5.3 The reserved prefix is allowed in a key."""
    outbox = make_outbox()
    outbox.enqueue("x", key="__alkstore_key")
    assert Relay(outbox).events()[0].key == "__alkstore_key"


def test_bad_options_are_refused(alias, make_outbox):
    """2.3 2.4 The options of an event are those of a job, checked before any SQL."""
    outbox = make_outbox()
    with no_sql(alias):
        for options in ({"priority": 2**31}, {"expires": 0}, {"delay": -1}, {"max_attempts": 0}):
            with pytest.raises(InvalidOptions):
                outbox.enqueue("x", **options)
        with pytest.raises(InvalidPayload):
            outbox.enqueue(float("nan"))
    for batch in (0, -1, 1.0, True, "2", 10_001):
        with pytest.raises(InvalidOptions):
            outbox.deliver(batch=batch)(lambda events: None)
    with pytest.raises(InvalidOptions):
        outbox.deliver("no function")


def test_a_closed_store_closes_its_outboxes(alias):
    """1.2 After close every operation of what was made from the store raises StoreClosed."""
    store = Store(alias)
    outbox = store.outbox("events", max_attempts=2)
    assert outbox.using == alias and outbox.options.max_attempts == 2
    with pytest.raises(TypeError):
        store.outbox("events", using=alias)
    store.close()
    operations = [
        lambda: outbox.enqueue("x"), lambda: outbox.enqueue_many(["x"]),
        lambda: outbox.enqueue_tx("x"), lambda: outbox.cancel(1), lambda: outbox.get_job(1),
        outbox.sweep_expired, lambda: store.outbox("b"),
        lambda: store.outbox_enqueue_tx("b", "x"),
    ]  # fmt: skip
    with no_sql(alias):
        for operation in operations:
            with pytest.raises(StoreClosed):
                operation()


def test_the_statements_of_an_enqueue(alias, make_outbox, sql_log):
    """5.1 An event without a key costs what a job costs; with one, it is still one statement."""
    outbox = make_outbox()
    for key in (None, "k", "k"):
        sql_log.clear()
        outbox.enqueue("x", key=key)
        assert len([text for text in sql_log if "notify" not in text]) == 1, key


# -- 5.2: the event --------------------------------------------------------------------------


def test_what_an_event_shows(clock, make_outbox):
    """5.2 An immutable value; its text form hides the payload."""
    outbox = make_outbox(max_attempts=9)
    event_id = outbox.enqueue({"secret": 1}, key="c-1")
    [event] = Relay(outbox).events()
    assert event.id == event_id
    assert (event.payload, event.payload_bytes) == ({"secret": 1}, b'{"secret":1}')
    assert (event.attempts, event.max_attempts) == (1, 9)
    assert event.enqueued_at == dt.datetime.fromtimestamp(clock.now, dt.UTC)
    assert (event.key, event.outbox, event.lost) == ("c-1", "events", False)
    text = f"<Event id={event_id} outbox='events' key='c-1' attempts=1/9>"
    assert repr(event) == text and "secret" not in repr(event)
    copy = pickle.loads(pickle.dumps(event))  # noqa: S301 - our own
    assert copy == event and hash(copy) == hash(event) and event != 1
    for name in ("id", "payload", "new"):
        with pytest.raises(AttributeError):
            setattr(event, name, 1)
        with pytest.raises(AttributeError):
            delattr(event, name)


def test_bytes_that_do_not_decode(make_outbox):
    """2.4 Such an event can be claimed and looked at; asking for its payload raises."""
    make_outbox(codec=BYTES).enqueue(b"{")
    outbox = make_outbox()
    with connections[outbox.using].cursor() as cursor:
        table = Relay(outbox).jobs.engine.table("job")
        cursor.execute(f"UPDATE {table} SET codec = 'json'")
    [event] = Relay(outbox).events()
    assert event.payload_bytes == b"{"
    with pytest.raises(InvalidPayload, match="'events'"):
        event.payload


def test_every_delivery_carries_the_same_id(clock, make_outbox):
    """5.2 Retried, lapsed or given back: the id stays."""
    outbox = make_outbox(visibility_timeout_s=10)
    event_id = outbox.enqueue("x", key="k")
    relay = Relay(outbox)
    [row] = relay.claim()
    relay.retry(row)
    [row] = relay.claim()
    clock.advance(10)
    [row] = relay.claim()
    assert (row.id, row.attempts, row.key) == (event_id, 3, "k")
    relay.jobs.engine.give_back([row.claim])
    [row] = relay.claim()
    assert (row.id, row.attempts) == (event_id, 3)


def test_no_hidden_deduplication(alias, make_outbox):
    """FR-129 The same payload and key again, after the first is dead: a new event."""
    outbox = make_outbox(max_attempts=1)
    relay = Relay(outbox)
    for n in (1, 2, 3):
        outbox.enqueue("same", key="k")
        [row] = relay.claim()
        relay.fail(row)
        assert count_dead(alias) == n


def test_a_poisoned_event_blocks_no_other(clock, make_outbox):
    """5.2 What fails again and again is retried beside all others."""
    outbox = make_outbox()
    poison = outbox.enqueue("poison", key="p")
    relay = Relay(outbox)
    relay.retry(relay.claim()[0], delay_s=60)
    others = [outbox.enqueue("good", key=key) for key in ("a", "b", None)]
    assert ids(relay.claim()) == others
    clock.advance(60)
    assert ids(relay.claim()) == [poison]


# -- looking and tidying ---------------------------------------------------------------------


def test_an_event_behind_is_pending_to_the_world(alias, make_outbox):
    """3.12 5.3 get_job knows no state but pending, processing and dead."""
    outbox = make_outbox()
    first, second = outbox.enqueue_many(["a", "b"], key="k")
    assert live_row(alias, second)["state"] == "behind"
    job = outbox.get_job(second)
    assert job.state is JobState.PENDING and job.payload == "b"
    assert Store(alias).queue("other").get_job(second) == job
    assert outbox.get_job(2**70) is None
    Relay(outbox).fail(Relay(outbox).claim()[0])
    assert outbox.get_job(first).state is JobState.DEAD
    assert dead_row(alias, first)["key"] == "k"


def test_cancel(alias, make_outbox):
    """3.11 5.3 An event that waits, or is behind, can be cancelled; a dead one cannot."""
    outbox = make_outbox()
    first, second, third = outbox.enqueue_many(["a", "b", "c"], key="k")
    assert outbox.cancel(second) and not outbox.cancel(second)
    assert outbox.cancel(first)
    relay = Relay(outbox)
    [row] = relay.claim()
    assert row.id == third
    relay.fail(row)
    assert not outbox.cancel(third) and not outbox.cancel(2**70)


def test_sweep(alias, clock, make_outbox):
    """3.13 An outbox sweeps its own events, those behind too, and its dead by its retention."""
    outbox = make_outbox(dead_letter_retention_s=100)
    outbox.enqueue_many(["a", "b"], key="k", expires=10)
    kept = outbox.enqueue("c", key="k")
    make_outbox("other").enqueue("d", expires=10)
    clock.advance(10)
    assert outbox.sweep_expired() == (2, 0)
    clock.advance(100)
    assert outbox.sweep_expired() == (0, 2)
    assert ids(Relay(outbox).claim()) == [kept]


def test_the_left_are_counted(alias, make_outbox):
    """7.1 What is left of an outbox counts the events that are behind, too."""
    outbox = make_outbox()
    outbox.enqueue_many(list("abcd"), key="k")
    outbox.enqueue("e")
    relay = Relay(outbox)
    assert len(relay.claim(1)) == 1
    assert relay.jobs.engine.live_count(backing_name("events"), at_most=10) == 5
    assert relay.jobs.engine.live_count(backing_name("events"), at_most=3) == 3


# -- FR-123: by row state, never by a cursor -------------------------------------------------


class Producer(threading.Thread):
    """Holds a transaction open in a thread of its own, and does there what it is told."""

    def __init__(self, alias):
        super().__init__(daemon=True)
        self._alias = alias
        self._orders = queue.SimpleQueue()
        self._answers = queue.SimpleQueue()
        self.start()

    def run(self):
        try:
            while (order := self._orders.get()) is not None:
                with transaction.atomic(using=self._alias):
                    self._answers.put(order())
                    end = self._orders.get()
                    if end == "rollback":
                        transaction.set_rollback(True, using=self._alias)
                self._answers.put(end)
        finally:
            connections[self._alias].close()

    def begin(self, function):
        self._orders.put(function)
        return self._answers.get(timeout=60)

    def end(self, how):
        self._orders.put(how)
        assert self._answers.get(timeout=60) == how

    def quit(self):
        self._orders.put(None)
        self.join(60)


def test_nothing_is_skipped_when_commits_overtake_each_other(alias, make_outbox):
    """FR-123 1,000 random rounds of late commits and rollbacks: each committed event comes once."""
    outbox = make_outbox()
    relay = Relay(outbox)
    random.seed(123)
    overtakes = relay.jobs.engine.supports_parallel_writers
    slow = Producer(alias)
    committed, delivered, open_id = set(), [], None

    def deliver():
        rows = relay.claim(1_000)
        delivered.extend(ids(rows))
        relay.ack(*rows)

    try:
        for _ in range(1_000):
            if open_id is None and random.random() < 0.5:
                open_id = slow.begin(lambda: outbox.enqueue("late"))
            if open_id is None or overtakes:
                committed.add(outbox.enqueue("quick"))
                if random.random() < 0.5:
                    deliver()
            if open_id is not None and random.random() < 0.5:
                how = random.choice(["commit", "commit", "rollback"])
                slow.end(how)
                committed |= {open_id} if how == "commit" else set()
                open_id = None
        if open_id is not None:
            slow.end("commit")
            committed.add(open_id)
    finally:
        slow.quit()
    deliver()
    assert sorted(delivered) == sorted(committed)
