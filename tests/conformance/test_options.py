"""Options of queues, enqueues, handles and ids: 2.1 to 2.3, 1.5."""

import datetime as dt
import math

import pytest
from django.db import transaction

from alkstore_django import InvalidOptions, Queue, Store
from tests.core.hostile import BAD_LENGTHS, BELOW_ONE, NO_INT, OUT_OF_RANGE_IDS, cases
from tests.core.test_option_rules import BAD_ENQUEUE_OPTIONS, BAD_QUEUE_OPTIONS
from tests.support.rows import count_dead, count_live, live_row
from tests.support.statements import no_sql
from tests.support.tampering import change_live_row

BAD_EXTENDS = {**BAD_LENGTHS, **BELOW_ONE, "none": None}
AGES = dt.timedelta(days=2_880_000)  # nearly 7,900 years


def at(seconds):
    return dt.datetime.fromtimestamp(seconds, dt.UTC)


def stamped(alias, job_id):
    row = live_row(alias, job_id)
    return row["visibility_timeout_s"], row["max_attempts"], row["backoff_base_s"]


# -- stamps -----------------------------------------------------------------------------------


def test_the_defaults_are_stamped_onto_the_row(alias, make_queue):
    """2.1 300 s, 3 attempts, base 5 s, and priority 0, no expiry."""
    queue = make_queue()
    job_id = queue.enqueue({})
    assert stamped(alias, job_id) == (300, 3, 5)
    assert live_row(alias, job_id)["priority"] == 0
    assert live_row(alias, job_id)["expires_at"] is None
    job = queue.get_job(job_id)
    assert (job.visibility_timeout_s, job.max_attempts, job.backoff_base_s) == (300, 3, 5)


def test_stored_lengths_are_rounded_up(alias, make_queue):
    """2.3 Lengths may be int, float or timedelta."""
    queue = make_queue(visibility_timeout_s=1.001, backoff_base_s=dt.timedelta(milliseconds=1))
    assert stamped(alias, queue.enqueue({})) == (2, 3, 1)


def test_stamps_are_frozen_at_enqueue(alias, clock, make_queue):
    """2.1 FR-075 A claim uses the row's stamps, never those of the claiming handle."""
    job_id = make_queue(visibility_timeout_s=1, max_attempts=1).enqueue({})
    other = make_queue(visibility_timeout_s=60, max_attempts=9)
    assert other.claim_one("worker").job.deadline == at(clock.now + 1)
    clock.advance(1)
    assert other.claim_one("worker") is None
    assert other.get_job(job_id).last_error == "max attempts exceeded"
    assert stamped(alias, other.enqueue({})) == (60, 9, 5)


def test_max_attempts_is_the_one_stamp_that_a_job_overrides(alias, make_queue):
    """2.2 The job's own budget, all else from the queue."""
    queue = make_queue(visibility_timeout_s=9, max_attempts=5, backoff_base_s=2)
    assert stamped(alias, queue.enqueue({}, max_attempts=1)) == (9, 1, 2)
    assert stamped(alias, queue.enqueue_many([{}], max_attempts=2**31 - 1)[0]) == (9, 2**31 - 1, 2)
    for refused in ("visibility_timeout_s", "backoff_base_s", "dead_letter_retention_s"):
        with pytest.raises(TypeError):
            queue.enqueue({}, **{refused: 1})


def test_retention_is_the_sweeping_handles_own(clock, make_queue):
    """2.1 Retention is never stamped: the sweeping handle's value rules."""
    keeper = make_queue(dead_letter_retention_s=None)
    keeper.enqueue({}), keeper.claim_one("worker").fail()
    clock.advance(10)
    assert keeper.sweep_expired() == (0, 0)
    assert make_queue(dead_letter_retention_s=11).sweep_expired() == (0, 0)
    assert make_queue(dead_letter_retention_s=10).sweep_expired() == (0, 1)


# -- when a job is ready ------------------------------------------------------------------------


