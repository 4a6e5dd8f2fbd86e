"""What a holder may do with its claim: 3.5, 3.6 and 3.7."""

import datetime as dt
import math
import threading

import pytest
from django.db import connections, transaction

from alkstore_django import InvalidOptions
from tests.support.rows import count_live, dead_row, live_row
from tests.support.statements import no_sql
from tests.support.tampering import worst_plans
from tests.support.transactions import rolled_back

MICROSECOND = 0.000_001
OPERATIONS = {
    "ack": lambda handle: handle.ack(),
    "retry": lambda handle: handle.retry("x"),
    "retry now": lambda handle: handle.retry("x", delay=0),
    "fail": lambda handle: handle.fail("x"),
    "heartbeat": lambda handle: handle.heartbeat(600),
}


@pytest.fixture(params=OPERATIONS.values(), ids=OPERATIONS.keys())
def operation(request):
    """Each operation of a handle in turn."""
    return request.param


def stored(alias, job_id):
    return live_row(alias, job_id), dead_row(alias, job_id)


# -- 3.5: its own claim, while it lasts ---------------------------------------------------


def test_a_held_claim(clock, make_queue, operation):
    """3.5 Each operation succeeds while the claim is held."""
    queue = make_queue()
    queue.enqueue(None)
    assert operation(queue.claim_one("w")) is True


def test_a_lapsed_claim(alias, clock, make_queue, operation):
    """3.5 Once the deadline has come each operation is refused and changes nothing."""
    queue = make_queue(visibility_timeout_s=10)
    job_id = queue.enqueue(None)
    handle = queue.claim_one("w")
    clock.advance(10)
    before = stored(alias, job_id)
    assert operation(handle) is False
    assert stored(alias, job_id) == before


def test_a_lapsed_claim_on_the_last_attempt(alias, clock, make_queue, operation):
    """3.5 With no attempts left it is the same: refused, and nothing moves to the dead."""
    queue = make_queue(visibility_timeout_s=10, max_attempts=1)
    job_id = queue.enqueue(None)
    handle = queue.claim_one("w")
    clock.advance(10)
    before = stored(alias, job_id)
    assert operation(handle) is False
    assert stored(alias, job_id) == before


def test_a_reclaimed_job(alias, clock, make_queue, operation):
    """3.5 FR-001 An old handle is refused after a reclaim by a worker of the same name, and
    leaves the new claim as it was."""
    queue = make_queue(visibility_timeout_s=10, max_attempts=5)
    job_id = queue.enqueue(None)
    old = queue.claim_one("w")
    clock.advance(10)
    new = queue.claim_one("w")
    before = stored(alias, job_id)
    assert operation(old) is False
    assert stored(alias, job_id) == before
    assert new.ack() is True
    assert queue.get_job(job_id) is None


def test_a_job_reclaimed_on_its_last_attempt(alias, clock, make_queue, operation):
    """3.5 FR-001 The fence holds where an operation would move the job to the dead."""
    queue = make_queue(visibility_timeout_s=10, max_attempts=2)
    job_id = queue.enqueue(None)
    old = queue.claim_one("w")
    clock.advance(10)
    new = queue.claim_one("w")
    before = stored(alias, job_id)
    assert operation(old) is False
    assert stored(alias, job_id) == before
    assert operation(new) is True


@pytest.mark.parametrize("end", ["ack", "retry", "fail", "cancel", "sweep"])
def test_a_claim_that_ended(alias, clock, make_queue, operation, end):
    """3.5 After the claim has ended in any way, each operation is refused."""
    queue = make_queue()
    job_id = queue.enqueue(None, expires=60)
    handle = queue.claim_one("w")
    if end == "sweep":
        clock.advance(60)
    endings = {
        "ack": handle.ack,
        "retry": lambda: handle.retry(delay=30),
        "fail": handle.fail,
        "cancel": lambda: queue.cancel(job_id),
        "sweep": lambda: queue.sweep_expired().expired == 1,
    }
    assert endings[end]() is True
    before = stored(alias, job_id)
    assert operation(handle) is False
    assert stored(alias, job_id) == before


def test_a_job_that_was_retried_and_claimed_again(alias, clock, make_queue, operation):
    """3.5 The handle from before a retry has no hold on the claim after it."""
    queue = make_queue()
    job_id = queue.enqueue(None)
    old = queue.claim_one("w")
    old.retry(delay=0)
    queue.claim_one("w")
    before = stored(alias, job_id)
    assert operation(old) is False
    assert stored(alias, job_id) == before


