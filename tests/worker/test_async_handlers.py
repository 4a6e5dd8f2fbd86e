"""Coroutine functions as handlers: many at a time on one event loop. 7.1, issue 3."""

import asyncio
import threading

import pytest
from asgiref.sync import sync_to_async
from django.db import transaction

from alkstore_django import FailJob, RetryJob, StopToken
from alkstore_django.testing import drain
from tests.support.rows import count_live, dead_row, live_row
from tests.testapp.models import Note
from tests.worker.watched import WatchedOnLoop

WAIT_S = 20
MANY = 20


def test_many_at_a_time(make_queue, work):
    """Issue 3: as many as there are wait for each other, in a worker of one thread."""
    queue = make_queue()
    begun = []
    all_begun = asyncio.Event()

    @queue.handler
    async def handle(job):
        begun.append(threading.current_thread().name)
        if len(begun) == MANY:
            all_begun.set()
        async with asyncio.timeout(WAIT_S):
            await all_begun.wait()

    queue.enqueue_many([None] * MANY)
    assert work(queue, threads=1).count("acked") == MANY
    assert set(begun) == {"alkstore-loop"}


def test_no_more_than_its_limit(make_queue, work):
    """Issue 3: async_jobs bounds how many run at once, and that many do."""
    queue = make_queue()
    watched = WatchedOnLoop(queue, together=3)
    queue.enqueue_many([None] * 30)
    assert work(queue, async_jobs=3).count("acked") == 30
    assert watched.most == 3


def test_beside_plain_ones(make_queue, work):
    """Issue 3: a handler that blocks its thread holds up no coroutine, and none of them it."""
    plain, woven = make_queue("plain"), make_queue("woven")
    met = threading.Event()

    @plain.handler
    def wait(job):
        assert met.wait(WAIT_S)

    @woven.handler
    async def meet(job):
        met.set()

    plain.enqueue(None)
    woven.enqueue(None)
    assert work(plain, woven, threads=1).count("acked") == 2


@pytest.mark.parametrize(
    ("raised", "outcome"),
    [
        (RetryJob(delay=60), "retried"),
        (FailJob("no"), "died"),
        (ValueError("no"), "retried"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else value,
)
def test_whatever_it_raises(alias, make_queue, work, raised, outcome):
    """7.1 It is the outcome of its job and no more: the next one runs. See test_event_loop, too."""
    queue = make_queue()

    @queue.handler
    async def handle(job):
        if job.payload == "raises":
            raise raised

    job_id = queue.enqueue("raises", priority=1)
    queue.enqueue("returns")
    tally = work(queue)
    assert (tally.count(outcome), tally.count("acked")) == (1, 1)
    row = live_row(alias, job_id) or dead_row(alias, job_id)
    assert row["attempts"] == 1


def test_its_time_is_limited(alias, make_queue, work):
    """7.1 timeout_s ends the claim, and cancels the coroutine."""
    queue = make_queue(backoff_base_s=600)
    cancelled = []

    @queue.handler(timeout_s=0.1)
    async def handle(job):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(job.lost)
            raise

    job_id = queue.enqueue(None)
    assert str(work(queue)) == "acked=0 retried=1 died=0 given_back=0 lost=0"
    assert cancelled == [True]
    assert live_row(alias, job_id)["state"] == "pending"


def test_given_back_at_a_stop(alias, make_queue, work):
    """7.4 FR-030 What does not end within the grace is given back, and cancelled."""
    queue = make_queue()
    stop = StopToken()
    cancelled = []

    @queue.handler
    async def handle(job):
        stop.stop()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(job.lost)
            raise

    job_id = queue.enqueue(None)
    tally = work(queue, drain=False, stop=stop, shutdown_timeout_s=0)
    assert str(tally) == "acked=0 retried=0 died=0 given_back=1 lost=0"
    assert cancelled == [True]
    row = live_row(alias, job_id)
    assert (row["state"], row["attempts"]) == ("pending", 0)


def test_its_database(alias, make_queue, work):
    """7.3 The ORM's own coroutines and plain functions sent to a thread write what they write."""
    queue = make_queue()

    @queue.handler
    async def handle(job):
        await Note.objects.using(alias).acreate(text=f"async {job.payload}")
        await sync_to_async(Note.objects.using(alias).create)(text=f"sync {job.payload}")

    queue.enqueue_many(list(range(10)))
    assert work(queue).count("acked") == 10
    assert Note.objects.using(alias).count() == 20


def test_an_atomic_one_has_a_thread(alias, make_queue, work):
    """7.2 Its writes and its ack commit together, as any handler's."""
    queue = make_queue()
    where = []

    @queue.handler(atomic=True)
    async def handle(job):
        where.append(threading.current_thread().name)
        await Note.objects.using(alias).acreate(text=job.payload)
        if job.payload == "undone":
            raise ValueError("no")

    queue.enqueue_many(["done", "undone"])
    work(queue)
    assert [note.text for note in Note.objects.using(alias).all()] == ["done"]
    assert "alkstore-loop" not in where


class Handler:
    """An object that is called like a coroutine function."""

    def __init__(self):
        self.where = []

    async def __call__(self, job):
        self.where.append(threading.current_thread().name)


def test_an_object(make_queue, work):
    """7.1 An object whose call is a coroutine is one, too."""
    queue = make_queue()
    handler = Handler()
    queue.handler(handler)
    queue.enqueue(None)
    assert work(queue).count("acked") == 1
    assert handler.where == ["alkstore-loop"]


def test_in_line(alias, make_queue):
    """7.1 testing.drain runs a coroutine function like any other."""
    queue = make_queue()

    @queue.handler
    async def handle(job):
        await Note.objects.using(alias).acreate(text="in line")

    queue.enqueue(None)
    with transaction.atomic(using=alias):
        assert drain(queue).count("acked") == 1
    assert count_live(alias) == 0