@pytest.mark.parametrize("delay", [0, 0.0, 30, dt.timedelta(seconds=30)])
def test_a_given_delay_wins_over_run_at(alias, clock, make_queue, delay):
    """2.2 Zero too."""
    job_id = make_queue().enqueue({}, delay=delay, run_at=clock.now + 5_000)
    seconds = delay.total_seconds() if isinstance(delay, dt.timedelta) else delay
    assert live_row(alias, job_id)["run_at"] == clock.now + seconds


@pytest.mark.parametrize("none", ["delay", "run_at", "priority", "max_attempts", "expires"])
def test_none_means_the_default(alias, clock, make_queue, none):
    """2.2 Default of all is None."""
    row = live_row(alias, make_queue().enqueue({}, **{none: None}))
    assert (row["run_at"], row["priority"], row["max_attempts"]) == (clock.now, 0, 3)
    assert row["expires_at"] is None


def test_a_past_run_at_is_ready_now_and_sorts_by_that_instant(alias, clock, make_queue):
    """2.2 A past run_at is stored as given."""
    queue = make_queue()
    now = queue.enqueue({})
    older = queue.enqueue({}, run_at=clock.now - 1)
    oldest = queue.enqueue({}, run_at=at(clock.now - 86_400))
    assert live_row(alias, oldest)["run_at"] == clock.now - 86_400
    assert [h.job.id for h in queue.claim_batch("worker", 5)] == [oldest, older, now]


@pytest.mark.parametrize(
    ("run_at", "stored"),
    [
        (-62_135_596_800, -62_135_596_800),
        (253_402_300_799, 253_402_300_799),
        (-1.5, -1),
        (0, 0),
        (1_900_000_000.000001, 1_900_000_001),
        (dt.datetime(1, 1, 1, tzinfo=dt.UTC), -62_135_596_800),
        (dt.datetime(9999, 12, 31, 23, 59, 59, tzinfo=dt.UTC), 253_402_300_799),
        (dt.datetime(2030, 1, 1, 2, 0, 0, 1, dt.timezone(dt.timedelta(hours=2))), 1_893_456_001),
    ],
)
def test_run_at_is_an_instant_of_the_years_1_to_9999(alias, make_queue, run_at, stored):
    """2.3 Aware datetimes of any zone, or epoch seconds; fractions rounded up."""
    queue = make_queue()
    job_id = queue.enqueue({}, run_at=run_at)
    assert live_row(alias, job_id)["run_at"] == stored
    assert queue.get_job(job_id).run_at == dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(
        seconds=stored
    )


def test_lengths_may_reach_over_ages(alias, clock, make_queue):
    """2.3 FR-073 Whatever is accepted also works: claim, heartbeat, retry, read."""
    queue = make_queue(
        visibility_timeout_s=AGES, backoff_base_s=AGES, dead_letter_retention_s=AGES, max_attempts=9
    )
    seconds = int(AGES.total_seconds())
    delayed = queue.enqueue({}, delay=AGES, expires=AGES + dt.timedelta(seconds=1))
    assert live_row(alias, delayed)["run_at"] == clock.now + seconds
    assert live_row(alias, delayed)["expires_at"] == clock.now + seconds + 1
    queue.enqueue({})
    handle = queue.claim_one("worker")
    assert live_row(alias, handle.job.id)["deadline"] == clock.now + seconds
    assert handle.heartbeat(AGES)
    assert handle.retry()
    assert 1800 <= live_row(alias, handle.job.id)["run_at"] - clock.now <= 3600
    assert queue.sweep_expired() == (0, 0)
    assert queue.get_job(delayed).run_at.year > 9000


def test_priority_orders_over_all_of_int32(make_queue):
    """2.3 Both ends of an int32, higher first."""
    queue = make_queue()
    least, zero, most = (queue.enqueue({}, priority=p) for p in (-(2**31), 0, 2**31 - 1))
    assert [h.job.id for h in queue.claim_batch("worker", 5)] == [most, zero, least]