@pytest.mark.parametrize("offset", [-1, -MICROSECOND, 0, MICROSECOND, 1])
def test_held_or_reclaimable(alias, clock, make_queue, operation, offset):
    """3.5 FR-005 At every instant a claim is either held or reclaimable, never both, never
    neither; the deadline itself counts as lapsed."""
    queue = make_queue(visibility_timeout_s=10)
    queue.enqueue(None)
    handle = queue.claim_one("w")
    clock.advance(10 + offset)
    with rolled_back(alias):
        held = operation(handle)
    with rolled_back(alias):
        reclaimable = queue.claim_one("other") is not None
    assert (held, reclaimable) == ((True, False) if offset < 0 else (False, True))


@pytest.mark.parametrize("fraction", [0, MICROSECOND, 0.5, 0.999_999])
def test_the_shortest_claim(clock, make_queue, fraction):
    """FR-005 A visibility timeout of one second lasts at least that and less than two."""
    queue = make_queue(visibility_timeout_s=1)
    queue.enqueue(None)
    clock.advance(fraction)
    handle = queue.claim_one("w")
    clock.advance(1 - MICROSECOND)
    assert handle.heartbeat(1) is True
    clock.advance(2)
    assert handle.ack() is False


def test_fences_of_one_batch(clock, make_queue):
    """3.5 The handles of one claim_batch each act on their own job alone."""
    queue = make_queue()
    job_ids = queue.enqueue_many([1, 2, 3])
    first, second, third = queue.claim_batch("w", 3)
    assert second.ack() is True
    assert [queue.get_job(job_id) is None for job_id in job_ids] == [False, True, False]
    assert first.fail() is True
    assert third.ack() is True


def test_an_old_handle_never_meets_a_new_job(alias, clock, make_queue, operation):
    """3.5 FR-003 Ids are never used twice, so the handle of a job that is gone is refused
    however many jobs came since, also on a new connection."""
    queue = make_queue()
    job_id = queue.enqueue(None)
    handle = queue.claim_one("w")
    assert handle.ack() is True
    connections[alias].close()
    newer = queue.enqueue(None)
    assert newer > job_id
    queue.claim_one("w")
    assert operation(handle) is False
    assert live_row(alias, newer)["state"] == "processing"


def test_a_handle_may_change_threads(clock, alias, make_queue):
    """3.5 FR-106 A job claimed in one thread is acked in another."""
    queue = make_queue()
    queue.enqueue(None)
    handle = queue.claim_one("w")
    results = []

    def ack():
        results.append(handle.ack())
        connections[alias].close()

    thread = threading.Thread(target=ack)
    thread.start()
    thread.join()
    assert results == [True]


# -- 3.5: rollbacks ---------------------------------------------------------------------


def test_an_undone_operation(alias, clock, make_queue, operation):
    """3.5 An operation undone by a rollback changes nothing and leaves the handle usable."""
    queue = make_queue()
    job_id = queue.enqueue(None)
    handle = queue.claim_one("w")
    before = stored(alias, job_id)
    with rolled_back(alias):
        assert operation(handle) is True
        assert stored(alias, job_id) != before
    assert stored(alias, job_id) == before
    assert operation(handle) is True


def test_an_operation_undone_by_a_savepoint(alias, clock, make_queue, operation):
    """3.5 The same within a savepoint of a transaction that then commits."""
    queue = make_queue()
    job_id = queue.enqueue(None)
    handle = queue.claim_one("w")
    before = stored(alias, job_id)
    with transaction.atomic(using=alias):
        with rolled_back(alias):
            assert operation(handle) is True
        assert stored(alias, job_id) == before
        assert operation(handle) is True
    assert operation(handle) is (operation is OPERATIONS["heartbeat"])


def test_a_refused_operation_in_a_transaction(alias, clock, make_queue, business, operation):
    """3.5 A refusal raises nothing and leaves the caller's transaction whole."""
    queue = make_queue()
    queue.enqueue(None)
    handle = queue.claim_one("w")
    handle.ack()
    with transaction.atomic(using=alias):
        business.objects.using(alias).create(text="before")
        assert operation(handle) is False
        business.objects.using(alias).create(text="after")
    assert business.objects.using(alias).count() == 2


def test_an_undone_claim_shares_no_fence_with_the_next(alias, clock, make_queue, operation):
    """3.5 A claim made in a rolled-back transaction has no hold on the claim after it, though
    both are the job's first attempt, by the same worker, in the same second."""
    queue = make_queue()
    job_id = queue.enqueue(None)
    with rolled_back(alias):
        undone = queue.claim_one("w")
    assert live_row(alias, job_id)["attempts"] == 0
    assert operation(undone) is False
    held = queue.claim_one("w")
    before = stored(alias, job_id)
    assert operation(undone) is False
    assert queue.ack_batch([undone]) == 0
    assert stored(alias, job_id) == before
    assert operation(held) is True


