"""A worker that stops before or after any of its statements, while another claims: issue 3."""

import threading
from contextlib import ExitStack
from dataclasses import dataclass, field

import pytest
from django.db import connections, transaction

from alkstore_django import FailJob, Queue, StopToken
from alkstore_django.engines.registry import engine_for
from alkstore_django.handlers import handlers_on
from alkstore_django.models import Job
from alkstore_django.worker.loop import Worker
from alkstore_django.worker.options import WorkerOptions
from tests.support.pausing import standing_still, working
from tests.support.rows import count_dead, count_live, dead_row, live_row
from tests.support.tampering import without_fence
from tests.support.waiting import eventually
from tests.testapp.models import Note

VISIBILITY_S = 10
N_JOBS = 3
ENOUGH_STATEMENTS = 12  # with so many more, a worker has sent whatever it had on its mind
SHORT_S = 0.1

SCENARIOS = {
    "ack": {"has_ready", "claim", "claim_ahead", "ack", "ack_free", "has_spent"},
    "atomic": {"has_ready", "claim", "claim_ahead", "ack", "has_spent"},
    "retry": {"claim", "claim_ahead", "retry", "has_spent"},
    "fail": {"claim", "claim_ahead", "bury", "clock"},
    "renew": {"renew"},
    "give back": {"give_back"},
}
"""What is done, and the statements at which the worker is stopped; not every engine has each."""


@dataclass
class Scene:
    """A queue, a worker on it, and what handlers have done."""

    alias: str
    queue: Queue
    kind: str
    runs: list[int] = field(default_factory=list)
    renewed: threading.Event = field(default_factory=threading.Event)
    stop: StopToken = field(default_factory=StopToken)
    stop_now: StopToken = field(default_factory=StopToken)

    def register(self):
        """Register the handler of this kind."""
        self.queue.handler(atomic=self.kind == "atomic")(self.handle)

    def handle(self, job):
        self.runs.append(job.id)
        if self.kind == "atomic":
            Note.objects.using(self.alias).create(text=f"effect {job.id}")
        if self.kind == "retry" and job.attempts == 1:
            raise RuntimeError("once more")
        if self.kind == "fail":
            raise FailJob("of no use")
        if self.kind == "renew":
            self.renewed.wait(SHORT_S)  # long enough for a renewal of its claim
        if self.kind == "give back" and not self.stop.stopped:
            self.stop.stop()
            self.stop_now.stop()
            self.renewed.wait(SHORT_S)

    def worker(self):
        """Return a worker for the queue."""
        handler = handlers_on(self.alias)[self.queue.name]
        options = WorkerOptions(
            threads=2, poll_interval_s=0.05, heartbeat_interval_s=0.02, shutdown_timeout_s=0
        )
        return Worker(
            Job.objects.db_manager(self.alias),
            [handler],
            options,
            stop=self.stop,
            stop_now=self.stop_now,
        )

    @property
    def is_over(self):
        """Whether the worker has done all that this scene is about."""
        if self.kind == "give back":
            return self.stop.stopped
        return count_live(self.alias) == 0


@pytest.fixture
def make_scene(alias, make_queue):
    """Make scenes, each with a queue of its own."""
    made = []

    def make(kind):
        queue = make_queue(f"{kind}-{len(made)}", visibility_timeout_s=VISIBILITY_S, max_attempts=9)
        made.append(Scene(alias, queue, kind))
        made[-1].register()
        return made[-1]

    return make


@pytest.mark.parametrize("kind", SCENARIOS)
def test_a_pause_at_every_statement(alias, clock, make_scene, kind):
    """3.5 7.2 7.4 Issue 3: a worker stops before and after every statement of claim, settle, renew
    and give back, until its claims have lapsed and another has claimed; then it goes on."""
    points = points_of(alias, clock, make_scene(kind))
    reclaimed = {point: pause(alias, clock, make_scene(kind), point) for point in points}
    stopped = [point for point, n in reclaimed.items() if n is not None]
    assert len(stopped) > len(points) / 2, f"stopped only at {stopped}"
    assert any(reclaimed.values()), "the other never claimed what the worker had"


SPOILT = {"retry": ("retry", 0, "before"), "give back": ("give_back", 0, "before")}


@pytest.mark.parametrize("kind", SPOILT)
def test_the_same_without_the_fence(alias, clock, make_scene, kind):
    """3.5 Issue 3: with the token taken out of the statements, the pauses show that it is missing."""
    with without_fence(alias), pytest.raises(AssertionError):
        pause(alias, clock, make_scene(kind), SPOILT[kind])


