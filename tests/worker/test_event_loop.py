"""Hard cases of the event loop that runs ``async def`` handlers: 7.1, 7.3, FR-030, issue 3."""

import asyncio
import sqlite3
import threading

import pytest
from asgiref.sync import sync_to_async
from django.db import IntegrityError, OperationalError, connections, transaction

from alkstore_django import StopToken, signals
from alkstore_django.engines.registry import engine_for
from alkstore_django.testing import drain
from tests.support.rows import dead_row, live_row
from tests.testapp.models import Note
from tests.worker import sessions

WAIT_S = 20


def texts(alias):
    return sorted(Note.objects.using(alias).values_list("text", flat=True))


def raising(error):
    async def misdeed():
        raise error

    return misdeed


async def exit_in_a_task():
    """``asyncio`` lets this one out of the loop itself, unless somebody minds."""
    await asyncio.gather(raising(SystemExit(3))())


async def interrupt_in_a_group():
    async with asyncio.TaskGroup() as group:
        group.create_task(raising(KeyboardInterrupt())())


async def cancel_oneself():
    asyncio.current_task().cancel()
    await asyncio.sleep(0)


MISDEEDS = {
    "CancelledError": raising(asyncio.CancelledError()),
    "SystemExit": raising(SystemExit(3)),
    "KeyboardInterrupt": raising(KeyboardInterrupt()),
    "GeneratorExit": raising(GeneratorExit()),
    "SystemExit in a task": exit_in_a_task,
    "KeyboardInterrupt in a group": interrupt_in_a_group,
    "CancelledError of its own": cancel_oneself,
}


@pytest.mark.parametrize("name", MISDEEDS)
def test_whatever_it_raises(alias, make_queue, work, name):
    """7.1 FR-030 It costs the job an attempt, and nobody else anything."""
    queue = make_queue(backoff_base_s=600)
    good = []

    @queue.handler
    async def handle(job):
        if job.payload == "bad":
            await MISDEEDS[name]()
        good.append(job.id)

    bad, *others = queue.enqueue_many(["bad", 1, 2, 3])
    tally = work(queue, async_jobs=2)
    assert tally.as_dict() == {"jobs": {"acked": 3, "retried": 1}}
    assert sorted(good) == others
    row = live_row(alias, bad)
    assert (row["state"], row["attempts"]) == ("pending", 1)


def test_the_error_is_kept(alias, make_queue, work):
    """3.8 FR-030 The last attempt's error is in dead storage, a cancellation's too."""
    queue = make_queue(max_attempts=1)

    @queue.handler
    async def handle(job):
        await MISDEEDS[job.payload]()

    names = ["CancelledError", "SystemExit", "KeyboardInterrupt"]
    ids = queue.enqueue_many(names)
    assert work(queue).count("died") == 3
    errors = [dead_row(alias, job_id)["last_error"] for job_id in ids]
    assert all(name in error for name, error in zip(names, errors, strict=True)), errors


def test_a_coroutine_that_minds_no_cancellation(alias, make_queue, work):
    """7.1 A handler that swallows its cancellation changes nothing by its late result."""
    queue = make_queue(backoff_base_s=600)
    ended = []

    @queue.handler(timeout_s=0.05)
    async def handle(job):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append(job.id)

    job_id = queue.enqueue(None)
    assert str(work(queue)) == "acked=0 retried=1 died=0 given_back=0 lost=0"
    assert ended == [job_id]
    assert live_row(alias, job_id)["state"] == "pending"


def test_cancelled_in_the_middle_of_a_statement(alias, make_queue, work, events):
    """7.3 7.4 A stop while a coroutine's statement runs in its thread: given back, cleanly ended,
    and nothing of the session is left open."""
    queue = make_queue()
    stop, stop_now = StopToken(), StopToken()
    before = sessions.after_parting(lambda: sessions.open_sessions(alias), 0)

    @queue.handler
    async def handle(job):
        def write():
            with transaction.atomic(using=alias):
                Note.objects.using(alias).create(text="whole")
                stop.stop()
                stop_now.stop()

        await sync_to_async(write)()
        await asyncio.Event().wait()

    job_id = queue.enqueue(None)
    tally = work(queue, drain=False, stop=stop, stop_now=stop_now)
    assert tally.count("given_back") == 1
    assert live_row(alias, job_id)["attempts"] == 0
    assert sessions.after_parting(lambda: sessions.open_sessions(alias) <= before, True)


