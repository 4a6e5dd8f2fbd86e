"""``manage.py alkstore_sweep`` and ``alkstore_django.maintenance``: 3.13, FR-080."""

import io
import weakref

import pytest
from django.core.management import CommandError, call_command
from django.db import transaction

from alkstore_django import FailJob, Queue, SweepResult, handlers
from alkstore_django.maintenance import sweep, sweep_handler
from alkstore_django.management.commands import alkstore_sweep
from alkstore_django.testing import drain
from tests.conftest import FROZEN_AT
from tests.support.filling import fill_dead, fill_live, stored
from tests.support.rows import count_dead, count_live

OUTBOX = "__alkstore_outbox_mail"
LATE = f"{FROZEN_AT} - 100"


@pytest.fixture(autouse=True)
def nothing_declared(monkeypatch):
    """Only what a test declares is declared."""
    monkeypatch.setattr(handlers, "_declared", weakref.WeakSet())


@pytest.fixture
def run(alias, clock):
    """Run the command and return the lines that it printed."""

    def command(*arguments, **options):
        out = io.StringIO()
        call_command("alkstore_sweep", *arguments, database=alias, stdout=out, **options)
        return out.getvalue().splitlines()

    return command


class DeclaredOutbox:
    """What the sweep has to know of an outbox."""

    def __init__(self, using):
        self.name, self.using = OUTBOX, using
        self.options = Queue("any").options
        handlers.declare(self)


def dead_queues(alias):
    return sorted(row["queue"] for row in stored(alias, "dead_job"))


def test_all_that_is_declared(alias, run, make_queue):
    """3.13 Each declared queue with its own retention; what was done to each, and in all."""
    kept, short = make_queue("kept"), make_queue("short", dead_letter_retention_s=50)
    long = make_queue("long", dead_letter_retention_s=1_000)
    for place, queue in enumerate((kept, short, long)):
        fill_dead(alias, 3, queue=f"'{queue.name}'", died_at=LATE, id=f"{place}00 - n - 1000")
        if queue is not short:
            fill_live(alias, 2, queue=f"'{queue.name}'", expires_at=f"{FROZEN_AT}")
        fill_live(alias, 1, queue=f"'{queue.name}'", expires_at=f"{FROZEN_AT} + 1")
    assert run() == [
        "  kept: expired=2 purged=0",
        "  long: expired=2 purged=0",
        "  short: expired=0 purged=3",
        "Swept 3 queues: expired=4 purged=3",
    ]
    assert dead_queues(alias) == ["kept"] * 5 + ["long"] * 5
    assert count_live(alias) == 3


def test_some_by_name(alias, run, make_queue):
    """3.13 --queue and --outbox sweep just those, in the order named."""
    queues = [make_queue(name, dead_letter_retention_s=50) for name in ("a", "b", "c")]
    outbox = DeclaredOutbox(alias)
    for n, name in enumerate(["a", "b", "c", OUTBOX]):
        fill_dead(alias, 1, queue=f"'{name}'", died_at=LATE, id=str(n + 1))
    assert run("--queue", "c", "--outbox", "mail", "--queue", "a") == [
        "  c: expired=0 purged=1",
        "  a: expired=0 purged=1",
        "  outbox mail: expired=0 purged=0",
        "Swept 3 queues: expired=0 purged=2",
    ]
    assert dead_queues(alias) == [OUTBOX, "b"]
    assert queues and outbox


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--queue", "recepts"], ["'recepts' is unknown", "Did you mean 'receipts'?"]),
        (["--queue", "other"], ["'other' is unknown", "Known: outbox mail, receipts."]),
        (["--outbox", "mial"], ["'outbox mial' is unknown", "Did you mean 'outbox mail'?"]),
        (["--queue", "never seen", "--retention", "5"], ["'never seen' is unknown"]),
    ],
)
def test_an_unknown_name(alias, run, make_queue, arguments, words):
    """3.13 7.5 A name that nobody knows ends the command, with a suggestion; nothing is swept."""
    declared = make_queue("receipts", dead_letter_retention_s=1), DeclaredOutbox(alias)
    fill_dead(alias, 2, queue="'receipts'", died_at=LATE)
    with pytest.raises(CommandError) as error:
        run(*arguments, "--queue", "receipts")
    assert all(word in str(error.value) for word in words), error.value
    assert count_dead(alias) == 2 and declared


def test_queues_that_are_declared_no_more(alias, run, make_queue):
    """3.13 Their dead are told of, with a bounded count, and stay."""
    declared = make_queue("receipts", dead_letter_retention_s=1)
    fill_dead(alias, 10_001, queue="'old'", died_at=LATE)
    fill_dead(alias, 2, queue=f"'{OUTBOX}'", died_at=LATE, id="n")
    assert run() == [
        "  receipts: expired=0 purged=0",
        "Swept 1 queue: expired=0 purged=0",
        "  outbox mail: not declared any more, dead=2 kept",
        "  old: not declared any more, dead=10000+ kept",
        "Dead jobs of queues that the code declares no more go with --retention.",
    ]
    assert count_dead(alias) == 10_003 and declared


def test_retention_for_what_is_declared_no_more(alias, run, make_queue):
    """3.13 With --retention their dead go, while declared queues keep to their own retention."""
    declared = make_queue("kept")
    fill_dead(alias, 3, queue="'old'", died_at=LATE)
    fill_dead(alias, 2, queue="'old'", died_at=f"{FROZEN_AT} - 10", id="n")
    fill_dead(alias, 1, queue="'kept'", died_at=LATE, id="100")
    assert run("--retention", "50") == [
        "  kept: expired=0 purged=0",
        "  old: expired=0 purged=3",
        "Swept 2 queues: expired=0 purged=3",
    ]
    assert dead_queues(alias) == ["kept", "old", "old"] and declared