# -- refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("field", "value"), BAD_QUEUE_OPTIONS)
def test_a_bad_queue_option_is_refused_at_construction(alias, field, value):
    """2.3 FR-073 InvalidOptions naming field and value, before any SQL."""
    store = Store(alias)
    with no_sql(alias):
        for construct in (Queue, store.queue):
            where = {"using": alias} if construct is Queue else {}
            with pytest.raises(InvalidOptions) as caught:
                construct("jobs", **{field: value}, **where)
            assert (caught.value.field, caught.value.value) == (field, value) or value != value


@pytest.mark.parametrize(("field", "value"), BAD_ENQUEUE_OPTIONS)
def test_a_bad_enqueue_option_is_refused(alias, make_queue, field, value):
    """2.3 FR-078 InvalidOptions naming the field, no SQL, nothing stored, by every way in."""
    queue, store = make_queue(), Store(alias)
    with transaction.atomic(using=alias), no_sql(alias):
        for enqueue in (
            lambda **options: queue.enqueue({}, **options),
            lambda **options: queue.enqueue_many([{}, {}], **options),
            lambda **options: queue.enqueue_many([], **options),
            lambda **options: store.enqueue_tx("jobs", {}, **options),
        ):
            with pytest.raises(InvalidOptions) as caught:
                enqueue(**{field: value})
            assert caught.value.field == field
    assert count_live(alias) == 0


@pytest.mark.parametrize(
    ("delay", "expires"), [(5, 5), (10, 5), (1.5, 1.5), (dt.timedelta(days=1), 86_400)]
)
def test_an_expiry_that_does_not_exceed_the_delay_is_refused(alias, make_queue, delay, expires):
    """2.3 FR-078 That job could never run."""
    with no_sql(alias), pytest.raises(InvalidOptions) as caught:
        make_queue().enqueue({}, delay=delay, expires=expires)
    assert caught.value.field == "expires"
    assert count_live(alias) == 0


def test_no_pending_row_is_beyond_the_reach_of_every_call(clock, make_queue):
    """2.3 FR-078 A run_at beyond the expiry is swept to the dead, not kept for ever."""
    queue = make_queue()
    job_id = queue.enqueue({}, run_at=clock.now + 10, expires=10)
    clock.advance(10)
    assert queue.claim_one("worker") is None
    assert queue.sweep_expired() == (1, 0)
    assert queue.get_job(job_id).last_error == "expired"


STATES = ["held", "lapsed", "reclaimed", "acked"]


@pytest.fixture(params=STATES)
def handle(request, clock, make_queue):
    """A handle whose claim is in each state."""
    queue = make_queue(visibility_timeout_s=10, max_attempts=5)
    queue.enqueue({})
    claimed = queue.claim_one("worker")
    if request.param == "acked":
        claimed.ack()
    elif request.param != "held":
        clock.advance(10)
    if request.param == "reclaimed":
        queue.claim_one("other")
    return claimed


@pytest.mark.parametrize("extend", cases(BAD_EXTENDS))
def test_a_bad_heartbeat_is_refused(alias, handle, extend):
    """2.3 FR-073 InvalidOptions whatever the state of the claim, which is left unharmed."""
    before = live_row(alias, handle.job.id)
    with no_sql(alias), pytest.raises(InvalidOptions):
        handle.heartbeat(extend)
    assert live_row(alias, handle.job.id) == before


@pytest.mark.parametrize("delay", cases(BAD_LENGTHS))
def test_a_bad_retry_delay_is_refused(alias, handle, delay):
    """2.3 InvalidOptions whatever the state of the claim, which is left unharmed."""
    before = live_row(alias, handle.job.id)
    with no_sql(alias), pytest.raises(InvalidOptions) as caught:
        handle.retry("again", delay=delay)
    assert caught.value.field == "delay"
    assert live_row(alias, handle.job.id) == before
    assert count_dead(alias) == 0


@pytest.mark.parametrize("delay", cases(BAD_LENGTHS))
def test_a_bad_retry_delay_is_refused_on_the_last_attempt_too(alias, make_queue, delay):
    """2.3 A refusal comes before the job is buried."""
    queue = make_queue(max_attempts=1)
    job_id = queue.enqueue({})
    claimed = queue.claim_one("worker")
    with no_sql(alias), pytest.raises(InvalidOptions):
        claimed.retry(delay=delay)
    assert live_row(alias, job_id)["state"] == "processing"


