"""The supervisor's decisions, step by step, with processes that are none: 7.4."""

import json
import logging

import pytest

from alkstore_django import StopToken
from alkstore_django.worker import supervisor as rules
from alkstore_django.worker.channel import STOP, STOP_NOW, Report
from alkstore_django.worker.supervisor import Supervisor

CLEAN = "exit code 0"


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


class FakeProcess:
    """A process that does what the test says."""

    def __init__(self, number, pid):
        self.number, self.pid = number, pid
        self.is_killed = self.is_closed = False
        self.uptime_s = 0.5
        self.orders = []
        self.told = Report()
        self.how = None

    def report(self):
        return self.told

    def order(self, order):
        self.orders.append(order)

    def kill(self):
        self.is_killed = True

    def ended(self):
        return self.how

    def close(self):
        self.is_closed = True

    def end(self, how=CLEAN, end=None, uptime_s=0.5, **counts):
        self.how, self.uptime_s = how, uptime_s
        self.told = Report({"jobs": counts} if counts else {}, 1.0, end)


class FakeHealth:
    def __init__(self):
        self.beats = []

    def touch(self, at):
        self.beats.append(at)


class Scene:
    """A supervisor of some processes, and what it has started."""

    def __init__(self, n_processes, **more):
        self.clock, self.started = Clock(), []
        self.stop, self.stop_now = StopToken(), StopToken()
        self.refuses = False
        self.supervisor = Supervisor(
            self.start,
            n_processes=n_processes,
            stop=self.stop,
            stop_now=self.stop_now,
            grace_s=30,
            clock=self.clock,
            draw=lambda: 1.0,
            **more,
        )
        self.turn = self.supervisor.turn

    def start(self, number, siblings):
        if self.refuses:
            raise BlockingIOError("no room for a process")
        self.siblings = [sibling.number for sibling in siblings]
        process = FakeProcess(number, 1000 + len(self.started))
        self.started.append(process)
        return process

    @property
    def last(self):
        return self.started[-1]

    def wait(self, seconds):
        """Let time go by, then take a turn."""
        self.clock.now += seconds
        return self.turn()


def test_starts_as_many_as_it_is_told():
    """7.4 Each number has one process, and each is told of those that run already."""
    scene = Scene(3)
    assert scene.turn() == rules.LOOK_EVERY_S
    scene.turn()
    assert [process.number for process in scene.started] == [1, 2, 3]
    assert scene.siblings == [1, 2]


def test_pauses_grow_and_are_bounded():
    """7.4 Each death in a row doubles the pause before the next start, up to a bound."""
    scene = Scene(1)
    scene.turn()
    for n in range(15):
        scene.last.end("SIGSEGV")
        pause = min(rules.FIRST_PAUSE_S * 2**n, rules.MAX_PAUSE_S)
        assert scene.turn() == pytest.approx(min(pause, rules.LOOK_EVERY_S))
        scene.wait(pause - 0.001)
        assert len(scene.started) == n + 1
        scene.wait(0.002)
        assert len(scene.started) == n + 2


def test_a_long_life_resets_the_pause():
    """7.4 A death after a good while is the first one again."""
    scene = Scene(1)
    scene.turn()
    for _ in range(8):
        scene.last.end("exit code 1")
        scene.turn()
        scene.wait(rules.MAX_PAUSE_S)
    scene.last.end("exit code 1", uptime_s=rules.LIVED_WELL_S)
    assert scene.turn() == pytest.approx(rules.FIRST_PAUSE_S)


def test_the_pause_has_jitter():
    """7.4 Processes that die together do not all come back together."""
    scene = Scene(1)
    scene.supervisor._draw = lambda: 0.0
    scene.turn()
    scene.last.end("SIGKILL")
    assert scene.turn() == pytest.approx(rules.FIRST_PAUSE_S / 2)


def test_a_death_of_one_leaves_the_others_alone():
    """7.4 Only the place of the dead process is filled again."""
    scene = Scene(2)
    scene.turn()
    first, second = scene.started
    first.end("SIGKILL", acked=1)
    scene.turn()
    scene.wait(rules.FIRST_PAUSE_S)
    assert first.is_closed and not second.orders
    assert [process.number for process in scene.started] == [1, 2, 1]


def test_recycled_is_replaced_at_once(caplog):
    """7.1 Who made room is replaced in the same turn, and that is no warning."""
    scene = Scene(1)
    scene.turn()
    scene.last.end(end="recycled", acked=5)
    with caplog.at_level(logging.INFO, "alkstore_django.worker"):
        scene.turn()
    assert len(scene.started) == 2
    assert [record.levelname for record in caplog.records] == ["INFO", "INFO"]
    assert scene.supervisor.tally.count("acked") == 5


def test_a_clean_exit_without_a_reason_is_a_death(caplog):
    """7.4 A handler that ends its process with code 0 does not pass for a worker that is done."""
    scene = Scene(1)
    scene.turn()
    scene.last.end(CLEAN)
    assert scene.turn() is not None
    scene.wait(rules.FIRST_PAUSE_S)
    assert len(scene.started) == 2
    assert "how=exit code 0" in caplog.text


