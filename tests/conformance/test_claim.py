"""Claiming: 3.3 and 3.4."""

import pytest

from alkstore_django import InvalidName, InvalidOptions
from tests.support.rows import count_dead, count_live, dead_row, live_row
from tests.support.statements import no_sql
from tests.support.tampering import worst_plans

MICROSECOND = 0.000_001


def ids(handles):
    return [handle.job.id for handle in handles]


def test_claim_order(clock, make_queue):
    """3.3 Claims come by priority descending, run_at ascending, id ascending."""
    queue = make_queue()
    now = clock.now
    places = {  # (priority, run_at) of each job, in the order of enqueue -> its place
        queue.enqueue("e", priority=-5, run_at=now - 900): 5,
        queue.enqueue("d", priority=0, run_at=now - 1): 4,
        queue.enqueue("b", priority=0, run_at=now - 500): 2,
        queue.enqueue("c", priority=0, run_at=now - 500): 3,
        queue.enqueue("a", priority=2_147_483_647): 1,
        queue.enqueue("f", priority=-2_147_483_648, run_at=0): 6,
    }
    handles = queue.claim_batch("w", 10)
    assert ids(handles) == sorted(places, key=places.__getitem__)
    assert "".join(handle.job.payload for handle in handles) == "abcdef"


def test_a_limited_claim_takes_the_first_in_order(clock, make_queue):
    """3.3 Of more ready jobs than asked for, exactly the first n in order are claimed."""
    queue = make_queue()
    low, high, middle = (queue.enqueue(None, priority=priority) for priority in (1, 3, 2))
    assert ids(queue.claim_batch("w", 2)) == [high, middle]
    assert queue.claim_one("w").job.id == low
    assert queue.claim_one("w") is None


def test_lapsed_and_pending_jobs_are_one_order(clock, alias, make_queue):
    """3.3 A lapsed job stands in the order by its own priority and run_at, among the pending."""
    queue = make_queue(visibility_timeout_s=10)
    lapsed = queue.enqueue("lapsed", run_at=clock.now - 50)
    urgent_lapsed = queue.enqueue("urgent", priority=1)
    assert len(queue.claim_batch("w", 2)) == 2
    clock.advance(10)
    before = queue.enqueue(None, run_at=clock.now - 100)
    after = queue.enqueue(None, run_at=clock.now - 20)
    assert live_row(alias, lapsed)["run_at"] == clock.now - 60
    assert ids(queue.claim_batch("w", 2)) == [urgent_lapsed, before]
    assert ids(queue.claim_batch("w", 2)) == [lapsed, after]


def test_not_before_run_at(clock, make_queue):
    """3.3 A job is ready from run_at on, and not a microsecond earlier."""
    queue = make_queue()
    job_id = queue.enqueue(None, delay=10)
    clock.advance(10 - MICROSECOND)
    assert queue.claim_one("w") is None
    clock.advance(MICROSECOND)
    assert queue.claim_one("w").job.id == job_id


def test_only_the_named_queue(clock, make_queue):
    """3.3 A claim takes jobs of its own queue only; names are compared exactly."""
    others = [make_queue("Jobs"), make_queue("jobs "), make_queue("job")]
    for other in others:
        other.enqueue(None, priority=9)
    assert make_queue("jobs").claim_batch("w", 10) == []
    assert [len(other.claim_batch("w", 10)) for other in others] == [1, 1, 1]


@pytest.mark.parametrize("n", [0, -1, -(2**70)])
def test_claim_of_none(alias, clock, make_queue, n):
    """3.3 n <= 0 gives an empty list and sends no SQL."""
    queue = make_queue()
    job_id = queue.enqueue(None)
    with no_sql(alias):
        assert queue.claim_batch("w", n) == []
    assert live_row(alias, job_id)["attempts"] == 0


@pytest.mark.parametrize("n", [2, 10_000, 2**31, 2**70])
def test_more_than_there_is(clock, make_queue, n):
    """3.3 Whatever n asks for, what is ready is given."""
    queue = make_queue()
    assert queue.claim_batch("w", n) == []
    job_ids = queue.enqueue_many([1, 2])
    assert ids(queue.claim_batch("w", n)) == job_ids


@pytest.mark.parametrize("n", [True, 1.0, "1", None])
def test_n_is_an_int(alias, clock, make_queue, n):
    """2.3 claim_batch's n is an int; all else is InvalidOptions before any SQL."""
    queue = make_queue()
    with no_sql(alias), pytest.raises(InvalidOptions):
        queue.claim_batch("w", n)


