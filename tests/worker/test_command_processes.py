"""The options of ``alkstore_worker`` about queues' limits, processes and reloading."""

import io
import threading

import pytest
from django.core.management import CommandError, call_command
from django.test import override_settings

from alkstore_django.handlers import handlers_on
from alkstore_django.management.commands import _worker_plan
from alkstore_django.management.commands._worker_plan import assignment, is_reloading
from alkstore_django.management.commands._worker_queues import chosen_handlers, split_limit
from alkstore_django.management.commands.alkstore_worker import Command
from tests.worker.test_command import assert_refused

KNOWN = {"emails", "a:2", "tenant:7:mail"}
USUAL = {"drain": False, "processes": 1, "max_jobs": None, "max_memory_mb": None, "reload": None}


@pytest.mark.parametrize(
    ("text", "name", "limit"),
    [
        ("emails", "emails", None),
        ("emails:2", "emails", 2),
        ("emails:1000", "emails", 1000),
        ("a:2", "a:2", None),
        ("a:2:3", "a:2", 3),
        ("tenant:7:mail", "tenant:7:mail", None),
        ("tenant:7:mail:4", "tenant:7:mail", 4),
        ("unknown:5", "unknown", 5),
        ("emails:", "emails:", None),
        ("emails:two", "emails:two", None),
        ("emails:-1", "emails:-1", None),
        ("emails:1.5", "emails:1.5", None),
        ("emails: 2", "emails: 2", None),
        ("emails:\u0662", "emails:\u0662", None),
        (":3", ":3", None),
        ("", "", None),
    ],
)
def test_name_and_limit(text, name, limit):
    """Issue: --queue NAME:LIMIT. A known name wins; else what follows the last colon is the limit."""
    assert split_limit(text, KNOWN) == (name, limit)


@pytest.mark.parametrize("digits", ["0", "00", "1001", "9" * 5000])
def test_limits_out_of_bounds(digits):
    """Issue: --queue NAME:LIMIT. A limit that is no limit is refused, by name."""
    with pytest.raises(CommandError, match="'emails' must be a whole number from 1 to 1000"):
        split_limit(f"emails:{digits}", KNOWN)


@pytest.fixture
def served(alias, make_queue):
    """Three queues with handlers."""
    queues = [make_queue(name) for name in ("emails", "a:2", "reports")]
    for queue in queues:
        queue.handler(lambda job: None)
    return queues


def test_chosen_limits(alias, served):
    """Issue: --queue NAME:LIMIT. A queue that is named twice keeps the one limit it was given."""
    handlers, limits = chosen_handlers(alias, ["emails:2", "a:2", "emails", "reports:1", "a:2:9"])
    assert [handler.queue.name for handler in handlers] == ["emails", "a:2", "reports"]
    assert limits == {"emails": 2, "a:2": 9, "reports": 1}
    assert chosen_handlers(alias, None) == (list(handlers_on(alias).values()), {})


def test_two_limits(alias, served):
    """Issue: --queue NAME:LIMIT. Two limits for one queue are the user's mistake."""
    with pytest.raises(CommandError, match="two limits: 2 and 3"):
        chosen_handlers(alias, ["emails:2", "emails:3"])


def test_an_unknown_queue_with_a_limit(alias, served):
    """7.5 An unknown queue is named without its limit, and the right one is guessed."""
    with pytest.raises(CommandError, match=r"'email' is unknown .* Did you mean 'emails'\?"):
        chosen_handlers(alias, ["email:2"])


def test_limits_are_told(alias, served):
    """FR-007 The start-up lines tell the limits in use, and the number of processes."""
    out = io.StringIO()
    options = {"database": alias, "drain": True, "stdout": out}
    call_command("alkstore_worker", "--queue", "emails:2", "--queue", "reports", **options)
    emails, reports = [line for line in out.getvalue().splitlines() if "max_attempts=" in line]
    assert emails.endswith(" limit=2") and "limit=" not in reports
    assert "processes=1" in out.getvalue()


