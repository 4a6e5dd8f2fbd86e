"""Random operations on both engines in lock-step against the model: sections 2 and 3.

After every step each returned value and every stored row must be the model's. The clock of
both stores stands still between the steps.

Environment:
    ALKSTORE_TEST_EXAMPLES  how many runs of 40 steps; 60 by default.
"""

import contextlib
import json
import os
from typing import Any

import pytest
from django.db import connections, transaction
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from alkstore_django import Queue
from alkstore_django.testing import frozen_time
from tests.support.model import SECOND, Model
from tests.support.rows import TABLES
from tests.support.tampering import change_live_row

ALIASES = ("sqlite", "postgres")
START = 1_800_000_000
STAMPS = {  # queue name -> options
    "a": {"visibility_timeout_s": 3, "max_attempts": 3, "backoff_base_s": 2},
    "b": {"visibility_timeout_s": 10, "max_attempts": 2, "backoff_base_s": 0},
}
SHARED = (
    "id, queue, payload, priority, run_at, expires_at, max_attempts, visibility_timeout_s,"
    " backoff_base_s, enqueued_at, attempts, worker_id, claimed_at"
)
COLUMNS = {
    "job": f"{SHARED}, state, deadline, NULL AS last_error, NULL AS died_at",
    "dead_job": f"{SHARED}, 'dead' AS state, NULL AS deadline, last_error, died_at",
}

names = st.sampled_from(["a", "a", "a", "b"])
workers = st.sampled_from(["w1", "w2"])
waits = st.sampled_from([0, 0, 3, 3, 1, 10, 0.25, 0.999_999])
picks = st.integers(0, 31)
errors = st.sampled_from([None, "", "boom"])
enqueue_options = st.sampled_from(
    [
        {},
        {"priority": 7},
        {"priority": -1},
        {"run_at": -100},  # from now
        {"run_at": -0.25, "max_attempts": 1},
        {"run_at": 2.5, "delay": 0},
        {"delay": 0.5, "max_attempts": 1},
        {"delay": 3, "expires": 3.5},
        {"expires": 3},
        {"expires": 8, "priority": 7, "run_at": 1},
    ]
)


def microseconds(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * SECOND)


