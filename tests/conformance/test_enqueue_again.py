"""Enqueueing dead jobs again: 3.14, as the admin does it."""

import threading

import pytest
from django.db import DatabaseError, connections, transaction

from alkstore_django import BYTES
from alkstore_django.models import Job
from tests.support.filling import fill_dead, fill_live, stored
from tests.support.rows import count_dead, count_live, dead_row, live_row
from tests.support.tampering import live_storage_refuses, the_dead_refuse_to_go
from tests.support.transactions import rolled_back

OUTBOX = "'__alkstore_outbox_mail'"
KEPT = (
    "queue", "priority", "max_attempts", "visibility_timeout_s", "backoff_base_s", "codec", "key",
)  # fmt: skip


def enqueue_again(alias, ids):
    return Job.objects.db_manager(alias).enqueue_again(ids)


def states(alias):
    return [(row["queue"], row["key"], row["state"]) for row in stored(alias, "job")]


def test_what_is_kept(alias, clock, make_queue):
    """3.14 The stored bytes and codec, queue, priority, budget and options are those of the dead job;
    the attempts are none, it is ready now and never expires."""
    queue = make_queue(
        "raw", codec=BYTES, visibility_timeout_s=77, max_attempts=9, backoff_base_s=8
    )
    dead_id = queue.enqueue(b"\x00\xff\x80", priority=-3, expires=500, max_attempts=4)
    queue.claim_one("w").fail("boom")
    before = dead_row(alias, dead_id)
    clock.advance(1_000)
    [done] = enqueue_again(alias, [dead_id])
    row = live_row(alias, done.job_id)
    assert (done.dead_id, done.queue, done.ready) == (dead_id, "raw", True)
    assert done.job_id > dead_id
    assert {name: row[name] for name in KEPT} == {name: before[name] for name in KEPT}
    assert bytes(row["payload"]) == b"\x00\xff\x80"
    assert (row["attempts"], row["expires_at"], row["state"]) == (0, None, "pending")
    assert row["run_at"] == row["enqueued_at"] == clock.now
    assert dead_row(alias, dead_id) is None
    assert queue.claim_one("w").job.payload == b"\x00\xff\x80"


def test_each_once(alias, clock, make_queue):
    """3.14 Asked twice, or for a job that is not there, nothing is doubled."""
    fill_dead(alias, 5)
    assert [job.dead_id for job in enqueue_again(alias, [-1, -3, -1, 99, -5])] == [-5, -3, -1]
    assert enqueue_again(alias, [-1, -3, -5]) == []
    assert enqueue_again(alias, []) == []
    assert (count_live(alias), count_dead(alias)) == (3, 2)


def test_ids_ascend_with_the_dead(alias, clock):
    """1.5 3.14 Ids grow in the order of the dead jobs, whatever order they are named in."""
    fill_dead(alias, 300, id="1000 - n")
    done = enqueue_again(alias, range(999, 699, -1))
    assert [job.dead_id for job in done] == list(range(700, 1000))
    assert [job.job_id for job in done] == sorted(job.job_id for job in done)
    assert len({job.job_id for job in done}) == 300


@pytest.mark.parametrize("big", [2**31, 2**40, 2**63 - 1])
def test_large_ids(alias, clock, big):
    """FR-069 Ids are 64 bits wide."""
    fill_dead(alias, 1, id=str(big))
    assert [job.dead_id for job in enqueue_again(alias, [big])] == [big]


def test_it_joins_the_transaction(alias, clock, make_queue):
    """3.1 3.14 Undone with it: the dead job is as it was, and no job is stored."""
    fill_dead(alias, 3)
    before = stored(alias, "dead_job")
    with rolled_back(alias):
        assert len(enqueue_again(alias, [-1, -2])) == 2
    assert stored(alias, "dead_job") == before
    assert count_live(alias) == 0


def test_it_is_all_or_nothing(alias, clock):
    """3.14 If the database refuses to store the job, or to let the dead row go, all is as before."""
    fill_dead(alias, 3)
    before = stored(alias, "dead_job")
    for refusal in (live_storage_refuses, the_dead_refuse_to_go):
        with refusal(alias), pytest.raises(DatabaseError):
            enqueue_again(alias, [-1, -2])
        assert stored(alias, "dead_job") == before and count_live(alias) == 0


