"""What a handler does costs its own job at most: 7.1, 7.3."""

import asyncio
import threading

import pytest
from django.db import IntegrityError, connections, transaction

from alkstore_django import BYTES
from tests.support.rows import dead_row, live_row
from tests.support.tampering import change_live_row
from tests.testapp.models import Note
from tests.worker import sessions


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("no text")


class OfItsOwnKind(BaseException):
    """Neither an Exception nor one that Python itself has."""


def recurse(depth=0):
    return recurse(depth + 1)


def raising(error):
    def misdeed(alias):
        raise error

    return misdeed


ERRORS = {
    "ValueError": ValueError("no"),
    "SystemExit": SystemExit(3),
    "SystemExit-0": SystemExit(0),
    "KeyboardInterrupt": KeyboardInterrupt(),
    "GeneratorExit": GeneratorExit(),
    "StopIteration": StopIteration("no"),
    "CancelledError": asyncio.CancelledError(),
    "MemoryError": MemoryError(),
    "Unprintable": Unprintable(),
    "OfItsOwnKind": OfItsOwnKind("no"),
    "OperationalError": connections["sqlite"].Database.OperationalError("disk I/O error"),
}


def violate_uniqueness(alias):
    """Make the database refuse a write."""
    note = Note.objects.using(alias).create(text="first")
    Note(pk=note.pk, text="again").save(using=alias, force_insert=True)


# -- misdeeds that end in an ack, and what they leave behind -------------------------------


def return_what_is_not_json(alias):
    return object()


def close_the_connection(alias):
    Note.objects.using(alias).create(text="kept")
    connections[alias].close()


def close_the_driver_connection(alias):
    Note.objects.using(alias).create(text="kept")
    connections[alias].connection.close()


def swallow_an_error(alias):
    try:
        violate_uniqueness(alias)
    except IntegrityError:
        Note.objects.using(alias).create(text="kept")


def swallow_an_error_in_a_transaction(alias):
    with transaction.atomic(using=alias):
        try:
            violate_uniqueness(alias)
        except IntegrityError:
            return


def swallow_an_error_in_its_own_savepoint(alias):
    with transaction.atomic(using=alias):
        try:
            with transaction.atomic(using=alias):
                violate_uniqueness(alias)
        except IntegrityError:
            Note.objects.using(alias).create(text="kept")


def leave_begin_open(alias):
    sessions.begin(alias)
    Note.objects.using(alias).create(text="lost")


def leave_disguised_begin_open(alias):
    sessions.begin_in_disguise(alias)
    Note.objects.using(alias).create(text="lost")


def leave_driver_begin_open(alias):
    sessions.begin_by_driver(alias)
    Note.objects.using(alias).create(text="lost")


def never_leave_atomic(alias):
    transaction.atomic(using=alias).__enter__()
    Note.objects.using(alias).create(text="lost")


def never_leave_two_atomics(alias):
    never_leave_atomic(alias)
    never_leave_atomic(alias)


def switch_autocommit_off(alias):
    transaction.set_autocommit(False, using=alias)
    Note.objects.using(alias).create(text="lost")


def spoil_the_settings(alias):
    sessions.spoil_settings(alias)


def spoil_the_settings_in_disguise(alias):
    sessions.spoil_settings_in_disguise(alias)


def spoil_the_settings_in_a_transaction(alias):
    with transaction.atomic(using=alias):
        sessions.spoil_settings(alias)


def make_the_session_read_only(alias):
    sessions.make_read_only(alias)


ACKED = [
    return_what_is_not_json,
    close_the_connection,
    close_the_driver_connection,
    swallow_an_error,
    swallow_an_error_in_a_transaction,
    swallow_an_error_in_its_own_savepoint,
    leave_begin_open,
    leave_disguised_begin_open,
    leave_driver_begin_open,
    never_leave_atomic,
    never_leave_two_atomics,
    switch_autocommit_off,
    spoil_the_settings,
    spoil_the_settings_in_disguise,
    spoil_the_settings_in_a_transaction,
    make_the_session_read_only,
]


# -- misdeeds that end in a retry ----------------------------------------------------------


def recurse_without_end(alias):
    recurse()


def have_a_broken_on_commit_hook(alias):
    with transaction.atomic(using=alias):
        transaction.on_commit(lambda: 1 / 0, using=alias)


def fail_in_begun_transaction(alias):
    leave_begin_open(alias)
    raise ValueError("no")


def fail_inside_atomic(alias):
    never_leave_atomic(alias)
    raise ValueError("no")


def fail_with_autocommit_off(alias):
    switch_autocommit_off(alias)
    raise ValueError("no")


def fail_with_spoilt_settings(alias):
    sessions.spoil_settings(alias)
    raise ValueError("no")


def fail_on_a_closed_driver_connection(alias):
    close_the_driver_connection(alias)
    Note.objects.using(alias).create(text="lost")


RETRIED = [
    recurse_without_end,
    have_a_broken_on_commit_hook,
    violate_uniqueness,
    fail_in_begun_transaction,
    fail_inside_atomic,
    fail_with_autocommit_off,
    fail_with_spoilt_settings,
    fail_on_a_closed_driver_connection,
]


@pytest.fixture
def beside_another(alias, make_queue, work):
    """Run a misdeed as one job, and after it on the same thread one that writes a row."""

    def run(misdeed, **options):
        queue = make_queue()
        threads = []

        @queue.handler(**options)
        def handle(job):
            threads.append(threading.get_ident())
            if job.payload == "bad":
                return misdeed(alias)
            return Note.objects.using(alias).create(text="next")

        bad = queue.enqueue("bad", priority=1)
        following = queue.enqueue("next")
        tally = work(queue)
        assert len(threads) == 2
        assert len(set(threads)) == 1
        assert live_row(alias, following) is dead_row(alias, following) is None
        assert notes(alias).count("next") == 1
        return bad, tally

    return run


