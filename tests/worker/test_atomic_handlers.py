"""Handlers with atomic=True: 7.2, as far as one process can show it."""

import pytest
from django.db import IntegrityError, connections, transaction

from alkstore_django import FailJob, RetryJob
from tests.support.rows import dead_row, live_row
from tests.testapp.models import Note
from tests.worker import sessions


def notes(alias):
    return sorted(Note.objects.using(alias).values_list("text", flat=True))


@pytest.fixture
def atomic_job(alias, make_queue, work):
    """Run one job by an atomic handler; return its id and what the worker did."""

    def run(misdeed, **options):
        queue = make_queue(**options)

        @queue.handler(atomic=True)
        def handle(job):
            Note.objects.using(alias).create(text="written")
            misdeed(alias)

        job_id = queue.enqueue(None)
        return job_id, work(queue)

    return run


def test_effects_and_ack_commit_together(alias, make_queue, work):
    """7.2 The handler's writes and the ack are one transaction: neither is seen before the other."""
    queue = make_queue()
    seen = []

    @queue.handler(atomic=True)
    def handle(job):
        Note.objects.using(alias).create(text="written")
        outside = connections[alias].copy()
        try:
            with outside.cursor() as cursor:
                cursor.execute("SELECT count(*) FROM testapp_note")
                seen.append(cursor.fetchone()[0])
        finally:
            outside.close()
        transaction.on_commit(lambda: seen.append(live_row(alias, job.id)), using=alias)

    job_id = queue.enqueue(None)
    assert work(queue).count("acked") == 1
    assert seen == [0, None]
    assert notes(alias) == ["written"]
    assert live_row(alias, job_id) is None


def fail(alias):
    raise ValueError("no")


def ask_for_a_retry(alias):
    raise RetryJob(delay=60, error="later")


def swallow_an_error(alias):
    note = Note.objects.using(alias).create(text="twice")
    try:
        with connections[alias].cursor() as cursor:
            cursor.execute("INSERT INTO testapp_note (id, text) VALUES (%s, 'twice')", [note.pk])
    except IntegrityError:
        return


def swallow_an_error_of_the_orm(alias):
    note = Note.objects.using(alias).create(text="twice")
    try:
        Note(pk=note.pk, text="twice").save(using=alias, force_insert=True)
    except IntegrityError:
        return


def close_the_connection(alias):
    connections[alias].close()


def close_the_driver_connection(alias):
    connections[alias].connection.close()


def switch_autocommit_off(alias):
    transaction.set_autocommit(False, using=alias)


def never_leave_atomic(alias):
    transaction.atomic(using=alias).__enter__()


def ask_for_a_rollback(alias):
    transaction.set_rollback(True, using=alias)


@pytest.mark.parametrize(
    "misdeed",
    [
        fail,
        ask_for_a_retry,
        swallow_an_error,
        swallow_an_error_of_the_orm,
        close_the_connection,
        close_the_driver_connection,
        switch_autocommit_off,
        never_leave_atomic,
        ask_for_a_rollback,
    ],
    ids=lambda misdeed: misdeed.__name__,
)
def test_a_failed_handler_leaves_nothing(alias, atomic_job, misdeed):
    """7.2 FR-087 What fails, a swallowed database error too, is rolled back whole and retried."""
    job_id, tally = atomic_job(misdeed)
    assert notes(alias) == []
    row = live_row(alias, job_id)
    assert (row["state"], row["attempts"]) == ("pending", 1)
    assert str(tally) == "acked=0 retried=1 died=0 given_back=0 lost=0"


def test_a_final_failure_leaves_nothing(alias, atomic_job):
    """7.2 A handler that buries its job leaves none of its writes."""

    def bury(alias):
        raise FailJob("hopeless")

    job_id, tally = atomic_job(bury)
    assert notes(alias) == []
    assert dead_row(alias, job_id)["last_error"] == "hopeless"
    assert tally.count("died") == 1


def test_an_error_in_its_own_savepoint_costs_that_savepoint(alias, atomic_job):
    """7.2 An error inside an atomic block of the handler's own is no failure of the job."""

    def recover(alias):
        try:
            with transaction.atomic(using=alias):
                swallow = Note.objects.using(alias).create(text="undone")
                Note(pk=swallow.pk, text="again").save(using=alias, force_insert=True)
        except IntegrityError:
            Note.objects.using(alias).create(text="recovered")

    job_id, tally = atomic_job(recover)
    assert notes(alias) == ["recovered", "written"]
    assert live_row(alias, job_id) is None
    assert tally.count("acked") == 1


