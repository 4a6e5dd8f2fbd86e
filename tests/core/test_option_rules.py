"""Sections 2.1 to 2.3, the pure rules of options."""

import datetime as dt

import pytest

from alkstore_django.core.options import (
    EnqueueOptions,
    QueueOptions,
    checked_batch_size,
    checked_job_id,
)
from alkstore_django.exceptions import AlkstoreError, InvalidOptions
from tests.core.hostile import (
    BAD_INSTANTS,
    BAD_LENGTHS,
    BAD_MAX_ATTEMPTS,
    BAD_PRIORITIES,
    BELOW_ONE,
    NO_INT,
    OUT_OF_RANGE_IDS,
    cases,
)

BAD_QUEUE_OPTIONS = [
    pytest.param(field, value, id=f"{field}-{label}")
    for field, values in {
        "visibility_timeout_s": {**BAD_LENGTHS, **BELOW_ONE, "none": None},
        "max_attempts": {**BAD_MAX_ATTEMPTS, "none": None},
        "backoff_base_s": {**BAD_LENGTHS, "none": None},
        "dead_letter_retention_s": {**BAD_LENGTHS, **BELOW_ONE},
    }.items()
    for label, value in values.items()
]
BAD_ENQUEUE_OPTIONS = [
    pytest.param(field, value, id=f"{field}-{label}")
    for field, values in {
        "delay": BAD_LENGTHS,
        "run_at": BAD_INSTANTS,
        "priority": BAD_PRIORITIES,
        "max_attempts": BAD_MAX_ATTEMPTS,
        "expires": {**BAD_LENGTHS, **BELOW_ONE},
    }.items()
    for label, value in values.items()
]


def stamps(options=None, **given):
    return EnqueueOptions(**given).stamps("jobs", "json", options or QueueOptions())


def test_the_defaults_of_a_queue():
    """2.1 300 s, 3 attempts, base 5 s, dead jobs kept for ever."""
    options = QueueOptions()
    assert options.visibility_timeout_s == 300
    assert options.max_attempts == 3
    assert options.backoff_base_s == 5
    assert options.dead_letter_retention_s is None


def test_lengths_of_a_queue_round_up_to_whole_seconds():
    """2.3 Lengths are int, float or timedelta; stored ones round up."""
    options = QueueOptions(1.000001, 1, dt.timedelta(milliseconds=1), 59.5)
    assert (options.visibility_timeout_s, options.backoff_base_s) == (2, 1)
    assert options.dead_letter_retention_s == 60


def test_the_lower_bounds_themselves_are_legal():
    """2.3 Lower bounds: visibility, attempts, retention 1; backoff 0."""
    assert QueueOptions(1, 1, 0, 1) == QueueOptions(1.0, 1, 0.0, dt.timedelta(seconds=1))
    assert QueueOptions(max_attempts=2**31 - 1).max_attempts == 2**31 - 1


@pytest.mark.parametrize(("field", "value"), BAD_QUEUE_OPTIONS)
def test_refuses_a_bad_queue_option(field, value):
    """2.3 FR-073 The refusal names field, rule and value."""
    with pytest.raises(InvalidOptions) as caught:
        QueueOptions(**{field: value})
    assert isinstance(caught.value, ValueError) and isinstance(caught.value, AlkstoreError)
    assert caught.value.field == field
    assert caught.value.value is value
    assert str(caught.value).startswith(f"{field} must ")
    assert ", got " in str(caught.value)


@pytest.mark.parametrize(("field", "value"), BAD_ENQUEUE_OPTIONS)
def test_refuses_a_bad_enqueue_option(field, value):
    """2.3 FR-078 The refusal names field, rule and value."""
    with pytest.raises(InvalidOptions) as caught:
        stamps(**{field: value})
    assert caught.value.field == field
    assert caught.value.value is value
    assert str(caught.value).startswith(f"{field} must ")


