"""``manage.py alkstore_worker``: 7.1, 7.5, FR-007."""

import io
import signal
import threading

import pytest
from django.core.management import CommandError, call_command
from django.db import connections

from alkstore_django.engines.registry import engine_for
from alkstore_django.management.commands.alkstore_worker import Command
from tests.support.processes import manage, run_python
from tests.support.rows import count_live, live_row
from tests.support.transactions import rolled_back
from tests.worker import sessions

OPTIONS = [
    "--queue",
    "--threads",
    "--database",
    "--drain",
    "--worker-id",
    "--shutdown-timeout",
    "--poll-interval",
    "--heartbeat-interval",
]


@pytest.fixture
def command(alias):
    """Run the command, draining, and return what it printed."""

    def run(*arguments, **options):
        out = io.StringIO()
        call_command(
            "alkstore_worker", *arguments, database=alias, drain=True, stdout=out, **options
        )
        return out.getvalue()

    return run


def test_help_tells_all_options():
    """FR-007 7.1 Every limit that changes delivery can be set from the command, and --help tells it."""
    text = Command().create_parser("manage.py", "alkstore_worker").format_help()
    for option in OPTIONS:
        assert option in text
    for default in ("default: 4", "default: 30"):
        assert default in text


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--threads", "0"),
        ("--threads", "-1"),
        ("--threads", "two"),
        ("--threads", "1.5"),
        ("--threads", "100000"),
        ("--shutdown-timeout", "-1"),
        ("--shutdown-timeout", "nan"),
        ("--shutdown-timeout", "inf"),
        ("--shutdown-timeout", "soon"),
        ("--poll-interval", "0"),
        ("--poll-interval", "-2"),
        ("--poll-interval", "nan"),
        ("--poll-interval", "1e9"),
        ("--heartbeat-interval", "0"),
        ("--heartbeat-interval", "-1"),
        ("--worker-id", ""),
        ("--worker-id", "w" * 201),
        ("--queue", None),
    ],
)
def test_wrong_values_are_refused(capsys, option, value):
    """FR-007 A value that is out of bounds ends the command with exit code 2 and names the option."""
    arguments = [option] if value is None else [option, value]
    with pytest.raises(SystemExit) as stopped:
        Command().run_from_argv(["manage.py", "alkstore_worker", *arguments])
    assert stopped.value.code == 2
    assert option in capsys.readouterr().err


def test_a_wrong_value_in_a_real_process():
    """FR-007 The process itself ends with exit code 2, without a traceback."""
    done = manage("alkstore_worker", "--threads", "0", check=False)
    assert done.returncode == 2
    assert "--threads" in done.stderr
    assert "Traceback" not in done.stderr


def test_what_it_says_at_the_start(alias, make_queue, command):
    """7.1 FR-007 The start-up lines tell who serves what, on which engine, with which limits."""
    first = make_queue("first", visibility_timeout_s=77, max_attempts=9)
    second = make_queue("second")
    first.handler(lambda job: None, atomic=True)
    second.handler(lambda job: None, heartbeat=False, timeout_s=12)
    text = command(
        worker_id="the-worker",
        threads=3,
        poll_interval=0.25,
        heartbeat_interval=2.5,
        shutdown_timeout=7.0,
    )
    for told in (
        "the-worker",
        engine_for(alias).display_name,
        alias,
        "first",
        "second",
        "threads=3",
        "poll_interval=0.25s",
        "heartbeat_interval=2.5s",
        "shutdown_timeout=7s",
        "visibility_timeout=77s",
        "max_attempts=9",
        "atomic=True",
        "heartbeat=False",
        "timeout=12s",
        f"{__name__}.test_what_it_says_at_the_start",
    ):
        assert told in text, told


