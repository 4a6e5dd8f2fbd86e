"""Dead storage and the error text: 3.9 and 3.10."""

import pytest

from tests.support.rows import count_dead, dead_row, live_row

LIMIT = 32_768


class Unprintable:
    def __str__(self):
        raise RuntimeError("no text")


def buried_error(alias, queue, *error):
    """Fail a fresh job; return the error as stored, which is the error as read."""
    job_id = queue.enqueue(None)
    assert queue.claim_one("w").fail(*error) is True
    assert live_row(alias, job_id) is None
    text = dead_row(alias, job_id)["last_error"]
    assert queue.get_job(job_id).last_error == text
    return text


# -- 3.9: fail ----------------------------------------------------------------------------


def test_fail_without_an_error(alias, clock, make_queue):
    """3.9 FR-085 Without an error, or with None, the text is `failed`."""
    assert buried_error(alias, make_queue()) == "failed"
    assert buried_error(alias, make_queue(), None) == "failed"


@pytest.mark.parametrize(
    "error",
    [
        "why",
        "",
        " ",
        "failed",
        "None",
        "a\nb\r\n\tc",
        "ünï 队列 🙂",
        "%s %(x)s {y} 'q' \"d\"",
        "\x01\x7f\uffff",
    ],
)
def test_errors_are_kept_verbatim(alias, clock, make_queue, error):
    """3.9 A text is kept to the letter, the empty one too."""
    assert buried_error(alias, make_queue(), error) == error


@pytest.mark.parametrize(
    ("error", "kept"),
    [(ValueError("why"), "why"), (0, "0"), (False, "False"), (b"b", "b'b'"), ([], "[]")],
)
def test_errors_that_are_no_text(alias, clock, make_queue, error, kept):
    """3.9 Only None means the default; what is no str is passed through str()."""
    assert buried_error(alias, make_queue(), error) == kept


@pytest.mark.parametrize("code_point", [0, 0xD800, 0xDBFF, 0xDC00, 0xDFFF], ids=hex)
def test_what_cannot_be_stored_is_replaced(alias, clock, make_queue, code_point):
    """3.9 FR-058 NUL and each lone surrogate becomes U+FFFD."""
    bad = chr(code_point)
    assert (
        buried_error(alias, make_queue(), f"{bad}a{bad}{bad}b{bad}") == "\ufffda\ufffd\ufffdb\ufffd"
    )
    assert buried_error(alias, make_queue(), ValueError(bad)) == "\ufffd"


@pytest.mark.parametrize("character", ["x", "é", "🙂", "\0", "\ud800"])
def test_long_errors_are_cut(alias, clock, make_queue, character):
    """3.9 32,768 characters are kept; what is longer is cut with a mark."""
    kept = character if character.isprintable() else "\ufffd"
    assert buried_error(alias, make_queue(), character * LIMIT) == kept * LIMIT
    for length in (LIMIT + 1, 1_000_000):
        cut = buried_error(alias, make_queue(), character * length)
        mark = cut.lstrip(kept)
        assert mark
        assert LIMIT - 100 < len(cut) <= LIMIT + 100


def test_an_error_that_cannot_be_printed(alias, clock, make_queue):
    """3.9 A failing operation is never itself broken by its error text."""
    assert isinstance(buried_error(alias, make_queue(), Unprintable()), str)


@pytest.mark.parametrize(
    "error", ["boom\0", "\ud800", "x" * 1_000_000, ValueError("x"), Unprintable()]
)
@pytest.mark.parametrize("budget", [1, 2], ids=["spent", "attempts left"])
def test_no_error_breaks_a_retry(alias, clock, make_queue, error, budget):
    """3.9 FR-058 A retry moves the job whatever its error text is; a last one by the same rules."""
    queue = make_queue(max_attempts=budget)
    job_id = queue.enqueue(None)
    assert queue.claim_one("w").retry(error, delay=0) is True
    if budget == 2:
        assert live_row(alias, job_id)["state"] == "pending"
    else:
        assert dead_row(alias, job_id)["last_error"] == buried_error(alias, make_queue(), error)