def test_the_text_of_a_refusal():
    """2.3 The form is: field, rule, value."""
    with pytest.raises(InvalidOptions, match=r"^max_attempts must be at least 1, got 0$"):
        QueueOptions(max_attempts=0)


def test_an_enqueue_takes_the_stamps_of_its_queue():
    """2.1 The queue's options are the stamps; retention is none of them."""
    made = stamps(QueueOptions(7, 8, 9, 10))
    assert (made.visibility_timeout_s, made.max_attempts, made.backoff_base_s) == (7, 8, 9)
    assert not hasattr(made, "dead_letter_retention_s")
    assert (made.priority, made.delay_us, made.run_at, made.expires_us) == (0, None, None, None)


def test_max_attempts_is_the_one_stamp_that_a_job_overrides():
    """2.2 max_attempts is overridden, the rest stays the queue's."""
    made = stamps(QueueOptions(7, 8, 9), max_attempts=1)
    assert (made.visibility_timeout_s, made.max_attempts, made.backoff_base_s) == (7, 1, 9)


@pytest.mark.parametrize("delay", [0, 0.0, 5, dt.timedelta()])
def test_a_given_delay_wins_over_run_at(delay):
    """2.2 A given delay, 0 too, wins over run_at."""
    made = stamps(delay=delay, run_at=1_900_000_000)
    assert made.run_at is None
    assert made.delay_us is not None
    assert stamps(run_at=1_900_000_000).run_at == 1_900_000_000


@pytest.mark.parametrize("none", ["delay", "run_at", "priority", "max_attempts", "expires"])
def test_none_means_the_default(none):
    """2.2 Default of all is None."""
    assert stamps(**{none: None}) == stamps()


@pytest.mark.parametrize(
    ("delay", "expires"),
    [(5, 5), (10, 5), (1.5, 1.5), (dt.timedelta(days=1), 86_400), (1.000001, 1)],
)
def test_refuses_an_expiry_that_does_not_exceed_the_delay(delay, expires):
    """2.3 FR-078 expires not greater than delay: that job could never run."""
    with pytest.raises(InvalidOptions) as caught:
        stamps(delay=delay, expires=expires)
    assert caught.value.field == "expires"
    assert caught.value.value is expires


def test_an_expiry_beyond_the_delay_is_legal():
    """2.3 expires greater than delay is accepted."""
    assert stamps(delay=5, expires=6).expires_us == 6_000_000


@pytest.mark.parametrize("priority", [-(2**31), -1, 0, 2**31 - 1])
def test_priority_is_an_int32(priority):
    """2.3 The whole range of an int32 is legal."""
    assert stamps(priority=priority).priority == priority


@pytest.mark.parametrize("n", cases(NO_INT))
def test_the_batch_size_is_an_int(n):
    """2.3 claim_batch's n is an int, and a bool is none."""
    with pytest.raises(InvalidOptions) as caught:
        checked_batch_size(n)
    assert caught.value.field == "n"


@pytest.mark.parametrize("n", [-(10**30), -1, 0, 1, 10**30])
def test_any_int_is_a_batch_size(n):
    """3.3 n <= 0 is legal (and claims nothing), so is any large n."""
    assert checked_batch_size(n) == n


@pytest.mark.parametrize("job_id", cases(NO_INT))
def test_an_id_that_is_no_int_is_refused(job_id):
    """1.5 FR-069 One that is no int is InvalidOptions."""
    with pytest.raises(InvalidOptions):
        checked_job_id(job_id)


@pytest.mark.parametrize("job_id", cases(OUT_OF_RANGE_IDS))
def test_an_id_out_of_range_is_absent(job_id):
    """1.5 FR-069 An id out of range is simply absent."""
    assert checked_job_id(job_id) is None


def test_ids_are_positive_64_bit_integers():
    """1.5 Both ends of the range are ids."""
    assert checked_job_id(1) == 1
    assert checked_job_id(2**63 - 1) == 2**63 - 1