def test_what_it_says_at_the_end(make_queue, command):
    """7.1 The summary tells what was done, what failed, and what is left, per queue."""
    queue, other = make_queue("mixed", max_attempts=1), make_queue("other")
    other.handler(lambda job: None)

    @queue.handler
    def handle(job):
        if job.payload:
            raise ValueError("no")

    queue.enqueue_many([None, "bad", None])
    other.enqueue(None)
    queue.enqueue(None, delay=3600)
    queue.enqueue(None, delay=3600)
    last = command().splitlines()[-3:]
    assert "acked=3 retried=0 died=1 given_back=0 lost=0 left=2" in last[0]
    assert [line.strip() for line in last[1:]] == ["mixed: acked=2 died=1", "other: acked=1"]


def test_silent_when_told_so(make_queue, command):
    """7.1 With --verbosity 0 a worker says nothing on its standard output."""
    queue = make_queue()
    queue.handler(lambda job: None)
    queue.enqueue(None)
    assert command(verbosity=0) == ""


def test_one_queue_alone(alias, make_queue, command):
    """7.5 --queue serves just those that it names, and twice named is once served."""
    queues = [make_queue(name) for name in ("a", "b", "c")]
    for queue in queues:
        queue.handler(lambda job: None)
        queue.enqueue(None)
    text = command("--queue", "a", "--queue", "c", "--queue", "a")
    assert "serves 2 queues" in text
    assert count_live(alias) == 1
    assert queues[1].claim_one("w") is not None


def test_another_database_is_left_alone(alias, make_queue, command):
    """1.2 --database picks the store that is served; a queue lives on one alias."""
    from alkstore_django import Queue

    other = Queue("elsewhere", using="default")
    other.handler(lambda job: None)
    queue = make_queue("here")
    queue.handler(lambda job: None)
    assert "elsewhere" not in command()
    with pytest.raises(CommandError, match="elsewhere"):
        command("--queue", "elsewhere")


def test_the_worker_id_is_stamped(alias, make_queue, command):
    """3.4 7.1 --worker-id is the name on claimed jobs; without it each worker has its own."""
    queue = make_queue()
    seen = []
    queue.handler(lambda job: seen.append(job.worker_id))
    for options in ({"worker_id": "named"}, {}, {}):
        queue.enqueue(None)
        command(**options)
    assert seen[0] == "named"
    assert len(set(seen)) == 3


# -- errors --------------------------------------------------------------------------------


def assert_refused(command, *arguments, told):
    """The command ends with a one-line error that tells all this."""
    with pytest.raises(CommandError) as refused:
        command(*arguments)
    text = str(refused.value)
    assert "\n" not in text
    for part in told:
        assert part in text, text


def test_an_unknown_queue(alias, make_queue, command):
    """7.5 An unknown queue ends the command with an error that names it; nothing is claimed."""
    queue = make_queue("invoices")
    queue.handler(lambda job: None)
    job_id = queue.enqueue(None)
    assert_refused(
        command, "--queue", "invoices", "--queue", "invoice", told=["'invoice'", "Did you mean"]
    )
    assert live_row(alias, job_id)["attempts"] == 0


def test_a_queue_without_a_handler(alias, make_queue, command):
    """7.5 A queue without a handler ends the command with an error that names it, and the cure."""
    served, bare = make_queue("served"), make_queue("bare")
    served.handler(lambda job: None)
    job_id = served.enqueue(None)
    assert_refused(
        command, "--queue", "served", "--queue", "bare", told=["'bare'", "no handler", "@queue"]
    )
    assert live_row(alias, job_id)["attempts"] == 0
    del bare  # alive until here: the code has declared it


def test_no_handler_at_all(alias, command):
    """7.5 A worker with nothing to serve ends with an error that tells the database and the cure."""
    assert_refused(command, told=[repr(alias), "handler", "queues.py"])


def test_an_unknown_database():
    """7.5 An alias that DATABASES does not have is told in one line."""
    with pytest.raises(CommandError, match="nowhere"):
        call_command("alkstore_worker", database="nowhere", drain=True)


def test_before_migrate(alias, make_queue, command):
    """1.2 Before migrate the command says in one line what to run."""
    make_queue().handler(lambda job: None)
    with rolled_back(alias):
        with connections[alias].cursor() as cursor:
            cursor.execute(f"DROP TABLE {engine_for(alias).table('job')}")
        assert_refused(command, told=["migrate", alias])