# -- processes -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--processes", "0"),
        ("--processes", "many"),
        ("--processes", "1001"),
        ("--max-jobs", "0"),
        ("--max-jobs", "1.5"),
        ("--max-memory-mb", "0"),
        ("--max-memory-mb", "-5"),
    ],
)
def test_wrong_values_are_refused(capsys, option, value):
    """FR-007 A value that is out of bounds ends the command with exit code 2 and names the option."""
    with pytest.raises(SystemExit) as stopped:
        Command().run_from_argv(["manage.py", "alkstore_worker", option, value])
    assert stopped.value.code == 2
    assert option in capsys.readouterr().err


def test_help_tells_the_exit_codes():
    """Issue: exit codes stated. They are in --help."""
    text = " ".join(Command().create_parser("manage.py", "alkstore_worker").format_help().split())
    for told in ("0 after a stop", "1 after an error", "2 for a wrong option"):
        assert told in text


def options_of(**given):
    """The command's options as parsed, with some replaced."""
    parser = Command().create_parser("manage.py", "alkstore_worker")
    return {**vars(parser.parse_args([])), **given}


def test_ids_of_processes(alias, served):
    """3.4 An id that would be too long with a process's number is refused at the start."""
    assignment(alias, options_of(worker_id="w" * 198, processes=9))
    assignment(alias, options_of(worker_id="w" * 200, processes=1))
    with pytest.raises(CommandError, match="--worker-id"):
        assignment(alias, options_of(worker_id="w" * 198, processes=10))


def test_processes_outside_the_main_thread(alias, served):
    """FR-107 In another thread several processes are refused in one line; nothing is forked."""
    refused = []

    def run():
        try:
            assert_refused(
                lambda: call_command("alkstore_worker", database=alias, processes=2, drain=True),
                told=["main thread"],
            )
        except BaseException as error:
            refused.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(20)
    assert not refused and not thread.is_alive()


# -- reloading -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "debug", "typed", "reloads"),
    [
        ({}, True, True, True),
        ({}, False, True, False),
        ({}, True, False, False),
        ({"reload": False}, True, True, False),
        ({"reload": True}, False, True, True),
        ({"drain": True}, True, True, False),
        ({"processes": 2}, True, True, False),
        ({"max_jobs": 9}, True, True, False),
        ({"max_memory_mb": 900}, True, True, False),
        ({"processes": 2, "reload": False}, True, True, False),
    ],
)
def test_when_code_is_watched(options, debug, typed, reloads):
    """FR-109 By default a worker that was typed under DEBUG watches its code, and no other one."""
    with override_settings(DEBUG=debug):
        assert is_reloading({**USUAL, **options}, from_command_line=typed) is reloads


@pytest.mark.parametrize(
    ("options", "typed", "told"),
    [
        ({"drain": True}, True, "--drain"),
        ({"processes": 2}, True, "--processes"),
        ({"max_jobs": 9}, True, "--max-jobs"),
        ({"max_memory_mb": 900}, True, "--max-memory-mb"),
        ({}, False, "call_command"),
    ],
)
def test_what_reloading_does_not_go_with(options, typed, told):
    """FR-109 --reload beside what it cannot go with ends the command with an error that says so."""
    with pytest.raises(CommandError, match=told):
        is_reloading({**USUAL, **options, "reload": True}, from_command_line=typed)


def test_where_nothing_can_be_started_anew(monkeypatch):
    """FR-107 Where the system cannot fork, DEBUG alone does not switch reloading on."""
    monkeypatch.setattr(_worker_plan, "fork_fault", lambda: "this platform cannot fork")
    with override_settings(DEBUG=True):
        assert not is_reloading(USUAL, from_command_line=True)
    with pytest.raises(CommandError, match="cannot fork"):
        is_reloading({**USUAL, "reload": True}, from_command_line=True)