@pytest.mark.parametrize("worker_id", ["", None, 7, b"w", "a\0b", "\ud800", "w" * 201])
def test_bad_worker_id(alias, clock, make_queue, worker_id):
    """3.3 An empty worker_id is refused, 1.3 and any other bad one, before any SQL."""
    queue = make_queue()
    job_id = queue.enqueue(None)
    with no_sql(alias):
        with pytest.raises(InvalidName):
            queue.claim_one(worker_id)
        with pytest.raises(InvalidName):
            queue.claim_batch(worker_id, 1)
    assert live_row(alias, job_id)["state"] == "pending"


@pytest.mark.parametrize("worker_id", ["w", "__alkstore_worker", "w" * 200, "ünï 队列 %s {x} 'b"])
def test_good_worker_id(alias, clock, make_queue, worker_id):
    """1.3 A worker_id of 1 to 200 characters is kept as given, the reserved prefix too."""
    queue = make_queue()
    job_id = queue.enqueue(None)
    assert queue.claim_one(worker_id).job.worker_id == worker_id
    assert live_row(alias, job_id)["worker_id"] == worker_id


def test_what_a_claim_stamps(alias, clock, make_queue):
    """3.4 A claim adds an attempt and stamps worker, claimed_at and the deadline; 1.4 the
    present rounds down, the deadline up; nothing else changes."""
    queue = make_queue(visibility_timeout_s=60)
    job_id = queue.enqueue("p", priority=4, expires=500)
    before = live_row(alias, job_id)
    clock.advance(7.25)
    handle = queue.claim_one("w")
    row = live_row(alias, job_id)
    changed = {column: row[column] for column in row if row[column] != before[column]}
    changed.pop("claim_token")
    now = int(clock.now)
    assert changed == {
        "state": "processing",
        "attempts": 1,
        "worker_id": "w",
        "claimed_at": now,
        "deadline": now + 61,
    }
    assert handle.job == queue.get_job(job_id)


def test_the_rows_own_visibility_timeout(alias, clock, make_queue):
    """3.4 FR-075 The deadline and the budget are the job's stamps, not the claiming handle's."""
    enqueuing = make_queue(visibility_timeout_s=1, max_attempts=1)
    claiming = make_queue(visibility_timeout_s=60, max_attempts=9)
    job_id = enqueuing.enqueue(None)
    assert claiming.claim_one("w").job.id == job_id
    assert live_row(alias, job_id)["deadline"] == clock.now + 1
    clock.advance(2)
    assert claiming.claim_one("w") is None
    assert dead_row(alias, job_id)["last_error"] == "max attempts exceeded"


def test_a_held_job_is_nobody_elses(clock, make_queue):
    """3.3 A held job is not claimed before its deadline has come; then it is."""
    queue = make_queue(visibility_timeout_s=10)
    job_id = queue.enqueue(None)
    queue.claim_one("w1")
    clock.advance(10 - MICROSECOND)
    assert queue.claim_one("w2") is None
    clock.advance(MICROSECOND)
    assert queue.claim_one("w2").job.id == job_id


def test_a_reclaim_costs_an_attempt(alias, clock, make_queue):
    """3.4 A reclaim adds an attempt and stamps anew."""
    queue = make_queue(visibility_timeout_s=10)
    job_id = queue.enqueue(None)
    queue.claim_one("w1")
    clock.advance(25)
    job = queue.claim_one("w2").job
    assert (job.attempts, job.worker_id) == (2, "w2")
    row = live_row(alias, job_id)
    assert (row["attempts"], row["worker_id"]) == (2, "w2")
    assert (row["claimed_at"], row["deadline"]) == (clock.now, clock.now + 10)


@pytest.mark.parametrize("budget", [1, 2, 5])
def test_spent_lapsed_jobs_die(alias, clock, make_queue, budget):
    """3.4 A job is claimed max_attempts times; its last lapse sends it to the dead."""
    queue = make_queue(visibility_timeout_s=10, max_attempts=budget)
    job_id = queue.enqueue(None)
    for attempt in range(1, budget + 1):
        assert queue.claim_one(f"w{attempt}").job.attempts == attempt
        clock.advance(10.5)
    assert queue.claim_one("last") is None
    assert live_row(alias, job_id) is None
    dead = dead_row(alias, job_id)
    assert dead["last_error"] == "max attempts exceeded"
    assert (dead["attempts"], dead["worker_id"]) == (budget, f"w{budget}")
    assert dead["died_at"] == int(clock.now)