def notes(alias):
    return list(Note.objects.using(alias).order_by("pk").values_list("text", flat=True))


@pytest.mark.parametrize("atomic", [False, True], ids=["plain", "atomic"])
@pytest.mark.parametrize("name", ERRORS)
def test_whatever_is_raised(alias, beside_another, events, name, atomic):
    """7.1 FR-021 FR-030 Whatever a handler raises is its job's failure and no more."""
    bad, tally = beside_another(raising(ERRORS[name]), atomic=atomic)
    row = live_row(alias, bad)
    assert (row["state"], row["attempts"]) == ("pending", 1)
    assert str(tally) == "acked=1 retried=1 died=0 given_back=0 lost=0"
    [told] = events.of("job_retried")
    assert type(ERRORS[name]).__name__ in told["error"]
    assert told["exception"] is ERRORS[name]


@pytest.mark.parametrize("misdeed", RETRIED, ids=lambda misdeed: misdeed.__name__)
def test_a_failing_misdeed(alias, beside_another, events, misdeed):
    """7.3 FR-087 A handler that fails in the midst of a mess is retried, and harms no other."""
    bad, tally = beside_another(misdeed)
    assert live_row(alias, bad)["attempts"] == 1
    assert str(tally) == "acked=1 retried=1 died=0 given_back=0 lost=0"
    assert "lost" not in notes(alias)


@pytest.mark.parametrize("misdeed", ACKED, ids=lambda misdeed: misdeed.__name__)
def test_a_misdeed_that_returns(alias, beside_another, misdeed):
    """7.3 FR-087 A mess that a handler returns from is not handed on; what it left open is gone."""
    bad, tally = beside_another(misdeed)
    assert live_row(alias, bad) is dead_row(alias, bad) is None
    assert str(tally) == "acked=2 retried=0 died=0 given_back=0 lost=0"
    assert "lost" not in notes(alias)
    kept = misdeed in {
        close_the_connection,
        close_the_driver_connection,
        swallow_an_error,
        swallow_an_error_in_its_own_savepoint,
    }
    assert ("kept" in notes(alias)) == kept


def test_a_broken_on_commit_hook_keeps_the_name_of_the_error(alias, beside_another, events):
    """FR-021 An on_commit hook that raises is the job's failure, told with the error's name."""
    beside_another(have_a_broken_on_commit_hook)
    assert "ZeroDivisionError" in events.of("job_retried")[0]["error"]


@pytest.mark.parametrize("text", ["x\x00y", "bad \ud800 \x00 end", "\udfff"])
def test_an_error_text_that_no_database_takes(alias, make_queue, work, text):
    """FR-058 7.1 The failure is recorded whatever its text holds, and the next job is handled."""
    queue = make_queue(max_attempts=1)

    @queue.handler
    def handle(job):
        if job.payload == "bad":
            raise ValueError(text)

    bad, following = queue.enqueue("bad", priority=1), queue.enqueue("next")
    work(queue)
    kept = text.translate(dict.fromkeys((0, 0xD800, 0xDFFF), "\ufffd"))
    assert dead_row(alias, bad)["last_error"] == f"ValueError: {kept}"
    assert live_row(alias, following) is None


def test_a_payload_that_does_not_decode(alias, make_queue, work, events):
    """2.4 FR-062 A payload that does not decode fails its own job, by the curve."""
    queue = make_queue()
    seen = []

    @queue.handler
    def handle(job):
        seen.append(job.payload)

    bad, following = queue.enqueue("bad", priority=1), queue.enqueue("next")
    change_live_row(alias, bad, payload=b"\xff{")
    tally = work(queue)
    assert seen == ["next"]
    row = live_row(alias, bad)
    assert (row["state"], row["attempts"], bytes(row["payload"])) == ("pending", 1, b"\xff{")
    assert row["run_at"] > row["enqueued_at"]
    assert live_row(alias, following) is None
    assert (tally.count("retried"), tally.count("acked")) == (1, 1)
    assert "InvalidPayload" in events.of("job_retried")[0]["error"]


def test_empty_payloads_are_handled_apart(alias, make_queue, work):
    """FR-062 Empty payloads are legal, stay apart from each other, and are handled."""
    json, raw = make_queue("json"), make_queue("raw", codec=BYTES)
    seen = []
    for queue in (json, raw):
        queue.handler(lambda job: seen.append(job.payload))
    for payload in ("", None, {}, [], 0, False):
        json.enqueue(payload)
    raw.enqueue(b"")
    work(json, raw)
    by_kind = sorted((type(payload).__name__, payload) for payload in seen if payload is not None)
    assert by_kind == sorted(
        [("str", ""), ("dict", {}), ("list", []), ("int", 0), ("bool", False), ("bytes", b"")]
    )
    assert seen.count(None) == 1


@pytest.mark.parametrize("misdeed", ACKED + RETRIED, ids=lambda misdeed: misdeed.__name__)
def test_no_mess_outlives_the_worker(alias, make_queue, work, misdeed):
    """7.3 FR-106 After the worker's end no transaction and no session of a handler is left open."""
    before = sessions.open_sessions(alias)
    queue = make_queue(max_attempts=1)
    queue.handler(lambda job: misdeed(alias))
    queue.enqueue(None)
    work(queue)
    assert not sessions.after_parting(lambda: sessions.someone_waits_for_us(alias), False)
    # No more than before: one of an earlier test may have been about to part.
    assert sessions.after_parting(lambda: sessions.open_sessions(alias) <= before, True)
