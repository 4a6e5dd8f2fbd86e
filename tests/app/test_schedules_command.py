"""``manage.py alkstore_schedules``: 4.1, 4.4, FR-118."""

import io
import threading

import pytest
from django.core.management import CommandError, call_command
from django.db import connections

from alkstore_django import LeadershipLost, declare_schedule, schedule, signals
from alkstore_django.core.stop import StopToken
from alkstore_django.engines.registry import engine_for
from alkstore_django.management.commands import alkstore_schedules
from alkstore_django.management.commands.alkstore_schedules import Command
from alkstore_django.scheduling import declarations
from alkstore_django.testing import run_due_schedules
from tests.support.processes import manage, run_python
from tests.support.rows import schedule_row
from tests.support.tampering import change_schedule


@pytest.fixture(autouse=True)
def no_declarations():
    """Declarations of the test's own, forgotten after it."""
    before = dict(declarations._declared)
    declarations._declared.clear()
    yield
    declarations._declared.clear()
    declarations._declared.update(before)


@pytest.fixture
def command(alias):
    """Run the command with options that end by themselves, and return what it printed."""

    def run(*arguments, **options):
        out = io.StringIO()
        call_command("alkstore_schedules", *arguments, database=alias, stdout=out, **options)
        return out.getvalue()

    return run


@pytest.fixture
def stops_at_once(monkeypatch):
    """A command that is stopped as soon as it leads."""
    stop = StopToken()

    def on_gained(sender, **_):
        stop.stop()

    monkeypatch.setattr(alkstore_schedules, "StopToken", lambda: stop)
    signals.leadership_gained.connect(on_gained)
    yield stop
    signals.leadership_gained.disconnect(on_gained)


def test_register_only(alias, command):
    """4.1 It says what it has added, changed, left and removed."""
    declare_schedule("a", "@every 1m", "q", 1, using=alias)
    declare_schedule("b", "@every 1m", "q", 1, using=alias)
    assert command("--register-only") == (
        "Schedule 'a' added\nSchedule 'b' added\nSchedules declared: added=2 changed=0 left=0\n"
    )
    schedule("by hand", "@every 1m", "q", None, using=alias)
    declarations._declared.clear()
    declare_schedule("b", "@every 2m", "q", 1, using=alias)
    assert command("--register-only") == (
        "Schedule 'b' changed\nSchedules declared: added=0 changed=1 left=0\n"
    )
    assert command("--register-only", "--prune") == (
        "Schedule 'a' removed\nSchedules declared: added=0 changed=0 left=1 removed=1\n"
    )
    assert schedule_row(alias, "by hand") is not None
    assert command("--register-only", verbosity=0) == ""


def test_what_cannot_be_stored(alias, command, settings):
    """2.4 A declared payload beyond the limit ends the command with a line; nothing is stored."""
    declare_schedule("a", "@every 1m", "q", 1, using=alias)
    declare_schedule("b", "@every 1m", "q", "x" * 99, using=alias)
    settings.ALKSTORE = {alias: {"MAX_PAYLOAD_BYTES": 50}}
    with pytest.raises(CommandError, match="cannot be stored: queue 'q': payload must be at most"):
        command("--register-only")
    assert schedule_row(alias, "a") is None


def test_list(alias, command, clock):
    """4.1 Names, specs, queues, next and last boundaries, lag."""
    assert command("--list") == "No schedules.\n"
    schedule("a", "@every 1m", "mail", None, using=alias)
    schedule("longer", "@every 2h", "q", None, using=alias)
    clock.advance(61)
    run_due_schedules(alias)
    clock.advance(90)
    assert command("--list").splitlines() == [
        "name    spec       queue  next                  last                  lag",
        "a       @every 1m  mail   2027-01-15 08:02:00Z  2027-01-15 08:01:00Z  31s",
        "longer  @every 2h  q      2027-01-15 10:00:00Z  -                     0s",
    ]


def test_audit(alias, command, clock):
    """4.5 Issue 4: what became of every boundary; exit code 1 and a line if it does not add up."""
    schedule("a", "@every 1s", "q", None, using=alias)
    schedule("b", "@every 1m", "q", None, using=alias)
    clock.advance(100)
    run_due_schedules(alias)
    clock.advance(3)
    assert command("--audit").splitlines() == [
        "name   expected  fired  skipped  due",
        "a      100       64     36       3    ok",
        "b      1         1      0        0    ok",
        "total  101       65     36       3    ok",
    ]
    change_schedule(alias, "a", n_fired=63)
    with pytest.raises(CommandError, match="1 of 2 schedules do not add up: 'a'") as caught:
        command("--audit")
    assert caught.value.returncode == 1


