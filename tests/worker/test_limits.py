"""How many handlers of one queue run at once: ``--queue NAME:LIMIT``, issue 3."""

import threading
from collections import Counter

import pytest

from alkstore_django import InvalidOptions
from alkstore_django.handlers import Handler
from alkstore_django.worker.options import WorkerOptions
from alkstore_django.worker.slots import Slots
from tests.worker.watched import Watched, WatchedOnLoop

WAIT_S = 20


def test_never_more_than_its_limit(make_queue, work):
    """Issue 3: a limited queue keeps to its limit; the other one has the rest."""
    limited, other = make_queue("limited"), make_queue("other")
    ours, theirs = Watched(limited, together=2), Watched(other, together=4)
    limited.enqueue_many([None] * 40)
    other.enqueue_many([None] * 40)
    work(limited, other, threads=6, limits={"limited": 2})
    assert (ours.done, theirs.done) == (40, 40)
    assert ours.most == 2
    assert 4 <= theirs.most <= 6


def test_a_limit_starves_nobody(make_queue, work):
    """Issue 3: while the limited queue's jobs block, another queue's all run; and it ends."""
    slow, quick = make_queue("slow"), make_queue("quick")
    all_done = threading.Event()
    done = []

    @slow.handler
    def wait(job):
        assert all_done.wait(WAIT_S)

    @quick.handler
    def note(job):
        done.append(job.id)
        if len(done) == 30:
            all_done.set()

    slow.enqueue_many([None] * 5, priority=9)
    quick.enqueue_many([None] * 30)
    assert work(slow, quick, threads=2, limits={"slow": 1}).count("acked") == 35


def test_a_drain_asks_a_queue_at_its_limit_again(make_queue, work):
    """7.1 A drain does not take a queue that is at its limit for an empty one."""
    queue = make_queue()
    watched = Watched(queue, together=1)
    queue.enqueue_many([None] * 25)
    work(queue, threads=8, limits={"jobs": 1})
    assert (watched.done, watched.most) == (25, 1)


def test_a_limit_of_coroutines(make_queue, work):
    """Issue 3: a limit holds on the event loop as it does among threads."""
    queue = make_queue()
    watched = WatchedOnLoop(queue, together=2)
    queue.enqueue_many([None] * 20)
    assert work(queue, async_jobs=9, limits={"jobs": 2}).count("acked") == 20
    assert watched.most == 2


def test_a_limit_above_the_threads(make_queue, work):
    """Issue 3: it changes nothing: the threads bound it."""
    queue = make_queue()
    watched = Watched(queue, together=3)
    queue.enqueue_many([None] * 12)
    work(queue, threads=3, limits={"jobs": 50})
    assert (watched.done, watched.most) == (12, 3)


@pytest.mark.parametrize("field", ["threads", "async_jobs"])
@pytest.mark.parametrize("count", [0, -1, True, 1.5, "2", None])
def test_a_wrong_count(field, count):
    """2.3 How many at once is refused like a limit, and named."""
    with pytest.raises(InvalidOptions, match=field):
        WorkerOptions(**{field: count})


@pytest.mark.parametrize("limit", [0, -1, True, 1.5, "2", None])
def test_a_wrong_limit(limit):
    """2.3 It is refused, and named."""
    with pytest.raises(InvalidOptions, match="limits\\['jobs'\\]"):
        WorkerOptions(limits={"jobs": limit})


def test_slots(make_queue):
    """Issue 3: what is free of a queue is what is free of its kind, and of its limit."""
    names = ("plain", "limited", "woven")
    handlers = [Handler(make_queue(name), print, on_event_loop=name == "woven") for name in names]
    slots = Slots(handlers, {False: 4, True: 10}, {"limited": 2})
    assert [slots.free(name) for name in names] == [4, 2, 10]
    slots.take("plain", 3)
    assert [slots.free(name) for name in names] == [1, 1, 10]
    slots.take("limited", 1)
    slots.take("woven", 4)
    assert [slots.free(name) for name in names] == [0, 0, 6]
    slots.release(Counter(plain=3, woven=4))
    assert [slots.free(name) for name in names] == [3, 1, 10]