def test_a_claim_undone_by_a_savepoint(alias, clock, make_queue, operation):
    """3.5 The same when both claims are made in one transaction."""
    queue = make_queue()
    queue.enqueue(None)
    with transaction.atomic(using=alias):
        with rolled_back(alias):
            undone = queue.claim_one("w")
        held = queue.claim_one("w")
        assert operation(undone) is False
    assert operation(held) is True


def test_ids_undone_with_their_claim(alias, clock, make_queue, operation):
    """3.5 A handle on a job whose enqueue was undone is refused, whoever has that id now."""
    queue = make_queue()
    with rolled_back(alias):
        queue.enqueue(None)
        undone = queue.claim_one("w")
    job_id = queue.enqueue(None)
    queue.claim_one("w")
    before = stored(alias, job_id)
    assert operation(undone) is False
    assert stored(alias, job_id) == before


# -- 3.6: heartbeat -----------------------------------------------------------------------


@pytest.mark.parametrize("extend", [1, 5, 1.25, dt.timedelta(minutes=2), 86_400])
def test_heartbeat_sets_the_deadline(alias, clock, make_queue, extend):
    """3.6 The deadline becomes now + extend, rounded up; it is not added to the old one, and
    nothing else changes."""
    queue = make_queue(visibility_timeout_s=300)
    job_id = queue.enqueue(None)
    handle = queue.claim_one("w")
    before = live_row(alias, job_id)
    clock.advance(10.5)
    length = extend.total_seconds() if isinstance(extend, dt.timedelta) else extend
    for _ in range(2):
        assert handle.heartbeat(extend) is True
        expected = before | {"deadline": math.ceil(clock.now + length)}
        assert live_row(alias, job_id) == expected


def test_heartbeats_keep_a_claim(clock, make_queue):
    """3.6 Renewed in time, a claim outlasts its visibility timeout; after the last it lapses."""
    queue = make_queue(visibility_timeout_s=10, max_attempts=1)
    queue.enqueue(None)
    handle = queue.claim_one("w")
    for _ in range(5):
        clock.advance(9)
        assert handle.heartbeat(10) is True
        assert queue.claim_one("other") is None
    clock.advance(10)
    assert handle.heartbeat(10) is False


def test_heartbeat_may_shorten(clock, make_queue):
    """3.6 A short extend makes the claim lapse earlier than it would have."""
    queue = make_queue(visibility_timeout_s=300)
    queue.enqueue(None)
    handle = queue.claim_one("w")
    assert handle.heartbeat(5) is True
    clock.advance(5)
    assert handle.ack() is False
    assert queue.claim_one("other") is not None


@pytest.mark.parametrize("lapsed", [False, True], ids=["held", "lapsed"])
@pytest.mark.parametrize(
    "extend",
    [0, -1, 0.5, True, float("nan"), float("inf"), 1e20, 10**12, "60", None, dt.timedelta(0)],
)
def test_bad_extend(alias, clock, make_queue, extend, lapsed):
    """3.6 FR-073 A bad extend is InvalidOptions before any SQL, whatever the state of the
    claim, and harms none."""
    queue = make_queue(visibility_timeout_s=10)
    job_id = queue.enqueue(None)
    handle = queue.claim_one("w")
    clock.advance(10 if lapsed else 0)
    before = stored(alias, job_id)
    with no_sql(alias), pytest.raises(InvalidOptions):
        handle.heartbeat(extend)
    assert stored(alias, job_id) == before


# -- 3.7: ack and ack_batch ------------------------------------------------------------------


def test_ack_deletes(alias, clock, make_queue):
    """3.7 An acked job is gone, from dead storage too; a second ack is refused."""
    queue = make_queue()
    job_id, other = queue.enqueue_many([1, 2])
    handle = queue.claim_one("w")
    assert handle.ack() is True
    assert stored(alias, job_id) == (None, None)
    assert live_row(alias, other) is not None
    assert handle.ack() is False


def test_ack_batch_by_ids(alias, clock, make_queue):
    """3.7 By id, each job that is processing and unlapsed is acked, whoever claimed it and
    whatever its queue; pending, lapsed, dead, unknown and out-of-range ids count for nothing."""
    queue, other = make_queue("a"), make_queue("b")
    dead = queue.enqueue(None)
    queue.claim_one("w").fail()
    lapsed = queue.enqueue(None)
    queue.claim_one("w").heartbeat(1)
    clock.advance(1)
    mine, foreign = queue.enqueue(None, priority=1), other.enqueue(None)
    queue.claim_one("w1")
    other.claim_one("w2")
    pending = queue.enqueue(None)
    unknown = pending + 1_000
    given = [pending, lapsed, dead, unknown, 0, -1, 2**63, 2**200, mine, foreign, mine]
    assert queue.ack_batch(iter(given)) == 2
    assert queue.get_job(mine) is None
    assert queue.get_job(foreign) is None
    assert [queue.get_job(job_id).state for job_id in (pending, lapsed, dead)] == [
        "pending",
        "processing",
        "dead",
    ]


