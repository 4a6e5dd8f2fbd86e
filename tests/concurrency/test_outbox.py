"""Relays as real processes, some of which are killed: 5.2, 5.3, 5.4, FR-125, FR-127."""

import os
import random
import signal
import threading
import time
from contextlib import ExitStack

import pytest
from django.db import connections, transaction

from alkstore_django import Outbox
from tests.concurrency import relay
from tests.support.processes import started_python
from tests.support.rows import count_dead, count_live
from tests.testapp.models import Note

# `make chaos` has the larger ones.
RELAYS = int(os.environ.get("ALKSTORE_TEST_RELAYS", "4"))
KEYS, KILLS = RELAYS * 125, RELAYS // 2
EVENTS, BUSY_KEYS, BUSY_EVENTS = 2, 20, 12
PATIENCE_S = 240


@pytest.fixture
def outbox(alias):
    """The outbox that the relay processes serve."""
    return Outbox("events", using=alias, **relay.OPTIONS)


def started_relay(alias, *options):
    return started_python(["-m", "tests.concurrency.relay", alias, *options])


def noted(alias):
    """What the receiver noted, in the order of its commits: (word, key, payload, id)."""
    rows = Note.objects.using(alias).filter(text__regex="^(first|again) ").order_by("id")
    return [tuple(text.split()) for text in rows.values_list("text", flat=True)]


def wait_until_all_is_delivered(alias, meanwhile=lambda: None):
    give_up_at = time.monotonic() + PATIENCE_S
    while count_live(alias):
        assert time.monotonic() < give_up_at, f"{count_live(alias)} events are left"
        meanwhile()
        time.sleep(0.1)


def test_killed_between_delivery_and_ack(alias, outbox):
    """5.2 5.4 The event is delivered again under the same id, and the inbox says seen; then the next."""
    first = outbox.enqueue("die", key="k")
    second = outbox.enqueue("live", key="k")
    with started_relay(alias) as child:
        child.wait(code=-signal.SIGKILL)
    assert noted(alias) == [("first", "k", "die", str(first))]
    with started_relay(alias) as child:
        wait_until_all_is_delivered(alias)
        child.terminate()
        child.wait()
    assert noted(alias)[1:] == [
        ("again", "k", "die", str(first)),
        ("first", "k", "live", str(second)),
    ]


PRODUCER = """
import os, signal
from django.db import transaction
from alkstore_django import Outbox
from tests.testapp.models import Note
outbox = Outbox("events", using={alias!r})
with transaction.atomic(using={alias!r}):
    Note.objects.using({alias!r}).create(text="order")
    outbox.enqueue_tx("order", key="k")
    {before}
{after}
"""
DIE = "os.kill(os.getpid(), signal.SIGKILL)"


@pytest.mark.parametrize("dies", ["before the commit", "right after the commit"])
def test_a_producer_that_dies(alias, outbox, dies):
    """FR-125 Killed before the commit: no order and no event; right after it: both, for good."""
    before, after = (DIE, "") if dies == "before the commit" else ("", DIE)
    with started_python(PRODUCER.format(alias=alias, before=before, after=after)) as child:
        child.wait(code=-signal.SIGKILL)
    expected = 0 if dies == "before the commit" else 1
    assert Note.objects.using(alias).filter(text="order").count() == expected
    assert count_live(alias) == expected
    with started_relay(alias, "--drain") as child:
        child.wait()
    assert len(noted(alias)) == expected


def test_the_producer_that_was_first_commits_last(alias, outbox):
    """5.3 Its event is delivered first all the same; the other producer waits for its turn."""
    begun, done = threading.Event(), threading.Event()

    def other():
        begun.wait(PATIENCE_S)
        outbox.enqueue(2, key="k")
        done.set()
        connections[alias].close()

    thread = threading.Thread(target=other)
    thread.start()
    with started_relay(alias) as child:
        child.wait_for_line("serves")
        with transaction.atomic(using=alias):
            outbox.enqueue(1, key="k")
            begun.set()
            assert not done.wait(1)
        thread.join(PATIENCE_S)
        wait_until_all_is_delivered(alias)
        child.terminate()
        child.wait()
    firsts = [payload for word, _, payload, _ in noted(alias) if word == "first"]
    assert firsts == ["1", "2"]


def test_many_relays_many_keys_failures_and_kills(alias, outbox):
    """5.3 FR-127 Several relays, hundreds of keys, 5 % failures, kills: in order, no gap, none twice."""
    expected = {f"k{n}": BUSY_EVENTS if n < BUSY_KEYS else EVENTS for n in range(KEYS)}
    for number in range(BUSY_EVENTS):
        with transaction.atomic(using=alias):
            for key in random.sample(sorted(expected), KEYS):
                if number < expected[key]:
                    outbox.enqueue(number, key=key)
    total = sum(expected.values())
    with ExitStack() as stack:

        def start():
            return stack.enter_context(started_relay(alias, "--threads", "4"))

        children = [start() for _ in range(RELAYS)]
        left = [total * (KILLS - n) // (KILLS + 1) for n in range(KILLS)]

        def kill_now_and_then():
            if left and count_live(alias) <= left[0]:
                del left[0]
                children.pop(random.randrange(len(children))).kill()
                children.append(start())

        wait_until_all_is_delivered(alias, kill_now_and_then)
        for child in children:
            child.terminate()
        for child in children:  # one that was started last may know no handler yet
            assert child.wait(code=None) in {0, -signal.SIGTERM}
    by_key = {}
    for word, key, payload, _ in noted(alias):
        by_key.setdefault(key, []).append((word, int(payload)))
    assert by_key.keys() == expected.keys() and count_dead(alias) == 0
    for key, seen in by_key.items():
        assert [payload for _, payload in seen] == sorted(payload for _, payload in seen), key
        firsts = [payload for word, payload in seen if word == "first"]
        assert firsts == list(range(expected[key])), key