@pytest.mark.parametrize("column", ["n_fired", "n_skipped", "n_before", "next_boundary_at"])
@pytest.mark.parametrize("step", [-1, 1])
def test_the_audit_finds_every_change(alias, command, clock, column, step):
    """4.5 A boundary that was lost, doubled or moved off the grid does not add up."""
    schedule("a", "@every 10s", "q", None, using=alias)
    clock.advance(25)
    run_due_schedules(alias)
    change_schedule(alias, "a", **{column: schedule_row(alias, "a")[column] + step})
    with pytest.raises(CommandError, match="do not add up"):
        command("--audit")


def test_options_that_speak_against_each_other(alias, command):
    """4.1 Looking changes nothing."""
    for option in ("--list", "--audit"):
        with pytest.raises(CommandError, match="--prune does not go with"):
            command(option, "--prune")
    with pytest.raises(CommandError):
        command("--list", "--audit")


def test_an_unknown_alias():
    """1.2 One line that names it."""
    with pytest.raises(CommandError, match="DATABASES has no alias 'nowhere'"):
        call_command("alkstore_schedules", database="nowhere")


@pytest.mark.parametrize("option", ["--list", "--audit", "--register-only", "--prune"])
def test_missing_tables(fresh, option):
    """1.2 Before migrate it says so in one line."""
    with pytest.raises(CommandError, match="The tables of alkstore_django are missing on"):
        call_command("alkstore_schedules", option, database=fresh)


def test_it_runs_until_stopped(alias, command, stops_at_once):
    """4.4 Registers, leads, and ends with code 0."""
    declare_schedule("a", "@every 1m", "q", 1, using=alias)
    out = command()
    assert out.startswith("Schedule 'a' added\nSchedules declared: added=1 changed=0 left=0\n")
    assert f"({alias}), standing by\nLeading\nScheduler stopped\n" in out
    assert engine_for(alias).schedules.is_lease_free("__alkstore_scheduler")


def test_lost_leadership_ends_it(alias, command, monkeypatch):
    """4.4 FR-118 One line and exit code 1."""
    monkeypatch.setattr(
        alkstore_schedules.Runner,
        "run",
        lambda self: (_ for _ in ()).throw(LeadershipLost("__alkstore_scheduler")),
    )
    with pytest.raises(
        CommandError, match="leadership of '__alkstore_scheduler' was lost"
    ) as caught:
        command()
    assert caught.value.returncode == 1


def test_lost_leadership_may_be_taken_calmly(alias, command, monkeypatch, stops_at_once):
    """4.4 --on-lost stand-by: it stands by again, and leads when it can."""
    real, calls = alkstore_schedules.Runner.run, []

    def run(self):
        calls.append(1)
        if len(calls) == 1:
            raise LeadershipLost("__alkstore_scheduler")
        real(self)

    monkeypatch.setattr(alkstore_schedules.Runner, "run", run)
    out = command("--on-lost", "stand-by")
    assert "Leadership lost, standing by\nLeading\nScheduler stopped\n" in out


def test_in_a_thread(alias, stops_at_once):
    """FR-107 It runs outside the main thread, where no signal handler can be installed."""
    errors = []

    def run():
        try:
            call_command("alkstore_schedules", database=alias, stdout=io.StringIO())
        except BaseException as error:
            errors.append(error)
        finally:
            connections[alias].close()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(20)
    assert not thread.is_alive()
    assert errors == []


def test_help_tells_all():
    """4.4 --help has every option and the exit codes."""
    text = Command().create_parser("manage.py", "alkstore_schedules").format_help()
    for option in ("--prune", "--on-lost", "--register-only", "--list", "--audit", "--database"):
        assert option in text
    assert "Exit codes:" in text


def test_a_wrong_option_is_code_2(alias):
    """4.4 As with any command of Django's."""
    done = manage("alkstore_schedules", "--on-lost", "panic", check=False)
    assert done.returncode == 2


def test_schedules_modules_are_discovered(tmp_path, monkeypatch):
    """4.1 An app's schedules.py is imported at start."""
    app = tmp_path / "declaring"
    app.mkdir()
    (app / "__init__.py").write_text("")
    (app / "schedules.py").write_text(
        "from alkstore_django import declare_schedule\n"
        "declare_schedule('found', '@every 1m', 'q', None, using='sqlite')\n"
    )
    (tmp_path / "declaring_settings.py").write_text(
        "from tests.settings import *\nINSTALLED_APPS = [*INSTALLED_APPS, 'declaring']\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    code = (
        "from alkstore_django.scheduling.declarations import declared_on\n"
        "print([found.name for found in declared_on('sqlite')])\n"
    )
    arguments = [
        "-c",
        f"import os; os.environ['DJANGO_SETTINGS_MODULE'] = 'declaring_settings'\n"
        f"import django; django.setup()\n{code}",
    ]
    assert run_python(arguments).stdout == "['found']\n"
