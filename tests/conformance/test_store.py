"""The handle on one database: 1.2, 1.5, and the transactional doors."""

import pytest
from django.db import transaction
from django.utils.connection import ConnectionDoesNotExist

from alkstore_django import (
    BYTES,
    InvalidOptions,
    InvalidPayload,
    Queue,
    Store,
    StoreClosed,
    TransactionRequired,
)
from tests.support.rows import count_live, live_row
from tests.support.statements import no_sql
from tests.support.transactions import rolled_back

# -- which database -----------------------------------------------------------------------------


def test_a_store_is_the_handle_on_one_alias(alias, make_queue):
    """1.2 Its queues live on its alias, beside those made by name."""
    store = Store(using=alias)
    queue = store.queue("jobs", visibility_timeout_s=7, codec=BYTES)
    assert (store.using, queue.using, queue.name) == (alias, alias, "jobs")
    job_id = queue.enqueue(b"raw")
    assert live_row(alias, job_id)["visibility_timeout_s"] == 7
    assert make_queue().get_job(job_id).payload == b"raw"


@pytest.mark.parametrize("unknown", ["nope", "", 1, b"default", ["default"]], ids=repr)
def test_an_unknown_alias_is_told_by_name(unknown):
    """1.2 2.3 At construction, and as what it is."""
    for construct in (lambda: Store(unknown), lambda: Queue("jobs", using=unknown)):
        with pytest.raises((InvalidOptions, ConnectionDoesNotExist)) as caught:
            construct()
        assert repr(unknown) in str(caught.value) or str(unknown) in str(caught.value)


def test_a_queue_lives_on_one_alias_only(alias):
    """1.2 A job of one alias is unknown on another that carries a store."""
    with pytest.raises(TypeError):
        Store(alias).queue("jobs", using="default")


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ({}, "default"),
        ({"ALIAS": {}}, "ALIAS"),
        ({"ALIAS": {"POLL_INTERVAL_S": 2}}, "ALIAS"),
        ({"ALIAS": {}, "default": {}}, "default"),
    ],
)
def test_module_level_queues_live_on_the_configured_alias(alias, settings, setting, expected):
    """1.2 The only alias that the setting names, else default."""
    settings.ALKSTORE = {name.replace("ALIAS", alias): value for name, value in setting.items()}
    wanted = expected.replace("ALIAS", alias)
    assert Queue("jobs").using == wanted
    assert Queue("jobs", using=alias).using == alias
    assert Store().using == Store().queue("jobs").using == wanted


# -- closing ------------------------------------------------------------------------------------


@pytest.fixture
def closed(alias, clock):
    """A store that was closed while its queue, one of its handles and a listener were out."""
    store = Store(alias)
    queue = store.queue("jobs", visibility_timeout_s=60, dead_letter_retention_s=1)
    queue.enqueue_many([1, 2], expires=10)
    handle = queue.claim_one("worker")
    clock.advance(20)
    with queue.listen() as listener:
        store.close()
        yield store, queue, handle, listener


OPERATIONS = {
    "store.queue": lambda store, queue, handle, listener: store.queue("jobs"),
    "store.enqueue_tx": lambda store, queue, handle, listener: store.enqueue_tx("jobs", {}),
    "store.get_job_tx": lambda store, queue, handle, listener: store.get_job_tx("jobs", 1),
    "queue.enqueue": lambda store, queue, handle, listener: queue.enqueue({}),
    "queue.enqueue_many": lambda store, queue, handle, listener: queue.enqueue_many([{}]),
    "queue.enqueue_many of none": lambda store, queue, handle, listener: queue.enqueue_many([]),
    "queue.claim_one": lambda store, queue, handle, listener: queue.claim_one("worker"),
    "queue.claim_batch": lambda store, queue, handle, listener: queue.claim_batch("worker", 5),
    "queue.claim_batch of 0": lambda store, queue, handle, listener: queue.claim_batch("worker", 0),
    "queue.ack_batch": lambda store, queue, handle, listener: queue.ack_batch([handle]),
    "queue.ack_batch by id": lambda store, queue, handle, listener: queue.ack_batch(
        [handle.job.id]
    ),
    "queue.ack_batch of none": lambda store, queue, handle, listener: queue.ack_batch([]),
    "queue.cancel": lambda store, queue, handle, listener: queue.cancel(handle.job.id),
    "queue.get_job": lambda store, queue, handle, listener: queue.get_job(handle.job.id),
    "queue.sweep_expired": lambda store, queue, handle, listener: queue.sweep_expired(),
    "queue.listen": lambda store, queue, handle, listener: queue.listen().__enter__(),
    "listener.wait": lambda store, queue, handle, listener: listener.wait(0),
    "handle.ack": lambda store, queue, handle, listener: handle.ack(),
    "handle.retry": lambda store, queue, handle, listener: handle.retry("again", delay=0),
    "handle.fail": lambda store, queue, handle, listener: handle.fail("no"),
    "handle.heartbeat": lambda store, queue, handle, listener: handle.heartbeat(60),
}


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS.keys())
def test_a_closed_store_does_nothing_more(alias, closed, operation):
    """1.2 Every operation of it and of what was made from it: StoreClosed, touching nothing."""
    handle = closed[2]
    before = live_row(alias, handle.job.id)
    with transaction.atomic(using=alias), no_sql(alias), pytest.raises(StoreClosed):
        operation(*closed)
    assert live_row(alias, handle.job.id) == before
    assert count_live(alias) == 2