# -- 3.10: dead storage -----------------------------------------------------------------------


def test_what_the_dead_keep(alias, clock, make_queue):
    """3.10 A dead row keeps id, payload, options, attempts, timestamps and the last worker;
    last_error and died_at come with death."""
    queue = make_queue(visibility_timeout_s=60, max_attempts=7, backoff_base_s=9)
    job_id = queue.enqueue({"a": [1]}, priority=-3, expires=1_000)
    clock.advance(5)
    queue.claim_one("w1").retry(delay=10)
    clock.advance(10)
    handle = queue.claim_one("w2")
    live = live_row(alias, job_id)
    clock.advance(20.75)
    assert handle.fail("why") is True
    for column in ("state", "deadline", "claim_token"):
        del live[column]
    died = {"last_error": "why", "died_at": int(clock.now)}
    assert dead_row(alias, job_id) == live | died
    assert live_row(alias, job_id) is None


def die_by_fail(clock, queue, handle):
    handle.fail()


def die_by_retry(clock, queue, handle):
    handle.retry()


def die_by_lapse(clock, queue, handle):
    clock.advance(11)
    queue.claim_one("burying")


def die_by_expiry(clock, queue, handle):
    clock.advance(50)
    queue.sweep_expired()


@pytest.mark.parametrize("die", [die_by_fail, die_by_retry, die_by_lapse, die_by_expiry])
def test_every_way_to_die_keeps_the_row(alias, clock, make_queue, die):
    """3.10 Whatever killed it, the dead row holds what the live one held."""
    queue = make_queue(visibility_timeout_s=10, max_attempts=1)
    job_id = queue.enqueue("p", priority=2, expires=50)
    clock.advance(0.5)
    handle = queue.claim_one("w")
    live = live_row(alias, job_id)
    die(clock, queue, handle)
    dead = dead_row(alias, job_id)
    assert dead["died_at"] == int(clock.now)
    assert dead.keys() - live.keys() == {"last_error", "died_at"}
    assert {column: live[column] for column in dead.keys() & live.keys()} == {
        column: dead[column] for column in dead.keys() & live.keys()
    }
    assert live.keys() - dead.keys() == {"state", "deadline", "claim_token"}


@pytest.mark.parametrize("codec_payload", [None, "", [], {}, "\0\ud800"])
def test_the_dead_keep_their_payload(alias, clock, make_queue, codec_payload):
    """3.10 The payload comes back as it went in."""
    queue = make_queue()
    job_id = queue.enqueue(codec_payload)
    queue.claim_one("w").fail()
    assert queue.get_job(job_id).payload == codec_payload


def test_the_dead_are_never_met(alias, clock, make_queue):
    """3.10 No claim, ack, cancel or expiry touches a dead job, however late."""
    queue = make_queue(visibility_timeout_s=1)
    job_id = queue.enqueue(None, expires=60, priority=100)
    queue.claim_one("w").fail("why")
    before = dead_row(alias, job_id)
    clock.advance(10**9)
    live = queue.enqueue(None)
    assert [handle.job.id for handle in queue.claim_batch("w", 10)] == [live]
    assert queue.ack_batch([job_id]) == 0
    assert queue.cancel(job_id) is False
    assert queue.sweep_expired() == (0, 0)
    assert dead_row(alias, job_id) == before


def test_ids_of_the_dead_are_not_used_again(alias, clock, make_queue):
    """3.10 FR-003 A job enqueued after a death has a new id, and the dead job keeps its own."""
    queue = make_queue()
    dead = queue.enqueue(None)
    queue.claim_one("w").fail()
    assert queue.enqueue(None) > dead
    assert queue.get_job(dead).state == "dead"
    assert count_dead(alias) == 1


def test_jobs_die_once(alias, clock, make_queue):
    """3.9 A job that failed fails no second time."""
    queue = make_queue()
    job_id = queue.enqueue(None)
    handle = queue.claim_one("w")
    assert handle.fail("first") is True
    before = dead_row(alias, job_id)
    clock.advance(5)
    assert handle.fail("second") is False
    assert dead_row(alias, job_id) == before