def test_a_spent_job_is_held_until_its_deadline(alias, clock, make_queue):
    """3.4 A job on its last attempt does not die before its claim lapses."""
    queue = make_queue(visibility_timeout_s=10, max_attempts=1)
    queue.enqueue(None)
    handle = queue.claim_one("w")
    clock.advance(10 - MICROSECOND)
    assert queue.claim_one("other") is None
    assert count_dead(alias) == 0
    assert handle.ack() is True


def test_spent_jobs_die_in_the_same_call(alias, clock, make_queue):
    """3.4 FR-027 The same claim buries this queue's spent jobs, all of them whatever n is,
    and those of no other queue."""
    queue, other = make_queue("a", max_attempts=1), make_queue("b", max_attempts=1)
    spent = queue.enqueue_many([None] * 5)
    foreign = other.enqueue(None)
    queue.claim_batch("w", 5)
    other.claim_one("w")
    clock.advance(300)
    good = queue.enqueue_many([None, None])
    assert ids(queue.claim_batch("w", 1)) == good[:1]
    assert all(dead_row(alias, job_id) for job_id in spent)
    assert ids(queue.claim_batch("w", 5)) == good[1:]
    assert live_row(alias, foreign)["state"] == "processing"
    assert other.claim_one("w") is None
    assert dead_row(alias, foreign)["last_error"] == "max attempts exceeded"


def test_spent_and_expired(alias, clock, make_queue):
    """3.4 A lapsed spent job dies of its spent budget in a claim, past its expiry too."""
    queue = make_queue(visibility_timeout_s=10, max_attempts=1)
    job_id = queue.enqueue(None, expires=20)
    queue.claim_one("w")
    clock.advance(20)
    assert queue.claim_one("w") is None
    assert dead_row(alias, job_id)["last_error"] == "max attempts exceeded"


def test_expired_jobs_are_never_claimed(alias, clock, make_queue):
    """3.3 FR-076 A job at or past expires_at is not claimed, without any sweep; until one
    comes it stays pending."""
    queue = make_queue()
    job_id = queue.enqueue(None, expires=5)
    clock.advance(5)
    assert queue.claim_batch("w", 5) == []
    assert queue.get_job(job_id).state == "pending"
    assert queue.sweep_expired() == (1, 0)
    dead = dead_row(alias, job_id)
    assert (dead["last_error"], dead["attempts"]) == ("expired", 0)
    assert queue.sweep_expired() == (0, 0)


def test_claimable_until_it_expires(clock, make_queue):
    """3.3 Up to expires_at a job is claimed as any other."""
    queue = make_queue()
    job_id = queue.enqueue(None, expires=5)
    clock.advance(5 - MICROSECOND)
    assert queue.claim_one("w").job.id == job_id


def test_lapsed_and_expired_jobs_are_not_reclaimed(alias, clock, make_queue):
    """3.3 FR-076 A lapsed job past expires_at is not reclaimed."""
    queue = make_queue(visibility_timeout_s=10)
    job_id = queue.enqueue(None, expires=10)
    queue.claim_one("w")
    clock.advance(10)
    assert queue.claim_one("w") is None
    row = live_row(alias, job_id)
    assert (row["state"], row["attempts"]) == ("processing", 1)


def test_visibility_starts_at_the_claim(alias, clock, make_queue):
    """3.4 FR-071 A delay longer than the visibility timeout is no lapse."""
    queue = make_queue(visibility_timeout_s=2)
    job_id = queue.enqueue(None, delay=8)
    clock.advance(9)
    job = queue.claim_one("w").job
    assert (job.id, job.attempts) == (job_id, 1)
    assert live_row(alias, job_id)["deadline"] == clock.now + 2


@pytest.mark.parametrize("lapsed", [False, True], ids=["pending", "lapsed"])
def test_never_more_than_n_under_any_plan(alias, clock, make_queue, lapsed):
    """FR-012 With the worst plans left to the planner, a claim of one marks one row."""
    queue = make_queue(visibility_timeout_s=1)
    queue.enqueue_many(range(20))
    if lapsed:
        queue.claim_batch("early", 20)
        clock.advance(1)
    with worst_plans(alias):
        handles = queue.claim_batch("w", 1)
    assert ids(handles) == [min(ids(handles + queue.claim_batch("rest", 19)))]
    workers = [live_row(alias, handle.job.id)["worker_id"] for handle in handles]
    assert (workers, count_live(alias)) == (["w"], 20)