def test_other_stores_go_on(alias, closed, make_queue):
    """1.2 Other objects on the same alias go on, with the same jobs."""
    store, _, handle, _ = closed
    store.close()
    assert make_queue().get_job(handle.job.id).state == "processing"
    assert Store(alias).queue("jobs").sweep_expired() == (2, 0)


def test_what_was_read_before_the_close_stays_readable(closed):
    """1.2 A job is a value: it needs no store."""
    assert closed[2].job.payload == 1


# -- enqueue_tx ---------------------------------------------------------------------------------


def test_enqueue_tx_refuses_outside_a_transaction(alias):
    """1.2 TransactionRequired, no SQL, nothing stored."""
    with no_sql(alias), pytest.raises(TransactionRequired):
        Store(alias).enqueue_tx("jobs", {})
    assert count_live(alias) == 0


def test_a_transaction_on_another_alias_does_not_count(alias):
    """3.1 It is the store's own alias that must have one open."""
    with transaction.atomic(using="default"), pytest.raises(TransactionRequired):
        Store(alias).enqueue_tx("jobs", {})
    assert count_live(alias) == 0


def test_enqueue_tx_stamps_the_defaults(alias):
    """2.1 3.1 The engine's default stamps, whatever queues of that name say."""
    store = Store(alias)
    store.queue("jobs", visibility_timeout_s=9, max_attempts=9, backoff_base_s=9, codec=BYTES)
    with transaction.atomic(using=alias):
        job_id = store.enqueue_tx("jobs", {"a": 1}, priority=4)
    row = live_row(alias, job_id)
    assert (row["visibility_timeout_s"], row["max_attempts"], row["backoff_base_s"]) == (300, 3, 5)
    assert (row["codec"], row["queue"], row["priority"]) == ("json", "jobs", 4)


def test_enqueue_tx_takes_the_options_of_an_enqueue(alias, clock):
    """2.2 The same options as Queue.enqueue."""
    with transaction.atomic(using=alias):
        job_id = Store(alias).enqueue_tx(
            "jobs", {}, delay=5, run_at=1, priority=-1, max_attempts=9, expires=60
        )
    row = live_row(alias, job_id)
    assert (row["run_at"], row["expires_at"]) == (clock.now + 5, clock.now + 60)
    assert (row["priority"], row["max_attempts"]) == (-1, 9)


def test_enqueue_tx_vanishes_with_the_transaction(alias):
    """3.1 It joins the transaction that it asked for."""
    with rolled_back(alias):
        Store(alias).enqueue_tx("jobs", {})
    assert count_live(alias) == 0


def test_enqueue_tx_refuses_a_bad_payload(alias):
    """2.4 Before any SQL; the transaction stays usable."""
    store = Store(alias)
    with transaction.atomic(using=alias):
        with no_sql(alias), pytest.raises(InvalidPayload):
            store.enqueue_tx("jobs", {"x": {1}})
        store.enqueue_tx("jobs", {})
    assert count_live(alias) == 1


# -- get_job_tx ---------------------------------------------------------------------------------


def test_get_job_tx_filters_by_the_queues_name(alias, make_queue):
    """1.5 Only get_job_tx also filters by queue name: live, claimed and dead."""
    store, queue = Store(alias), make_queue("mine")
    job_id = queue.enqueue({"a": 1})
    for state in ("pending", "processing", "dead"):
        job = store.get_job_tx("mine", job_id)
        assert (job.id, job.state, job.payload) == (job_id, state, {"a": 1})
        assert store.get_job_tx("other", job_id) is None
        if state == "pending":
            handle = queue.claim_one("worker")
        elif state == "processing":
            handle.fail()
    assert store.get_job_tx("mine", job_id + 1) is None


def test_get_job_tx_reads_inside_the_transaction(alias):
    """3.1 It sees the job that this transaction has enqueued, and not after the rollback."""
    store = Store(alias)
    with rolled_back(alias):
        job_id = store.enqueue_tx("jobs", {})
        assert store.get_job_tx("jobs", job_id).id == job_id
    assert store.get_job_tx("jobs", job_id) is None
