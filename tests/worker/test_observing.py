"""What is told of a worker's doings, and what is not: 7.6, 7.7."""

import contextlib
import logging
import unittest

import pytest
from django.core.management import call_command
from django.test import TransactionTestCase

from alkstore_django import InvalidPayload, RetryJob, signals
from tests.support.rows import count_dead, count_live
from tests.support.tampering import change_live_row

SECRET = "S3CR3T"


def test_signals_tell_each_outcome(clock, make_queue, work, events):
    """7.7 Each claim is told, and how it ended, with the job and the alias."""
    queue = make_queue(max_attempts=2)

    @queue.handler(heartbeat=False)
    def handle(job):
        if job.payload == "lost":
            clock.advance(300)
        elif job.payload != "done":
            raise ValueError(job.payload)

    done, bad = queue.enqueue("done", priority=9), queue.enqueue("bad", priority=8)
    spent = queue.enqueue("spent", max_attempts=1, priority=7)
    lost = queue.enqueue("lost", max_attempts=1)
    tally = work(queue)
    assert events.ids("job_acked") == [done]
    assert events.ids("job_retried") == [bad]
    assert events.ids("job_died")[0] == spent
    assert events.ids("claim_lost") == [lost]
    assert set(events.ids("job_claimed")) == {done, bad, spent, lost}
    assert all(sent["using"] == queue.using for _, _, sent in events)
    assert tally.as_dict()["jobs"]["lost"] == 1
    assert tally.count("acked", "jobs") == 1
    assert tally.count("acked", "another") == 0


def test_a_receiver_that_raises_hurts_nobody(clock, make_queue, work):
    """7.7 What a receiver of a signal raises is logged and goes no further."""

    def broken(sender, **sent):
        raise RuntimeError("a broken receiver")

    told = [signals.job_claimed, signals.job_acked, signals.job_retried, signals.job_died]
    for signal in told:
        signal.connect(broken)
    queue = make_queue(max_attempts=2)

    @queue.handler
    def handle(job):
        if job.payload == "again" and job.attempts == 1:
            raise RetryJob(delay=0)
        if job.payload == "bad":
            raise ValueError("no")

    try:
        queue.enqueue("again")
        queue.enqueue("bad", max_attempts=1)
        tally = work(queue)
    finally:
        for signal in told:
            signal.disconnect(broken)
    assert str(tally) == "acked=1 retried=1 died=1 given_back=0 lost=0"


def test_log_lines(clock, make_queue, work, caplog):
    """7.7 A failure and a death are logged as errors with their traceback, the rest below."""
    queue = make_queue(max_attempts=2, backoff_base_s=0)

    @queue.handler
    def handle(job):
        if job.payload == "bad":
            raise ValueError("no such order")

    job_id = queue.enqueue("bad")
    queue.enqueue("good")
    with caplog.at_level(logging.DEBUG, "alkstore_django"):
        work(queue)
    errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert [record.getMessage().split(" id=")[0] for record in errors] == [
        "Job retried",
        "Job died",
    ]
    for attempt, record in enumerate(errors, start=1):
        assert record.exc_info[0] is ValueError
        assert (record.job_id, record.queue, record.attempt) == (job_id, "jobs", attempt)
    others = [record for record in caplog.records if record not in errors]
    assert {record.levelno for record in others if "Job" in record.getMessage()} == {logging.DEBUG}


def test_an_idle_drain_logs_nothing(make_queue, work, caplog):
    """FR-154 A worker that finds nothing to do says nothing above DEBUG."""
    queue = make_queue()
    queue.handler(lambda job: None)
    with caplog.at_level(logging.INFO, "alkstore_django"):
        work(queue)
    assert not [record for record in caplog.records if record.name.startswith("alkstore_django")]


@pytest.mark.parametrize("atomic", [False, True], ids=["plain", "atomic"])
def test_payloads_are_told_nowhere(alias, make_queue, work, caplog, capsys, events, atomic):
    """7.7 FR-156 No log line, error text, repr or output of ours shows a payload."""
    queue = make_queue(max_attempts=1)

    @queue.handler(atomic=atomic)
    def handle(job):
        repr(job.payload)
        if job.attempts:
            raise ValueError("no")

    with caplog.at_level(logging.DEBUG, "alkstore_django"):
        queue.enqueue({"token": SECRET})
        broken = queue.enqueue({"token": SECRET})
        change_live_row(alias, broken, payload=b'{"token": "S3CR3T"\xff')
        unknown = queue.enqueue({"token": SECRET})
        change_live_row(alias, unknown, codec="no-such-codec")
        with contextlib.suppress(InvalidPayload):
            queue.enqueue({"token": SECRET, "x": float("nan")})
        spied = queue.enqueue({"token": SECRET}, priority=9)
        handle_ = queue.claim_one("w")
        assert handle_.job.id == spied
        assert SECRET not in repr(handle_) + repr(handle_.job) + str(handle_.job)
        handle_.fail()
        call_command("alkstore_worker", database=alias, drain=True, verbosity=3)
        tally = work(queue)
    assert tally.count("died") == 0
    assert count_dead(alias) == 4
    printed = capsys.readouterr()
    everything = caplog.text + printed.out + printed.err
    everything += "".join(str(record.__dict__) for record in caplog.records)
    everything += "".join(str(sent.get("error")) for _, _, sent in events)
    assert "Job died" in everything
    assert SECRET not in everything
    with pytest.raises(InvalidPayload) as refused:
        queue.enqueue({"token": SECRET, "x": float("nan")})
    assert SECRET not in str(refused.value)
    for job_id in (broken, unknown, spied):
        assert SECRET not in queue.get_job(job_id).last_error


def test_flush_empties_the_store(alias, make_queue, business):
    """7.6 manage.py flush empties the store's tables, and ids go on from where they were."""
    queue = make_queue()
    last = queue.enqueue_many([None] * 3)[-1]
    assert queue.claim_batch("w", 2)[0].fail()
    business.objects.using(alias).create(text="note")
    call_command("flush", database=alias, interactive=False, verbosity=0)
    assert (count_live(alias), count_dead(alias)) == (0, 0)
    assert business.objects.using(alias).count() == 0
    assert queue.enqueue(None) > last


def test_flush_leaves_other_databases_alone(alias, make_queue):
    """7.6 flush empties the store of the database that it is told, and of no other."""
    queue = make_queue()
    queue.enqueue(None)
    call_command("flush", database="default", interactive=False, verbosity=0)
    assert count_live(alias) == 1


def test_a_transaction_test_case_leaves_no_jobs(alias, make_queue):
    """7.6 FR-093 A TransactionTestCase empties the store after each test."""
    queue = make_queue()

    class Case(TransactionTestCase):
        databases = {alias}  # noqa: RUF012

        def test(self):
            queue.enqueue(None)
            assert queue.claim_one("w") is not None
            assert count_live(alias) == 1

    Case.setUpClass()
    try:
        result = unittest.TestResult()
        Case("test")(result)
    finally:
        Case.tearDownClass()
        Case.doClassCleanups()
    assert not result.failures + result.errors
    assert result.testsRun == 1
    assert count_live(alias) == 0