def test_a_wake_follows_the_commit(alias, clock, make_queue):
    """6.1 A waiting claimant is woken by what was enqueued again, after the commit."""
    queue = make_queue()
    queue.enqueue(None)
    queue.claim_one("w").fail()
    with queue.listen() as listener:
        while listener.wait(0.2):
            pass
        with transaction.atomic(using=alias):
            assert len(enqueue_again(alias, [stored(alias, "dead_job")[0]["id"]])) == 1
        assert listener.wait(20) is True


def test_two_at_once(alias, clock):
    """3.14 Two sessions that ask for the same jobs at the same time enqueue each of them once."""
    fill_dead(alias, 400)
    begin, done = threading.Barrier(2, timeout=30), []

    def ask():
        begin.wait()
        try:
            done.extend(enqueue_again(alias, range(-400, 0)))
        finally:
            connections[alias].close()

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(job.dead_id for job in done) == list(range(-400, 0))
    assert (count_live(alias), count_dead(alias)) == (400, 0)


def test_events_of_one_key_keep_their_order(alias, clock):
    """5.2 An event goes behind a live one of its key, and behind those before it here."""
    fill_live(alias, 1, queue=OUTBOX, key="'busy'")
    fill_dead(alias, 1, id="1000001", queue=OUTBOX, key="'busy'")
    fill_dead(alias, 3, id="1000001 + n", queue=OUTBOX, key="'free'")
    fill_dead(alias, 1, id="1000005", queue="'__alkstore_outbox_other'", key="'busy'")
    fill_dead(alias, 2, id="1000005 + n", queue=OUTBOX)
    done = enqueue_again(alias, range(1_000_001, 1_000_008))
    assert [job.ready for job in done] == [False, True, False, False, True, True, True]
    name = OUTBOX.strip("'")
    assert states(alias)[1:] == [
        (name, "busy", "behind"),
        (name, "free", "pending"),
        (name, "free", "behind"),
        (name, "free", "behind"),
        ("__alkstore_outbox_other", "busy", "pending"),
        (name, None, "pending"),
        (name, None, "pending"),
    ]


def test_names_of_queues(alias, clock, make_queue):
    """3.13 Every queue with live jobs in whatever state, and every one with dead ones, each once."""
    upkeep = Job.objects.db_manager(alias).engine.upkeep
    assert upkeep.live_queue_names(at_most=9) == upkeep.dead_queue_names(at_most=9) == []
    fill_live(alias, 30, queue="'q' || (n - n / 3 * 3)")
    fill_live(alias, 2, queue="'claimed'", state="'processing'")
    fill_live(alias, 2, queue="'both'", state="'processing'")
    fill_live(alias, 2, queue="'both'")
    fill_live(alias, 2, queue=OUTBOX, state="'behind'", key="'k'")
    fill_dead(alias, 40, queue="'d' || (n - n / 4 * 4)")
    live = {"q0", "q1", "q2", "claimed", "both", "__alkstore_outbox_mail"}
    names = upkeep.live_queue_names(at_most=100)
    assert len(names) == len(live) and set(names) == live
    assert sorted(upkeep.dead_queue_names(at_most=100)) == ["d0", "d1", "d2", "d3"]
    assert len(upkeep.live_queue_names(at_most=2)) == len(upkeep.dead_queue_names(at_most=2)) == 2
    assert upkeep.dead_count("d1", at_most=100) == 10
    assert upkeep.dead_count("d1", at_most=4) == 4
    assert upkeep.dead_count("none", at_most=4) == 0


@pytest.mark.parametrize(
    "name", ["UPPER", "upper", " a ", "a\"b';--", "%s", "{x}", "é" * 200, "队列", "\x01"]
)
def test_odd_names(alias, clock, make_queue, name):
    """FR-066 Any legal name is found, and told from every other."""
    queue = make_queue(name)
    queue.enqueue_many([None, None])
    queue.claim_one("w").fail()
    upkeep = Job.objects.db_manager(alias).engine.upkeep
    assert upkeep.live_queue_names(at_most=9) == upkeep.dead_queue_names(at_most=9) == [name]
