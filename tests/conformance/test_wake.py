"""Wakes: section 6, and what 3.1 says of them.

Every wait has an end that fails loudly; the short ones are where nothing may come.
"""

import contextlib
import math
import threading

import pytest
from django.db import connections, transaction

from alkstore_django import InvalidOptions
from alkstore_django.engines.registry import engine_for
from tests.core.hostile import BAD_LENGTHS, GOOD_NAMES, cases
from tests.support.rows import count_live
from tests.support.transactions import rolled_back

PATIENCE_S = 30
NOTHING_S = 0.15


def quiet(listener):
    """Take what has come so far, until nothing comes."""
    while listener.wait(NOTHING_S):
        pass


@contextlib.contextmanager
def thread_of(alias, function):
    """Run a function in a thread of its own while the block runs; fail with it, or if it hangs."""
    errors = []

    def run():
        try:
            function()
        except BaseException as error:
            errors.append(error)
        finally:
            connections[alias].close()

    thread = threading.Thread(target=run)
    thread.start()
    yield
    thread.join(PATIENCE_S)
    assert not thread.is_alive(), "the thread hangs"
    if errors:
        raise errors[0]


# -- after the commit, never before ---------------------------------------------------------------


def test_an_enqueue_wakes(make_queue):
    """6.1 6.4 wait returns True on a wake."""
    queue = make_queue()
    with queue.listen() as listener:
        queue.enqueue({})
        assert listener.wait(PATIENCE_S) is True


def test_an_enqueue_of_many_wakes(make_queue):
    """3.2 6.1 The same guarantees for many."""
    queue = make_queue()
    with queue.listen() as listener:
        queue.enqueue_many([{}, {}])
        assert listener.wait(PATIENCE_S) is True


def test_a_wake_follows_the_commit_never_before_it(alias, make_queue):
    """3.1 FR-089 Nothing before the outermost commit, then the wake."""
    queue = make_queue()
    with queue.listen() as listener:
        quiet(listener)
        with transaction.atomic(using=alias):
            with transaction.atomic(using=alias):
                queue.enqueue({})
            assert listener.wait(NOTHING_S) is False
        assert listener.wait(PATIENCE_S) is True


def test_a_rollback_wakes_nobody(alias, make_queue):
    """3.1 FR-089 No commit, no wake."""
    queue = make_queue()
    with queue.listen() as listener:
        quiet(listener)
        with rolled_back(alias):
            queue.enqueue({})
        assert listener.wait(NOTHING_S) is False
        assert count_live(alias) == 0


def test_a_savepoints_wake_is_not_lost_with_another_savepoint(alias, make_queue):
    """3.1 The job that commits is announced, whatever was rolled back before and after it."""
    queue = make_queue()
    with queue.listen() as listener:
        quiet(listener)
        with transaction.atomic(using=alias):
            with rolled_back(alias):
                queue.enqueue({})
            with transaction.atomic(using=alias):
                queue.enqueue({})
            with rolled_back(alias):
                queue.enqueue({})
        assert listener.wait(PATIENCE_S) is True


def test_a_job_after_a_rolled_back_transaction_is_announced(alias, make_queue):
    """3.1 What one transaction noted does not silence the next."""
    queue = make_queue()
    with queue.listen() as listener:
        for _ in range(3):
            with rolled_back(alias):
                queue.enqueue({})
            quiet(listener)
            with transaction.atomic(using=alias):
                queue.enqueue({})
            assert listener.wait(PATIENCE_S) is True


def test_the_woken_finds_the_job(make_queue):
    """6.1 A wake makes a waiting claimant claim now."""
    queue = make_queue()
    with queue.listen() as listener:
        quiet(listener)
        job_id = queue.enqueue({})
        assert listener.wait(PATIENCE_S)
        assert queue.claim_one("worker").job.id == job_id


# -- listening ------------------------------------------------------------------------------------


def test_a_commit_between_listen_and_wait_is_not_missed(alias, make_queue):
    """6.4 FR-037 Listening is effective when listen() is entered."""
    queue = make_queue()
    for _ in range(10):
        with queue.listen() as listener:
            with thread_of(alias, lambda: queue.enqueue({})):
                pass
            assert listener.wait(PATIENCE_S) is True


def test_a_wake_between_two_waits_is_kept(alias, make_queue):
    """6.4 Kept until asked for, and several collapse into a few."""
    queue = make_queue()
    with queue.listen() as listener:
        quiet(listener)
        for _ in range(20):
            queue.enqueue({})
        taken = 0
        while listener.wait(NOTHING_S):
            taken += 1
        assert 1 <= taken <= 20