def stored_rows(alias: str) -> list[dict[str, Any]]:
    """Every row of the store, live and dead, in the order of ids."""
    found = []
    with connections[alias].cursor() as cursor:
        for table, columns in COLUMNS.items():
            cursor.execute(f"SELECT {columns} FROM {TABLES[connections[alias].vendor][table]}")
            names = [column[0] for column in cursor.description]
            found += [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    for row in found:
        row["payload"] = json.loads(bytes(row["payload"]))
    return sorted(found, key=lambda row: row["id"])


def forget_rows(alias: str) -> None:
    with connections[alias].cursor() as cursor:
        for table in COLUMNS:
            cursor.execute(f"DELETE FROM {TABLES[connections[alias].vendor][table]}")


class EnginesAgree(RuleBasedStateMachine):
    """Each rule does one thing to the model and to both stores."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Model(START)
        self.claims: list[tuple[int, int, dict[str, Any]]] = []  # place, number, handles
        self.ids: dict[str, dict[int, int]] = {alias: {} for alias in ALIASES}  # by place
        self.open: list[tuple[list[Any], dict[str, dict[int, int]]]] = []
        self.frozen = contextlib.ExitStack()
        for alias in ALIASES:
            forget_rows(alias)
        self.clocks = [self.frozen.enter_context(frozen_time(a, START)) for a in ALIASES]

    def teardown(self) -> None:
        while self.open:
            self.end_transaction(undo=True)
        self.frozen.close()

    # -- helpers ----------------------------------------------------------------------------

    def queue(self, alias: str, name: str, retention_s: int | None = None) -> Queue:
        return Queue(name, using=alias, dead_letter_retention_s=retention_s, **STAMPS[name])

    def advance(self, seconds: float) -> None:
        """Move the clock on, for the model and for both stores."""
        self.model.now_us += round(seconds * SECOND)
        for clock in self.clocks:
            clock.advance(seconds)

    def same(self, expected: Any, operation: Any) -> None:
        """Run an operation on each store and compare what it returns."""
        for alias in ALIASES:
            assert operation(alias) == expected, alias

    def places(self) -> list[int]:
        """The jobs whose enqueue stands, those still stored first; an undone one has no id."""
        return sorted(self.ids[ALIASES[0]], key=lambda place: place not in self.model.jobs)[:8]

    def a_place(self, pick: int) -> int:
        places = self.places()
        return places[pick % len(places)]

    def a_claim(self, pick: int, after: float = 0) -> tuple[int, int, dict[str, Any]]:
        """One of the latest claims, every other time one that was held before ``after``."""
        held = [claim for claim in self.claims if self.model.holds(*claim[:2])]
        pool = held if held and pick % 2 else self.claims[-5:]
        self.advance(after)
        return pool[pick // 2 % len(pool)]

    def record(self, alias: str, place: int, job_id: int) -> None:
        assert job_id > max(self.ids[alias].values(), default=0), f"1.5 ids grow ({alias})"
        self.ids[alias][place] = job_id

    def as_model_row(self, alias: str, job: Any) -> dict[str, Any]:
        """A public Job as the model shows it."""
        place = {job_id: place for place, job_id in self.ids[alias].items()}[job.id]
        row = {name: getattr(job, name) for name in self.model.jobs[place].row() if name != "place"}
        for name, value in row.items():
            if hasattr(value, "timestamp"):
                row[name] = int(value.timestamp())
        return row | {"place": place}

    # -- operations -------------------------------------------------------------------------

    @initialize()
    def begin_with_some(self) -> None:
        """Three jobs of one queue, so that there is something to do from the first step on."""
        self.enqueue("a", 3, {})

    @rule(name=names, n=st.sampled_from([None, None, 2, 4]), options=enqueue_options)
    def enqueue(self, name: str, n: int | None, options: dict[str, Any]) -> None:
        """One job, or n by enqueue_many."""
        options = dict(options)
        if "run_at" in options:
            options["run_at"] += self.model.now_us / SECOND
        stamps = STAMPS[name] | {
            "max_attempts": options.get("max_attempts", STAMPS[name]["max_attempts"])
        }
        payloads = [[self.model.places + i] for i in range(n or 1)]
        places = [
            self.model.enqueue(
                name,
                payload,
                priority=options.get("priority", 0),
                delay_us=microseconds(options.get("delay")),
                run_at_us=microseconds(options.get("run_at")),
                expires_us=microseconds(options.get("expires")),
                **stamps,
            )
            for payload in payloads
        ]
        for alias in ALIASES:
            queue = self.queue(alias, name)
            if n is None:
                job_ids = [queue.enqueue(payloads[0], **options)]
            else:
                job_ids = queue.enqueue_many(payloads, **options)
            for place, job_id in zip(places, job_ids, strict=True):
                self.record(alias, place, job_id)

    @precondition(lambda self: self.model.any_live())
    @rule(name=names, worker_id=workers, after=waits)
    def claim_one(self, name: str, worker_id: str, after: float) -> None:
        self.advance(after)
        self.take(name, worker_id, None)

    @precondition(lambda self: self.model.any_live())
    @rule(name=names, worker_id=workers, n=st.sampled_from([1, 2, 5]), after=waits)
    def claim_batch(self, name: str, worker_id: str, n: int, after: float) -> None:
        self.advance(after)
        self.take(name, worker_id, n)

    def take(self, name: str, worker_id: str, n: int | None) -> None:
        """Claim on all, by claim_one if n is None; keep the handles."""
        expected = self.model.claim(name, worker_id, 1 if n is None else n)
        handles = {}
        for alias in ALIASES:
            queue = self.queue(alias, name)
            if n is None:
                one = queue.claim_one(worker_id)
                handles[alias] = [] if one is None else [one]
            else:
                handles[alias] = queue.claim_batch(worker_id, n)
            seen = [self.as_model_row(alias, handle.job) for handle in handles[alias]]
            assert seen == [job.row() for job in expected], alias
        for i, job in enumerate(expected):
            claimed = {alias: handles[alias][i] for alias in ALIASES}
            self.claims.append((job.place, job.claim, claimed))

    @precondition(lambda self: self.claims)
    @rule(pick=picks, after=waits)
    def ack(self, pick: int, after: float) -> None:
        place, number, handles = self.a_claim(pick, after)
        self.same(self.model.ack(place, number), lambda alias: handles[alias].ack())

    @precondition(lambda self: self.claims)
    @rule(pick=picks, after=waits, error=errors, delay=st.sampled_from([None, None, 0, 1.5]))
    def retry(self, pick: int, after: float, error: str | None, delay: float | None) -> None:
        place, number, handles = self.a_claim(pick, after)
        expected = self.model.retry(place, number, error, microseconds(delay))
        self.same(expected, lambda alias: handles[alias].retry(error, delay))
        if expected and delay is None and self.model.jobs[place].state == "pending":
            self.adopt_wait(place)

    def adopt_wait(self, place: int) -> None:
        """Check the waits that the engines drew, and go on with the first one's on both."""
        job = self.model.jobs[place]
        allowed = {
            -(-(self.model.now_us + wait * SECOND) // SECOND)
            for wait in self.model.allowed_waits(job)
        }
        drawn = {alias: self.stored(alias, place)["run_at"] for alias in ALIASES}
        assert set(drawn.values()) <= allowed, f"3.8 {drawn} not in {sorted(allowed)}"
        job.run_at = drawn[ALIASES[0]]
        for alias in ALIASES[1:]:
            change_live_row(alias, self.ids[alias][place], run_at=job.run_at)

    def stored(self, alias: str, place: int) -> dict[str, Any]:
        job_id = self.ids[alias][place]
        return next(row for row in stored_rows(alias) if row["id"] == job_id)

    @precondition(lambda self: self.claims)
    @rule(pick=picks, after=waits, error=errors)
    def fail(self, pick: int, after: float, error: str | None) -> None:
        place, number, handles = self.a_claim(pick, after)
        self.same(self.model.fail(place, number, error), lambda alias: handles[alias].fail(error))

    @precondition(lambda self: self.claims)
    @rule(pick=picks, after=waits, extend=st.sampled_from([1, 2.5, 20]))
    def heartbeat(self, pick: int, after: float, extend: float) -> None:
        place, number, handles = self.a_claim(pick, after)
        expected = self.model.heartbeat(place, number, microseconds(extend))
        self.same(expected, lambda alias: handles[alias].heartbeat(extend))

    @precondition(lambda self: self.claims and self.places())
    @rule(name=names, by_handle=st.lists(picks, max_size=3), by_id=st.lists(picks, max_size=3))
    def ack_batch(self, name: str, by_handle: list[int], by_id: list[int]) -> None:
        """By handles, by ids, by both at once."""
        claimed = [self.a_claim(pick) for pick in by_handle]
        named = [self.a_place(pick) for pick in by_id]
        distinct = {(place, number) for place, number, _ in claimed}
        expected = sum(self.model.ack(place, number) for place, number in distinct)
        expected += self.model.ack_ids(named)

        def operation(alias: str) -> int:
            handles = [handles[alias] for _, _, handles in claimed]
            job_ids = [self.ids[alias][place] for place in named]
            return self.queue(alias, name).ack_batch([*job_ids, *handles])

        self.same(expected, operation)

    @precondition(lambda self: self.places())
    @rule(name=names, pick=picks, cancel=st.sampled_from([False, False, True]))
    def read(self, name: str, pick: int, cancel: bool) -> None:
        """get_job, and a cancel after it now and then; the queue's name plays no part."""
        place = self.a_place(pick)
        job = self.model.jobs.get(place)

        def get_job(alias: str) -> dict[str, Any]:
            found = self.queue(alias, name).get_job(self.ids[alias][place])
            return {} if found is None else self.as_model_row(alias, found)

        self.same({} if job is None else job.row(), get_job)
        if cancel:
            self.same(
                self.model.cancel(place),
                lambda alias: self.queue(alias, name).cancel(self.ids[alias][place]),
            )

    @precondition(lambda self: self.model.any_to_sweep())
    @rule(name=names, retention_s=st.sampled_from([None, 1, 3]), after=waits)
    def sweep(self, name: str, retention_s: int | None, after: float) -> None:
        self.advance(after)
        self.same(
            self.model.sweep(name, retention_s),
            lambda alias: self.queue(alias, name, retention_s).sweep_expired(),
        )

    # -- transactions -----------------------------------------------------------------------

    @precondition(lambda self: len(self.open) < 2)
    @rule()
    def begin(self) -> None:
        """Open a transaction on both; inside one, a savepoint."""
        blocks = [transaction.atomic(using=alias) for alias in ALIASES]
        for block in blocks:
            block.__enter__()
        self.open.append((blocks, {alias: dict(ids) for alias, ids in self.ids.items()}))
        self.model.begin()

    @precondition(lambda self: self.open)
    @rule(undo=st.booleans())
    def end_transaction(self, undo: bool) -> None:
        """Commit or roll back the innermost one; undone ids do not count as used."""
        blocks, ids = self.open.pop()
        for alias, block in zip(ALIASES, blocks, strict=True):
            if undo:
                transaction.set_rollback(True, using=alias)
            block.__exit__(None, None, None)
        if undo:
            self.ids = ids
            self.model.roll_back()
        else:
            self.model.commit()

    # -- after every step -------------------------------------------------------------------

    @invariant()
    def every_row_is_the_models(self) -> None:
        expected = self.model.rows()
        for alias in ALIASES:
            places = {job_id: place for place, job_id in self.ids[alias].items()}
            rows = [row | {"place": places[row.pop("id")]} for row in stored_rows(alias)]
            assert rows == expected, alias


@pytest.fixture
def both_stores(django_db_setup: None, django_db_blocker: Any) -> Any:
    """Real commits on both aliases, and empty tables before and after."""
    with django_db_blocker.unblock():
        yield
        for alias in ALIASES:
            forget_rows(alias)


def test_engines_agree(both_stores: None) -> None:
    """3 Both engines do to the letter what the model of the contract does."""
    examples = int(os.environ.get("ALKSTORE_TEST_EXAMPLES", "60"))
    run_state_machine_as_test(
        EnginesAgree,
        settings=settings(
            max_examples=examples,
            stateful_step_count=40,
            deadline=None,
            derandomize=bool(os.environ.get("CI")),
            suppress_health_check=list(HealthCheck),
        ),
    )