@pytest.mark.parametrize("error", [ZeroDivisionError("no"), SystemExit(1), KeyboardInterrupt()])
def test_a_hook_that_raises_after_the_commit(alias, atomic_job, caplog, error):
    """7.1 7.2 FR-021 What is committed is done: a broken hook is logged, the job counts as acked."""

    def hook():
        raise error

    def leave_a_broken_hook(alias):
        transaction.on_commit(hook, using=alias)

    job_id, tally = atomic_job(leave_a_broken_hook)
    assert notes(alias) == ["written"]
    assert live_row(alias, job_id) is dead_row(alias, job_id) is None
    assert str(tally) == "acked=1 retried=0 died=0 given_back=0 lost=0"
    assert type(error).__name__ in caplog.text


def test_a_refused_ack_undoes_the_handler(alias, clock, make_queue, work, events):
    """7.2 A handler that outlives its claim is refused, rolled back, and run again."""
    queue = make_queue(visibility_timeout_s=30)
    runs = []

    @queue.handler(atomic=True, heartbeat=False)
    def handle(job):
        runs.append(job.attempts)
        Note.objects.using(alias).create(text=f"run {job.attempts}")
        if job.attempts == 1:
            clock.advance(30)

    job_id = queue.enqueue(None)
    tally = work(queue)
    assert runs == [1, 2]
    assert notes(alias) == ["run 2"]
    assert events.ids("claim_lost") == [job_id]
    assert str(tally) == "acked=1 retried=0 died=0 given_back=0 lost=1"


def test_cancelled_while_it_runs(alias, make_queue, work):
    """7.2 3.11 A handler that cancels its own job has its ack refused: all of it is undone."""
    queue = make_queue()

    @queue.handler(atomic=True)
    def handle(job):
        Note.objects.using(alias).create(text="written")
        assert queue.cancel(job.id)

    job_id = queue.enqueue(None)
    tally = work(queue)
    assert notes(alias) == []
    assert live_row(alias, job_id)["state"] == "processing"
    assert tally.count("lost") == 1


def test_what_it_enqueues_is_part_of_it(alias, make_queue, work):
    """3.1 7.2 Jobs that an atomic handler enqueues exist only if it succeeds."""
    queue, following = make_queue("first"), make_queue("following")
    handled = []
    following.handler(lambda job: handled.append(job.payload))

    @queue.handler(atomic=True)
    def handle(job):
        following.enqueue(job.payload)
        if job.payload == "bad":
            raise ValueError("no")

    queue.enqueue_many(["bad", "good"])
    work(queue, following)
    assert handled == ["good"]


def test_nothing_of_ours_runs_in_its_transaction(alias, make_queue, work):
    """7.3 In an atomic handler's transaction the worker runs the ack, last, and nothing else."""
    queue = make_queue()
    statements = []

    def note(execute, sql, params, many, context):
        statements.append(sql.split("*/")[0].strip("/* "))
        return execute(sql, params, many, context)

    @queue.handler(atomic=True)
    def handle(job):
        connections[alias].execute_wrappers.append(note)
        Note.objects.using(alias).create(text="written")

    queue.enqueue(None)
    work(queue)
    ours = [text for text in statements if text.startswith("alkstore:")]
    assert ours == ["alkstore:ack"]
    assert statements[-1] == "alkstore:ack"


def test_no_transaction_is_open_around_a_plain_handler(alias, make_queue, work):
    """FR-016 7.3 The claim is committed before the handler starts; nothing of ours stays open."""
    queue = make_queue()
    seen = []

    @queue.handler
    def handle(job):
        assert not connections[alias].in_atomic_block
        busy = sessions.after_parting(lambda: sessions.someone_waits_for_us(alias), False)
        outside = queue.get_job(job.id)
        seen.append((busy, outside.state, outside.attempts, outside.worker_id == job.worker_id))

    queue.enqueue(None)
    work(queue, threads=3)
    assert seen == [(False, "processing", 1, True)]