def test_lost_before_they_began(alias, make_queue, work):
    """7.1 Issue 3: claims that are lost while something keeps the loop from starting their handlers
    give their places free: afterwards as many run at once as ever."""
    blocker, queue = make_queue("blocker"), make_queue()
    claimed, lost, done = threading.Semaphore(0), threading.Semaphore(0), threading.Event()
    started, together = [], []

    def note_claim(sender, job, **sent):
        if job.payload == "lost":
            claimed.release()

    def note_loss(sender, **sent):
        lost.release()

    def steal():
        ids = queue.enqueue_many(["lost"] * 2)
        for _ in ids:
            assert claimed.acquire(timeout=WAIT_S)
        assert [queue.cancel(job_id) for job_id in ids] == [True, True]
        for _ in ids:
            assert lost.acquire(timeout=WAIT_S)
        queue.enqueue_many(["good"] * 3)
        connections[alias].close()
        done.set()

    thief = threading.Thread(target=steal)

    @blocker.handler
    async def block(job):
        thief.start()
        assert done.wait(WAIT_S)  # the loop itself waits, as in no good handler

    @queue.handler
    async def handle(job):
        started.append(job.payload)
        together.append(job.id)
        async with asyncio.timeout(WAIT_S):
            while len(together) < 3:
                await asyncio.sleep(0)

    signals.job_claimed.connect(note_claim)
    signals.claim_lost.connect(note_loss)
    blocker.enqueue(None)
    try:
        tally = work(blocker, queue, async_jobs=3, heartbeat_interval_s=0.01)
    finally:
        signals.job_claimed.disconnect(note_claim)
        signals.claim_lost.disconnect(note_loss)
        thief.join(WAIT_S)
    assert tally.as_dict() == {"blocker": {"acked": 1}, "jobs": {"acked": 3, "lost": 2}}
    assert started == ["good"] * 3


# -- databases -----------------------------------------------------------------------------


def leave_begin_open(alias):
    sessions.begin(alias)


def leave_driver_begin_open(alias):
    sessions.begin_by_driver(alias)


def never_leave_atomic(alias):
    transaction.atomic(using=alias).__enter__()


def never_leave_atomic_having_written(alias):
    never_leave_atomic(alias)
    Note.objects.using(alias).create(text="lost")


def break_the_connection(alias):
    connections[alias].ensure_connection()
    connections[alias].connection.close()


def break_the_connection_after_use(alias):
    assert Note.objects.using(alias).count() >= 0
    connections[alias].connection.close()


def spoil_the_settings(alias):
    sessions.spoil_settings(alias)


def violate_uniqueness_in_a_transaction(alias):
    with transaction.atomic(using=alias):
        note = Note.objects.using(alias).create(text="first")
        try:
            Note(pk=note.pk, text="again").save(using=alias, force_insert=True)
        except IntegrityError:
            return


@pytest.mark.parametrize(
    "misdeed",
    [
        leave_begin_open, leave_driver_begin_open, never_leave_atomic,
        never_leave_atomic_having_written, break_the_connection,
        break_the_connection_after_use, spoil_the_settings,
        violate_uniqueness_in_a_transaction,
    ],
)  # fmt: skip
def test_what_it_does_to_its_connection(alias, make_queue, work, misdeed):
    """7.3 Whatever a coroutine's synchronous code does to its connection, the next job has a good
    one, and what that writes is kept."""
    queue = make_queue(backoff_base_s=600)

    @queue.handler
    async def handle(job):
        if job.payload == "bad":
            await sync_to_async(misdeed)(alias)
        else:
            await Note.objects.using(alias).acreate(text=f"good {job.payload}")

    queue.enqueue_many([0, "bad", 1, 2])
    tally = work(queue, async_jobs=1)
    assert tally.count("acked") >= 3
    kept = [text for text in texts(alias) if text != "first"]
    assert kept == ["good 0", "good 1", "good 2"]
    assert not sessions.someone_waits_for_us(alias)


def test_an_outage_in_between(alias, make_queue, work, events, monkeypatch):
    """7.4 The database is away for a moment: told once, coroutines go on on a new connection."""
    queue = make_queue()
    engine = engine_for(alias)
    away, used = threading.Event(), []
    lost = OperationalError("away")
    lost.__cause__ = sqlite3.OperationalError("database is locked")
    lost.__cause__.sqlite_errorcode = sqlite3.SQLITE_BUSY

    def failing(claim):
        def claim_or_fail(*args, **options):
            if away.is_set():
                away.clear()
                raise lost
            return claim(*args, **options)

        return claim_or_fail

    for name in ("claim", "claim_ahead"):
        monkeypatch.setattr(engine, name, failing(getattr(engine, name)))

    def write(text):
        Note.objects.using(alias).create(text=text)
        used.append(connections[alias].connection)

    @queue.handler
    async def handle(job):
        await sync_to_async(write)(f"note {job.payload}")
        if job.payload == 2:
            away.set()

    queue.enqueue_many(list(range(6)))
    tally = work(queue, async_jobs=1, poll_interval_s=0.01)
    assert tally.count("acked") == 6
    assert len(events.of("store_lost")) == len(events.of("store_restored")) == 1
    assert texts(alias) == [f"note {n}" for n in range(6)]
    assert [connection is used[0] for connection in used] == [True] * 3 + [False] * 3


# -- testing.drain -------------------------------------------------------------------------


def test_drain_in_a_transaction_survives_a_database_error(alias, make_queue):
    """7.1 Inside a ``TestCase`` a coroutine's database error costs its job, not the transaction."""
    queue = make_queue(max_attempts=1)

    @queue.handler
    async def handle(job):
        if job.payload == "bad":
            note = await Note.objects.using(alias).acreate(text="first")
            await sync_to_async(Note(pk=note.pk).save)(using=alias, force_insert=True)
        else:
            await Note.objects.using(alias).acreate(text="good")

    with transaction.atomic(using=alias):
        queue.enqueue_many(["bad", "good"])
        assert drain(queue).as_dict() == {"jobs": {"acked": 1, "died": 1}}
    assert texts(alias) == ["good"]