@pytest.mark.parametrize("n", cases(NO_INT))
def test_a_bad_batch_size_is_refused(alias, make_queue, n):
    """2.3 claim_batch's n is an int."""
    queue = make_queue()
    job_id = queue.enqueue({})
    with no_sql(alias), pytest.raises(InvalidOptions):
        queue.claim_batch("worker", n)
    assert live_row(alias, job_id)["attempts"] == 0


@pytest.mark.parametrize("n", [2**31, 2**63, 10**30])
def test_any_large_batch_size_is_legal(make_queue, n):
    """2.3 n is an int, however large."""
    queue = make_queue()
    queue.enqueue_many([{}, {}])
    assert len(queue.claim_batch("worker", n)) == 2


# -- ids ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("job_id", cases(NO_INT))
def test_an_id_that_is_no_int_is_refused(alias, make_queue, job_id):
    """1.5 FR-069 InvalidOptions before any SQL."""
    queue, store = make_queue(), Store(alias)
    with no_sql(alias):
        for operation in (
            lambda: queue.get_job(job_id),
            lambda: queue.cancel(job_id),
            lambda: queue.ack_batch([job_id]),
            lambda: queue.ack_batch([1, job_id]),
            lambda: store.get_job_tx("jobs", job_id),
        ):
            with pytest.raises(InvalidOptions):
                operation()


@pytest.mark.parametrize("job_id", cases(OUT_OF_RANGE_IDS))
def test_an_id_out_of_range_is_absent(alias, make_queue, job_id):
    """1.5 FR-069 Simply absent, and harmless beside real ids."""
    queue = make_queue()
    queue.enqueue({})
    claimed = queue.claim_one("worker")
    assert queue.get_job(job_id) is None
    assert queue.cancel(job_id) is False
    assert Store(alias).get_job_tx("jobs", job_id) is None
    assert queue.ack_batch([job_id]) == 0
    assert queue.ack_batch([job_id, claimed.job.id]) == 1


@pytest.mark.parametrize("job_id", [2**31, 3_000_000_000, 2**63 - 1])
def test_ids_are_64_bits_wide_in_every_operation(alias, clock, make_queue, set_id, job_id):
    """1.5 FR-069 No statement narrows an id."""
    queue = make_queue(visibility_timeout_s=10, max_attempts=9)
    set_id(queue.enqueue({}), job_id)
    claimed = queue.claim_one("worker")
    assert claimed.job.id == job_id
    assert claimed.heartbeat(20)
    assert claimed.retry(delay=0)
    again = queue.claim_one("worker")
    assert queue.get_job(job_id).attempts == 2
    assert again.fail("enough")
    assert queue.get_job(job_id).state == "dead"


@pytest.mark.parametrize("end", ["ack", "ack_batch by id", "ack_batch by handle", "cancel"])
def test_wide_ids_are_acked_and_cancelled(alias, make_queue, set_id, end):
    """1.5 FR-069 No statement narrows an id."""
    queue, wide = make_queue(), 2**63 - 1
    set_id(queue.enqueue({}), wide)
    claimed = queue.claim_one("worker")
    done = {
        "ack": claimed.ack,
        "ack_batch by id": lambda: queue.ack_batch([wide]),
        "ack_batch by handle": lambda: queue.ack_batch([claimed]),
        "cancel": lambda: queue.cancel(wide),
    }[end]()
    assert done == 1
    assert count_live(alias) == 0


@pytest.fixture
def set_id(alias):
    """Give a stored job another id."""
    return lambda old, new: change_live_row(alias, old, id=new)


def test_nan_is_told_as_what_it_is(make_queue):
    """2.3 The refusal names field, rule and value."""
    with pytest.raises(InvalidOptions, match=r"^delay must be finite, got nan$"):
        make_queue().enqueue({}, delay=math.nan)
