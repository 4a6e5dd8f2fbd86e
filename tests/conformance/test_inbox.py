"""The inbox: exactly-once effects at the receiver (5.4), on both engines."""

import queue
import threading

import pytest
from django.db import connections, transaction

from alkstore_django import (
    InvalidName,
    InvalidOptions,
    TransactionRequired,
    inbox,
    sweep_inbox,
)
from tests.core.hostile import BAD_NAMES, BAD_TEXT, cases
from tests.support.statements import no_sql


def see(alias, event_id, consumer="billing"):
    with transaction.atomic(using=alias), inbox(consumer, event_id, using=alias) as first:
        return first


def test_first_and_again(alias):
    """5.4 The first time is the first time, for each consumer and event by itself."""
    assert see(alias, 7) is True
    assert see(alias, 7) is False
    assert see(alias, "7") is False
    assert see(alias, 8) is True
    assert see(alias, 7, "shipping") is True
    with transaction.atomic(using=alias):
        for expected in (True, False):
            with inbox("billing", "x", using=alias) as first:
                assert first is expected


def test_a_transaction_is_needed(alias):
    """5.4 Outside a transaction the note would not go with the effects: TransactionRequired."""
    with no_sql(alias), pytest.raises(TransactionRequired), inbox("billing", 1, using=alias):
        pass


def test_the_note_goes_with_the_transaction(alias, business):
    """5.4 Rolled back effects leave no note; the next delivery is the first again."""
    with pytest.raises(RuntimeError), transaction.atomic(using=alias):
        with inbox("billing", 1, using=alias) as first:
            assert first
            business.objects.using(alias).create(text="invoice")
        raise RuntimeError
    assert see(alias, 1) is True


def test_an_error_in_the_block_takes_the_note_with_it(alias, business):
    """5.4 Even if it is caught further out, within the same transaction."""
    notes = business.objects.using(alias)
    before = notes.count()
    with (
        transaction.atomic(using=alias),
        pytest.raises(RuntimeError),
        inbox("billing", 1, using=alias),
    ):
        notes.create(text="half")
        raise RuntimeError
    assert notes.count() == before
    assert see(alias, 1) is True


@pytest.mark.parametrize("consumer", cases(BAD_NAMES))
def test_a_bad_consumer_is_refused(alias, consumer):
    """5.4 A consumer's name obeys the rule for names, before any SQL."""
    with (
        transaction.atomic(using=alias),
        no_sql(alias),
        pytest.raises(InvalidName),
        inbox(consumer, 1, using=alias),
    ):
        pass


BAD_IDS = {
    **{label: value for label, value in BAD_TEXT.items() if label != "int"},
    "float": 1.5, "bool": True, "201 digits": 10**200, "6,001 digits": 10**6000,
}  # fmt: skip


@pytest.mark.parametrize("event_id", cases(BAD_IDS))
def test_a_bad_event_id_is_refused(alias, event_id):
    """5.4 An event's id is an int, or a text of 1 to 200 characters."""
    with (
        transaction.atomic(using=alias),
        no_sql(alias),
        pytest.raises(InvalidOptions) as refused,
        inbox("billing", event_id, using=alias),
    ):
        pass
    assert refused.value.field == "event_id"
    str(refused.value).encode(errors="backslashreplace")


@pytest.mark.parametrize(
    "event_id", [0, -5, 2**64, "ö" * 200, "__alkstore_x", "msg_2KWPBgLlAfxdpx2AI54pPJ85f4W"]
)
def test_a_good_event_id_is_taken(alias, event_id):
    """5.4 Whatever a sender of events may call them."""
    assert see(alias, event_id) and not see(alias, event_id)


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_two_at_once(alias, end):
    """5.4 Who comes while another transaction sees the event waits for its end."""
    holds, go, answers = threading.Event(), threading.Event(), queue.SimpleQueue()

    def first_to_come():
        with transaction.atomic(using=alias):
            with inbox("billing", 1, using=alias) as first:
                answers.put(first)
            holds.set()
            go.wait(60)
            transaction.set_rollback(end == "rollback", using=alias)
        connections[alias].close()

    def second_to_come():
        holds.wait(60)
        threading.Timer(0.2, go.set).start()
        answers.put(see(alias, 1))
        connections[alias].close()

    threads = [threading.Thread(target=run) for run in (first_to_come, second_to_come)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert answers.get(timeout=1) is True
    assert answers.get(timeout=1) is (end == "rollback")


def test_the_statements(alias, sql_log):
    """5.4 A savepoint, one statement, and its release."""
    with transaction.atomic(using=alias):
        sql_log.clear()
        with inbox("billing", 1, using=alias):
            pass
        assert len(sql_log) == 3
        assert "alkstore:note_seen" in sql_log[1]


def test_sweep(alias, clock):
    """5.4 Notes are forgotten after their retention, to the second, per consumer; in batches."""
    for event_id in range(1_100):
        see(alias, event_id)
    see(alias, 1, "shipping")
    clock.advance(50)
    see(alias, "later")
    clock.advance(49)
    assert sweep_inbox("billing", 100, using=alias) == 0
    clock.advance(1)
    assert sweep_inbox("billing", 100, using=alias) == 1_100
    assert see(alias, "later") is False
    assert see(alias, 1, "shipping") is False
    assert see(alias, 1) is True
    for retention in (0, -1, float("nan"), True):
        with pytest.raises(InvalidOptions):
            sweep_inbox("billing", retention, using=alias)