def test_a_reason_with_a_bad_exit_is_a_death():
    """7.4 A process that reported its end and then crashed counts as crashed."""
    scene = Scene(1)
    scene.turn()
    scene.last.end("SIGSEGV", end="drained")
    assert scene.turn() is not None


def test_one_that_was_stopped_by_itself_is_replaced():
    """7.4 A signal to one process alone is not a stop of all."""
    scene = Scene(1)
    scene.turn()
    scene.last.end(end="stopped")
    scene.turn()
    scene.wait(rules.FIRST_PAUSE_S)
    assert len(scene.started) == 2


def test_drained():
    """7.1 The end comes when every process has drained; who drained is not replaced."""
    scene = Scene(2)
    scene.turn()
    first, second = scene.started
    first.end(end="drained", acked=3)
    assert scene.turn() is not None
    second.end(end="drained", acked=4, retried=1)
    assert scene.turn() is None
    assert len(scene.started) == 2
    assert scene.supervisor.tally.as_dict() == {"jobs": {"acked": 7, "retried": 1}}


def test_a_crash_while_draining_is_replaced():
    """7.1 Under --drain a process that died is replaced, and its jobs so far are counted."""
    scene = Scene(1)
    scene.turn()
    scene.last.end("SIGKILL", acked=2)
    assert scene.turn() is not None
    scene.wait(rules.FIRST_PAUSE_S)
    scene.last.end(end="drained", acked=1)
    assert scene.turn() is None
    assert scene.supervisor.tally.count("acked") == 3


def test_a_stop_is_passed_on_once():
    """7.4 Every process gets the order once, and nobody is started any more."""
    scene = Scene(2)
    scene.turn()
    scene.started[0].end("SIGKILL")
    scene.stop.stop()
    scene.turn()
    assert scene.wait(1) is not None
    assert scene.started[1].orders == [STOP]
    scene.started[1].end(end="stopped")
    assert scene.turn() is None
    assert len(scene.started) == 2


def test_a_second_stop_is_passed_on():
    """7.4 The second order ends the grace, and shortens the time to the kill."""
    scene = Scene(1)
    scene.turn()
    scene.stop.stop()
    scene.turn()
    scene.stop_now.stop()
    scene.turn()
    assert scene.last.orders == [STOP, STOP_NOW]
    scene.wait(rules.KILL_MARGIN_S - 0.1)
    assert not scene.last.is_killed
    scene.wait(0.2)
    assert scene.last.is_killed


def test_an_overdue_process_is_killed(caplog):
    """7.4 Who has not ended some seconds after the grace is killed; that is logged and no success."""
    scene = Scene(1)
    scene.turn()
    scene.stop.stop()
    scene.turn()
    scene.wait(30 + rules.KILL_MARGIN_S - 0.1)
    assert not scene.last.is_killed
    scene.wait(0.2)
    assert scene.last.is_killed
    assert scene.turn() == rules.LOOK_EVERY_S  # it does not spin until the kernel is done
    scene.last.end("SIGKILL")
    assert scene.turn() is None
    assert scene.supervisor.n_failed == 1
    assert caplog.text.count("killing it: number=1 pid=1000") == 1


def test_a_system_without_room(caplog):
    """7.4 A fork that fails ends nothing: it is tried again with growing pauses."""
    scene = Scene(1)
    scene.refuses = True
    assert scene.turn() == pytest.approx(rules.FIRST_PAUSE_S)
    scene.wait(rules.FIRST_PAUSE_S)
    scene.refuses = False
    scene.wait(1)
    assert len(scene.started) == 1
    assert caplog.text.count("no room for a process") == 2


def test_health_is_that_of_the_worst():
    """7.4 The file shows the oldest beat, and nothing while a process has not beaten yet."""
    health = FakeHealth()
    scene = Scene(2, health=health)
    scene.turn()
    first, second = scene.started
    first.told = Report(beat_at=50.0)
    scene.turn()
    assert health.beats == []
    second.told = Report(beat_at=40.0)
    scene.turn()
    assert health.beats == [40.0]
    second.end("SIGKILL")
    scene.turn()
    assert health.beats == [40.0]
    first.end(end="drained")
    scene.wait(1)
    assert len(health.beats) == 1
    scene.last.told = Report(beat_at=60.0)
    scene.turn()
    assert health.beats[-1] == 60.0


def test_hurry():
    """FR-109 A replacement that waits is started as soon as there is a reason to."""
    changed = []
    scene = Scene(1, may_hurry=lambda since: bool(changed))
    scene.turn()
    for _ in range(9):
        scene.last.end("exit code 1")
        scene.turn()
        scene.wait(rules.MAX_PAUSE_S)
    n = len(scene.started)
    scene.last.end("exit code 1")
    scene.wait(1)
    scene.wait(1)
    assert len(scene.started) == n
    changed.append("a file")
    scene.wait(1)
    assert len(scene.started) == n + 1


def test_reports_survive_their_way():
    """7.1 What a process reports is what the supervisor reads, whatever the queue is called."""
    report = Report({"ünï:code\n": {"acked": 3}}, 1_800_000_000.5, "drained")
    line = report.encode()
    assert line.count(b"\n") == 1
    assert Report.decode(line) == report
    assert json.loads(line)["end"] == "drained"