SERVE = """
import sys
from django.core.management import execute_from_command_line
from alkstore_django import Queue
queue = Queue("jobs", using={alias!r})
queue.handler(lambda job: None)
execute_from_command_line(["manage.py", "alkstore_worker", "--drain", "--database", {alias!r}])
"""


@pytest.mark.parametrize(
    ("alias", "name"), [("postgres", "postgres"), ("sqlite", "{fresh}")], indirect=["alias"]
)
def test_before_migrate_in_a_real_process(alias, name, tmp_path):
    """1.2 On a database that was never migrated the process ends with one line and code 1."""
    name = name.format(fresh=tmp_path / "fresh.sqlite3")
    done = run_python(
        SERVE.format(alias=alias),
        env={f"ALKSTORE_TEST_DATABASE_{alias.upper()}": name},
        check=False,
    )
    assert done.returncode == 1
    assert "migrate" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("alias", ["sqlite"], indirect=True)
@pytest.mark.parametrize("name", [":memory:", "file:shared?mode=memory&cache=shared"])
def test_a_database_in_memory(alias, name):
    """1.2 A worker refuses a database in memory, and says that this is the reason."""
    done = run_python(
        SERVE.format(alias=alias), env={"ALKSTORE_TEST_DATABASE_SQLITE": name}, check=False
    )
    assert done.returncode == 1
    assert "memory" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("alias", ["postgres"], indirect=True)
def test_a_standby(alias, make_queue, command, monkeypatch):
    """FR-014 On a server in recovery no worker starts, no job is handed out, and the error says why."""
    queue = make_queue()
    queue.handler(lambda job: None)
    job_id = queue.enqueue(None)
    monkeypatch.setattr(engine_for(alias).sql, "IN_RECOVERY", "SELECT true")
    assert_refused(command, told=["primary"])
    assert live_row(alias, job_id)["attempts"] == 0


# -- manners -------------------------------------------------------------------------------


def test_in_another_thread(make_queue, command):
    """FR-107 Called in a thread that is not the main one it works, and leaves signals alone."""
    queue = make_queue()
    threads = []
    queue.handler(lambda job: threads.append(threading.current_thread().name))
    queue.enqueue(None)
    before = signal.getsignal(signal.SIGTERM)
    said, failed = [], []

    def run():
        try:
            said.append(command())
        except BaseException as error:
            failed.append(error)
        finally:
            connections[queue.using].close()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(40)
    assert not failed
    assert "acked=1" in said[0]
    assert signal.getsignal(signal.SIGTERM) is before


def test_on_a_platform_with_fewer_signals(make_queue, command, monkeypatch):
    """FR-107 Only signals that exist are asked for."""
    for name in ("SIGHUP", "SIGQUIT", "SIGUSR1"):
        monkeypatch.delattr(signal, name)
    queue = make_queue()
    queue.handler(lambda job: None)
    queue.enqueue(None)
    assert "acked=1" in command()


def test_signal_handlers_are_put_back(make_queue, command):
    """7.4 What the process had arranged for signals is as before when the command is over."""
    numbers = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT]
    before = [signal.getsignal(number) for number in numbers]
    queue = make_queue()
    seen = []
    queue.handler(lambda job: seen.append([signal.getsignal(number) for number in numbers]))
    queue.enqueue(None)
    command()
    assert all(during not in before for during in seen[0])
    assert [signal.getsignal(number) for number in numbers] == before


def test_nothing_is_left_behind(alias, make_queue, command):
    """7.1 FR-106 When the command is over, so are its threads and its sessions."""
    queue = make_queue()
    together = threading.Barrier(8, timeout=20)

    @queue.handler
    def handle(job):
        assert queue.get_job(job.id).attempts == 1
        together.wait()  # every thread has a session of its own now

    queue.enqueue_many([None] * 16)
    threads, before = threading.active_count(), sessions.open_sessions(alias)
    assert "acked=16" in command(threads=8)
    assert threading.active_count() == threads
    assert sessions.after_parting(lambda: sessions.open_sessions(alias) <= before, True)