def test_retention_for_a_queue_by_name(alias, run, make_queue):
    """3.13 Of a queue that is named it stands in for its own, declared or not."""
    declared = make_queue("kept")
    for n, name in enumerate(["kept", "old", "other"]):
        fill_dead(alias, 1, queue=f"'{name}'", died_at=LATE, id=str(n + 1))
    lines = run("--queue", "kept", "--queue", "old", "--retention", "50")
    assert lines[-1] == "Swept 2 queues: expired=0 purged=2"
    assert dead_queues(alias) == ["other"] and declared


@pytest.mark.parametrize("value", ["0", "-1", "1.5", "soon", "1e3", "9" * 30])
def test_wrong_retentions(capsys, value):
    """3.13 A retention is a whole number of seconds, at least one."""
    with pytest.raises(SystemExit) as stopped:
        alkstore_sweep.Command().run_from_argv(
            ["manage.py", "alkstore_sweep", "--retention", value]
        )
    assert stopped.value.code == 2
    assert "--retention" in capsys.readouterr().err


def test_of_several_handles(alias, clock, make_queue):
    """3.13 2.1 A handle without a retention says nothing; of several retentions the longest counts."""
    handles = [make_queue(dead_letter_retention_s=s) for s in (10, None, 200)]
    fill_dead(alias, 2, died_at=f"{FROZEN_AT} - n * 150")
    assert sweep(using=alias) == {"jobs": SweepResult(0, 1)} and handles


def test_very_many(alias, run, make_queue, sql_log):
    """FR-080 Bounded batches, each committed by itself."""
    declared = make_queue(dead_letter_retention_s=1)
    fill_dead(alias, 2_600, died_at=LATE)
    assert run()[-1] == "Swept 1 queue: expired=0 purged=2600"
    assert len([sql for sql in sql_log if "purge_dead" in sql]) >= 6 and declared


def test_it_is_silent_when_told_so(alias, run, make_queue):
    """3.13 --verbosity 0 prints nothing."""
    declared = make_queue()
    assert run(verbosity=0) == [] and declared


def test_progress_on_a_terminal(alias, clock, make_queue, monkeypatch):
    """3.13 A long sweep shows on a terminal how far it is, and cleans that line up."""
    declared = make_queue(dead_letter_retention_s=1)
    fill_dead(alias, 1_200, died_at=LATE)
    monkeypatch.setattr(alkstore_sweep, "TELL_EVERY_S", 0)
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    call_command("alkstore_sweep", database=alias, stdout=io.StringIO(), stderr=terminal)
    assert "jobs: expired=0 purged=500 ..." in terminal.getvalue()
    assert terminal.getvalue().endswith("\r") and declared


def test_missing_tables(fresh):
    """1.2 Before migrate the command says so in one line."""
    with pytest.raises(CommandError, match="tables of alkstore_django are missing") as error:
        call_command("alkstore_sweep", database=fresh)
    assert f"migrate alkstore_django --database {fresh}" in str(error.value)


def test_an_unknown_alias():
    """1.2 The alias must be one of DATABASES."""
    with pytest.raises(CommandError, match="no alias 'nowhere'"):
        call_command("alkstore_sweep", database="nowhere")


# -- from a job ------------------------------------------------------------------------------


def test_the_ready_handler(alias, clock, make_queue):
    """3.13 A queue with the ready handler sweeps all that is declared, or what its payload names."""
    a, b = (make_queue(name, dead_letter_retention_s=1) for name in "ab")
    maintenance = make_queue("maintenance")
    maintenance.handler(sweep_handler)
    for payload, left in (
        ({"queues": ["a"], "using": alias}, ["b", "c"]),
        ({"using": alias}, ["c"]),
    ):
        for n, name in enumerate("abc"):
            if name not in dead_queues(alias):
                fill_dead(alias, 1, queue=f"'{name}'", died_at=LATE, id=str(n + 1))
        maintenance.enqueue(payload)
        assert drain(maintenance).count("acked") == 1
        assert dead_queues(alias) == left
    assert a and b


@pytest.mark.parametrize("payload", [None, [], {"queue": "a"}, {"queues": ["a"], "all": True}])
def test_a_payload_that_is_no_order_to_sweep(alias, make_queue, payload):
    """3.13 Any other payload is dead at once: to try again would not help."""
    queue = make_queue()
    queue.enqueue(payload)
    with pytest.raises(FailJob, match="payload of a sweep"):
        sweep_handler(queue.claim_one("w").job)


def test_sweep_refuses_what_is_not_declared(alias, clock, make_queue):
    """3.13 A name that is not declared is a LookupError; nothing was swept."""
    declared = make_queue("a", dead_letter_retention_s=1)
    fill_dead(alias, 1, queue="'a'", died_at=LATE)
    with pytest.raises(LookupError, match=r"no queue 'b' is declared .*declared: a"):
        sweep(queues=["a", "b"], using=alias)
    assert count_dead(alias) == 1 and declared


def test_sweep_in_a_transaction(alias, clock, make_queue):
    """3.13 It joins the open transaction."""
    declared = make_queue("a", dead_letter_retention_s=1)
    fill_dead(alias, 1, queue="'a'", died_at=LATE)
    with transaction.atomic(using=alias):
        assert sweep(queues=["a"], using=alias) == {"a": SweepResult(0, 1)}
        transaction.set_rollback(True, using=alias)
    assert count_dead(alias) == 1 and declared