def test_time_over_is_false(make_queue):
    """6.4 False when the time is over, at once for 0."""
    with make_queue().listen() as listener:
        quiet(listener)
        assert listener.wait(0) is False
        assert listener.wait(0.01) is False


def test_a_blocked_wait_is_woken_by_another_thread(alias, make_queue):
    """6.1 FR-133 A waiter in one thread, an enqueue in another."""
    queue = make_queue()
    waiting, woken = threading.Event(), threading.Event()

    def wait():
        with queue.listen() as listener:
            waiting.set()
            if listener.wait(PATIENCE_S):
                woken.set()

    with thread_of(alias, wait):
        assert waiting.wait(PATIENCE_S)
        queue.enqueue({})
        assert woken.wait(PATIENCE_S)


def test_every_waiter_of_a_queue_is_woken(alias, make_queue):
    """6.2 6.3 Fanned out to all waiters of the process."""
    queue = make_queue()
    ready = threading.Barrier(6)
    woken = []

    def wait():
        with queue.listen() as listener:
            ready.wait(PATIENCE_S)
            woken.append(listener.wait(PATIENCE_S))

    with contextlib.ExitStack() as threads:
        for _ in range(5):
            threads.enter_context(thread_of(alias, wait))
        ready.wait(PATIENCE_S)
        queue.enqueue({})
    assert woken == [True] * 5


def test_queues_are_listened_to_side_by_side(make_queue):
    """6.2 Several queues at once in one thread, coming and going."""
    first, second = make_queue("first"), make_queue("second")
    with first.listen() as one:
        with second.listen() as two:
            quiet(one), quiet(two)
            first.enqueue({})
            assert one.wait(PATIENCE_S) is True
            second.enqueue({})
            assert two.wait(PATIENCE_S) is True
        quiet(one)
        first.enqueue({})
        assert one.wait(PATIENCE_S) is True


@pytest.mark.parametrize("name", cases(GOOD_NAMES))
def test_every_legal_name_wakes(make_queue, name):
    """6.2 FR-066 Whatever the name's length and characters."""
    queue = make_queue(name)
    with queue.listen() as listener:
        quiet(listener)
        queue.enqueue({})
        assert listener.wait(PATIENCE_S) is True


def test_listening_ends_with_the_block(alias, make_queue):
    """6.2 6.3 No thread of ours is left when nobody listens, and listening works again."""
    queue = make_queue()
    before = set(threading.enumerate())
    for _ in range(3):
        with pytest.raises(LookupError), queue.listen():
            raise LookupError
        assert set(threading.enumerate()) <= before
    with queue.listen() as listener:
        queue.enqueue({})
        assert listener.wait(PATIENCE_S)


@pytest.mark.parametrize("timeout", cases(BAD_LENGTHS))
def test_a_bad_timeout_is_refused(make_queue, timeout):
    """2.3 Lengths of time are int, finite float or timedelta, at least 0."""
    with make_queue().listen() as listener, pytest.raises(InvalidOptions):
        listener.wait(timeout)


def test_a_long_legal_timeout_is_no_error(make_queue):
    """2.3 What is accepted as a length also works as a timeout."""
    queue = make_queue()
    with queue.listen() as listener:
        queue.enqueue({})
        assert listener.wait(math.ceil(1e11)) is True


# -- only a hint ----------------------------------------------------------------------------------


def test_correctness_never_depends_on_a_wake(alias, make_queue, monkeypatch):
    """6.1 Without any wake the jobs are stored and claimed all the same."""
    monkeypatch.setattr(type(engine_for(alias)), "wake", lambda self, queue: None)
    queue = make_queue()
    with transaction.atomic(using=alias):
        job_id = queue.enqueue({})
    assert [handle.job.id for handle in queue.claim_batch("worker", 5)] == [job_id]
    other_id = queue.enqueue({})
    assert queue.claim_one("worker").job.id == other_id


def test_a_failing_hook_of_the_callers_takes_no_job_away(alias, make_queue):
    """3.1 Another on_commit hook that raises does not undo the commit."""
    queue = make_queue()
    with pytest.raises(ZeroDivisionError), transaction.atomic(using=alias):
        transaction.on_commit(lambda: 1 / 0, using=alias)
        job_id = queue.enqueue({})
    assert queue.claim_one("worker").job.id == job_id