def test_ack_batch_by_id_of_a_reclaimed_job(clock, make_queue):
    """3.7 An id names the job, not the claim: the present claim is acked."""
    queue = make_queue(visibility_timeout_s=10)
    job_id = queue.enqueue(None)
    queue.claim_one("w")
    clock.advance(10)
    assert queue.ack_batch([job_id]) == 0
    queue.claim_one("w")
    assert queue.ack_batch([job_id]) == 1


def test_ack_batch_by_handles(alias, clock, make_queue):
    """3.7 By handle, each ack is fenced by its claim."""
    queue = make_queue(visibility_timeout_s=10)
    reclaimed, renewed, retried, lapsed = queue.enqueue_many(range(4))
    old = queue.claim_batch("w", 4)
    old[1].heartbeat(60)
    old[2].retry(delay=60)
    clock.advance(10)
    new = queue.claim_one("w")
    assert new.job.id == reclaimed
    assert queue.ack_batch([*old, old[1]]) == 1
    assert queue.get_job(renewed) is None
    assert live_row(alias, reclaimed)["attempts"] == 2
    assert [queue.get_job(job_id).state for job_id in (reclaimed, retried, lapsed)] == [
        "processing",
        "pending",
        "processing",
    ]
    assert queue.ack_batch(handle for handle in [new]) == 1


def test_ack_batch_by_both(clock, make_queue):
    """3.7 Ids and handles may come together; a job named twice counts once."""
    queue = make_queue()
    first, second, third = queue.enqueue_many([1, 2, 3])
    handles = queue.claim_batch("w", 3)
    assert queue.ack_batch([first, handles[0], handles[1], third, second]) == 3
    assert queue.ack_batch([first, *handles]) == 0


def test_the_handles_of_a_batch_are_not_mixed_up(alias, clock, make_queue):
    """3.7 A stale handle of one job does not borrow the fence of another job's handle."""
    queue = make_queue(visibility_timeout_s=10)
    first, second = queue.enqueue_many([1, 2])
    stale, other = queue.claim_batch("w", 2)
    other.heartbeat(60)
    clock.advance(10)
    assert queue.claim_one("w").job.id == first
    assert queue.ack_batch([stale, other]) == 1
    assert live_row(alias, first) is not None
    assert live_row(alias, second) is None


@pytest.mark.parametrize("given", ["x", 1.0, None, [1]])
def test_ack_batch_of_no_id(alias, clock, make_queue, given):
    """3.7 What is neither an int nor a handle is refused before any SQL, and nothing is acked."""
    queue = make_queue()
    job_id = queue.enqueue(None)
    handle = queue.claim_one("w")
    with no_sql(alias), pytest.raises(InvalidOptions):
        queue.ack_batch([job_id, handle, given])
    assert live_row(alias, job_id) is not None


def test_ack_batch_of_very_many(alias, clock, make_queue):
    """3.7 Thousands of ids and handles are acked in one call."""
    queue = make_queue()
    job_ids = queue.enqueue_many([None] * 3_000)
    handles = queue.claim_batch("w", 1_500)
    queue.claim_batch("w", 1_500)
    assert queue.ack_batch([]) == 0
    assert queue.ack_batch(handles) == 1_500
    assert queue.ack_batch([*job_ids, *range(10**9, 10**9 + 40_000)]) == 1_500
    assert count_live(alias) == 0


def test_an_undone_ack_batch(alias, clock, make_queue):
    """3.7 ack_batch joins the transaction, and its rollback leaves the handles usable."""
    queue = make_queue()
    queue.enqueue_many([1, 2])
    first, second = queue.claim_batch("w", 2)
    with rolled_back(alias):
        assert queue.ack_batch([first, second.job.id]) == 2
    assert queue.ack_batch([first, second]) == 2


@pytest.mark.parametrize("by", ["handles", "ids"])
def test_acks_under_any_plan(alias, clock, make_queue, by):
    """FR-012 With the worst plans left to the planner, what was named is acked, and no more."""
    queue = make_queue()
    queue.enqueue_many(range(20))
    handles = queue.claim_batch("w", 20)[:3]
    with worst_plans(alias):
        given = handles if by == "handles" else [handle.job.id for handle in handles]
        assert queue.ack_batch(given) == 3
    assert count_live(alias) == 17