def points_of(alias, clock, scene):
    """Run the scene without a stop, and return the points that it passes."""
    scene.queue.enqueue_many([None] * N_JOBS)
    with standing_still(alias) as standstill, working(scene.worker(), standstill) as thread:
        finish(clock, scene, thread)
    wipe(alias)
    found = {point for point in standstill.passed if point[0] in SCENARIOS[scene.kind]}
    return sorted(point for point in found if point[1] < 2)  # the later ones are like the second


def pause(alias, clock, scene, point):
    """Stop the worker at the point, let its claims lapse and another claim; check what became.

    Returns how many jobs the other claimed; None if the worker never came to the point.
    """
    ids = scene.queue.enqueue_many([None] * N_JOBS)
    with ExitStack() as stack:
        standstill = stack.enter_context(standing_still(alias, point))
        thread = stack.enter_context(working(scene.worker(), standstill))
        if not reached(clock, scene, standstill, thread):
            wipe(alias)
            return None
        clock.advance(VISIBILITY_S + 1)
        other = Other(scene)
        standstill.resume()
        handles = other.handles()
        stack.callback(other.close)
        check_untouched(alias, standstill, handles, thread)
        for handle in handles:
            with transaction.atomic(using=alias):
                if scene.kind == "atomic":
                    Note.objects.using(alias).create(text=f"effect {handle.job.id}")
                assert handle.ack(), f"{point}: the other's claim was spoilt"
        finish(clock, scene, thread)
    check_effects(alias, scene, ids, handles, point)
    wipe(alias)
    return len(handles)


class Other:
    """Another claimant, in a thread: on some databases it has to wait until the worker goes on."""

    def __init__(self, scene):
        self._scene = scene
        self._handles = []
        self._thread = threading.Thread(target=self._claim, name="the-other")
        self._thread.start()
        self._thread.join(SHORT_S)

    def _claim(self):
        try:
            self._handles = self._scene.queue.claim_batch("other", N_JOBS)
        finally:
            connections.close_all()

    def handles(self):
        """Return the handles that it got."""
        self._thread.join()
        return self._handles

    def close(self):
        self._thread.join()


def reached(clock, scene, standstill, thread):
    """Wait until the worker stands still; False if it has done everything without that."""

    def is_settled():
        make_retries_due(clock, scene)
        return standstill.reached.is_set() or scene.is_over or not thread.is_alive()

    eventually(is_settled)
    return standstill.reached.wait(SHORT_S)


def check_untouched(alias, standstill, handles, thread):
    """The worker goes on: nothing that it still sends changes a claim that is the other's."""
    before = {handle.job.id: live_row(alias, handle.job.id) for handle in handles}
    assert all(row and row["worker_id"] == "other" for row in before.values()), before
    passed = len(standstill.passed) + ENOUGH_STATEMENTS
    eventually(lambda: len(standstill.passed) > passed or not thread.is_alive())
    assert {job_id: live_row(alias, job_id) for job_id in before} == before


def finish(clock, scene, thread):
    """Let the worker do what is left."""

    def is_finished():
        make_retries_due(clock, scene)
        return scene.is_over or not thread.is_alive()

    eventually(is_finished)


def make_retries_due(clock, scene):
    """Let what is to run again be due, once nothing runs."""
    live = Job.objects.using(scene.alias).filter(queue=scene.queue.name)
    if scene.kind == "retry" and not live.filter(state="processing").exists():
        clock.advance(600)


def check_effects(alias, scene, ids, handles, point):
    """Nothing is lost, nothing is done twice that must not be."""
    others = {handle.job.id for handle in handles}
    if scene.kind == "give back":
        for job_id in set(ids) - others:
            row = live_row(alias, job_id)
            assert row is None or row["attempts"] <= 1, (point, row)
        assert not [job_id for job_id in ids if dead_row(alias, job_id)], point
        return
    assert count_live(alias) == 0, point
    assert set(ids) <= set(scene.runs) | others, f"{point}: lost"
    if scene.kind == "fail":
        assert {job_id for job_id in ids if dead_row(alias, job_id)} == set(ids) - others, point
    else:
        assert count_dead(alias) == 0, point
    if scene.kind == "atomic":
        notes = Note.objects.using(alias).values_list("text", flat=True)
        assert sorted(notes) == sorted(f"effect {job_id}" for job_id in ids), point


def wipe(alias):
    """Leave nothing to the next point."""
    Note.objects.using(alias).all().delete()
    engine_for(alias).empty()
