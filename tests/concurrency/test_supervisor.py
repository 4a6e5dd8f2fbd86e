"""Worker processes under their supervisor: deaths, stops, recycling, draining, health, reloading."""

import os
import random
import re
import signal
import time

import psutil
import pytest

from alkstore_django import Queue
from alkstore_django.models import Job
from tests.concurrency import supervised
from tests.support.processes import ROOT, started_python
from tests.support.rows import count_dead, count_live, live_row
from tests.support.waiting import eventually

STARTED = re.compile(r"Worker process (\d+): pid=(\d+) id=(\S+)")


@pytest.fixture
def queues(alias):
    """The queues that the worker processes serve, as seen from the test."""
    options = supervised.OPTIONS
    return {name: Queue(name, using=alias, **options.get(name, {})) for name in supervised.NAMES}


@pytest.fixture
def start_worker(alias):
    """Start ``alkstore_worker`` with these options."""

    def start(*options, **more):
        return started_python(["-m", "tests.concurrency.supervised", alias, *options], **more)

    return start


def processes(worker):
    """The processes that have said their names so far: [(number, pid, id)]."""
    found = STARTED.findall(worker.stdout)
    return [(int(number), int(pid), worker_id) for number, pid, worker_id in found]


def pids(worker, at_least):
    """The ids of the processes once there are so many, in the order of starting."""
    found = eventually(lambda: len(p := processes(worker)) >= at_least and p)
    return [pid for _, pid, _ in found]


def is_gone(pid):
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_a_killed_process_is_replaced(alias, queues, start_worker, notes):
    """7.4 FR-025 After a kill -9 another process takes the place, and the job runs again, once."""
    ids = queues["trip"].enqueue_many(["live", "die", "live"])
    options = ["--queue", "trip", "--processes", "2", "--threads", "1", "--worker-id", "w"]
    with start_worker(*options) as worker:
        pids(worker, 3)
        eventually(lambda: count_live(alias) == 0)
        worker.terminate()
        worker.wait()
    assert sorted(notes("attempt")) == sorted(
        [f"attempt 1 {job_id}" for job_id in ids] + [f"attempt 2 {ids[1]}"]
    )
    assert count_dead(alias) == 0
    assert {worker_id for _, _, worker_id in processes(worker)} == {"w-1", "w-2"}
    deaths = [line for line in worker.stderr.splitlines() if "how=SIGKILL" in line]
    assert len(deaths) == 1 and "ERROR" in deaths[0] and "uptime_s=" in deaths[0]
    assert worker.stderr.count("Worker process started") == 3


def test_a_stop_ends_all(alias, queues, start_worker):
    """7.4 TERM to the supervisor: every process heeds its grace, then gives back; exit code 0."""
    ids = queues["stubborn"].enqueue_many([None] * 3)
    before = [live_row(alias, job_id) for job_id in ids]
    options = ["--queue", "stubborn", "--processes", "3", "--threads", "1"]
    with start_worker(*options, "--shutdown-timeout", "0.5") as worker:
        running = pids(worker, 3)
        eventually(lambda: worker.stdout.count("begun") == 3)
        stopped_at = time.monotonic()
        worker.terminate()
        worker.wait(20)
        assert 0.5 <= time.monotonic() - stopped_at < 10
    assert "acked=0 retried=0 died=0 given_back=3 lost=0 left=3" in worker.stdout
    assert worker.stderr.count("how=stopped") == 3
    assert "Traceback" not in worker.stderr
    assert all(is_gone(pid) for pid in running)
    assert [live_row(alias, job_id) for job_id in ids] == before


def test_the_whole_group_is_signalled(alias, queues, start_worker):
    """7.4 A stop that a terminal or systemd sends to every process counts once: the grace is kept."""
    queues["slow"].enqueue_many([2] * 2)
    with start_worker("--queue", "slow", "--processes", "2", "--threads", "1") as worker:
        running = pids(worker, 2)
        eventually(lambda: {row_state(alias, n) for n in range(2)} == {"processing"})
        for pid in [*running, worker.pid]:
            os.kill(pid, signal.SIGINT)
        worker.wait(20)
    assert "acked=2" in worker.stdout
    assert count_live(alias) == 0


def row_state(alias, n):
    """The state of the n-th live row."""
    return list(Job.objects.using(alias).order_by("id").values_list("state", flat=True))[n]


def test_a_second_signal(alias, queues, start_worker):
    """7.4 The second TERM reaches all processes and ends the grace, however long it is."""
    queues["stubborn"].enqueue_many([None] * 2)
    options = ["--queue", "stubborn", "--processes", "2", "--threads", "1"]
    with start_worker(*options, "--shutdown-timeout", "100") as worker:
        eventually(lambda: worker.stdout.count("begun") == 2)
        worker.terminate()
        time.sleep(0.5)
        assert worker.popen.poll() is None
        worker.terminate()
        worker.wait(20)
    assert "given_back=2" in worker.stdout
    assert [handle.job.attempts for handle in queues["stubborn"].claim_batch("w", 9)] == [1, 1]


def test_the_supervisor_is_killed(alias, queues, start_worker):
    """7.4 When the supervisor is killed, its processes notice, give back and end."""
    ids = queues["stubborn"].enqueue_many([None] * 2)
    options = ["--queue", "stubborn", "--processes", "2", "--threads", "1"]
    with start_worker(*options, "--shutdown-timeout", "0.5") as worker:
        running = pids(worker, 2)
        eventually(lambda: worker.stdout.count("begun") == 2)
        worker.kill()
        eventually(lambda: all(is_gone(pid) for pid in running))
        worker.wait(code=-signal.SIGKILL)
    assert worker.stderr.count("Supervisor is gone") == 2
    assert [live_row(alias, job_id)["state"] for job_id in ids] == ["pending"] * 2
    assert [live_row(alias, job_id)["attempts"] for job_id in ids] == [0] * 2


def test_a_stop_at_any_moment(alias, queues, start_worker, notes):
    """FR-028 7.4 Stopped at a random moment, be it while it forks, all ends well and nothing is lost."""
    ids = queues["plain"].enqueue_many([None] * 400)
    for _ in range(4):
        with start_worker("--queue", "plain", "--processes", "3") as worker:
            worker.wait_for_line("serves")
            time.sleep(random.uniform(0, 0.15))
            worker.popen.send_signal(random.choice([signal.SIGTERM, signal.SIGINT, signal.SIGHUP]))
            worker.wait(30)
            assert "Traceback" not in worker.stderr and "ERROR" not in worker.stderr
            assert "Worker stopped" in worker.stdout
    handled = notes("plain")
    assert len(handled) == len(set(handled))
    assert len(handled) + count_live(alias) == len(ids)
    for handle in queues["plain"].claim_batch("after", len(ids)):
        assert handle.job.attempts == 1  # its first: no stop has burnt any


def test_exactly_once_while_processes_die(alias, queues, start_worker, notes):
    """7.2 FR-104 However often its processes are killed, each atomic job has its effect once."""
    ids = queues["ledger"].enqueue_many([0.01] * 400)
    with start_worker("--queue", "ledger", "--processes", "2", "--threads", "2") as worker:
        for n in range(6):
            os.kill(pids(worker, n + 2)[-1], signal.SIGKILL)  # the youngest
            time.sleep(random.uniform(0.1, 0.4))
        eventually(lambda: count_live(alias) == 0, within_s=60)
        worker.terminate()
        worker.wait()
    assert notes("ledger") == sorted(f"ledger {job_id}" for job_id in ids)
    assert count_dead(alias) == 0


def test_the_supervisor_holds_no_connection(alias, queues, start_worker):
    """FR-104 Nothing of a database is open in the supervisor, so nothing of it is ever shared."""
    queues["plain"].enqueue_many([None] * 20)
    with start_worker("--queue", "plain", "--processes", "2") as worker:
        pids(worker, 2)
        eventually(lambda: count_live(alias) == 0)
        supervisor = psutil.Process(worker.pid)
        assert supervisor.net_connections("all") == []
        assert [file.path for file in supervisor.open_files()] == []
        assert supervisor.num_threads() == 1
        worker.terminate()
        worker.wait()
    assert "acked=20" in worker.stdout
    assert "ERROR" not in worker.stderr


def test_a_process_that_does_not_stop(alias, queues, start_worker):
    """7.4 A process that heeds nothing is killed some seconds after its grace; exit code 1."""
    options = ["--queue", "plain", "--processes", "2", "--shutdown-timeout", "0"]
    with start_worker(*options, env={supervised.KILL_MARGIN: "1"}) as worker:
        pids(worker, 2)
        number, stuck, _ = processes(worker)[0]
        os.kill(stuck, signal.SIGSTOP)
        worker.terminate()
        worker.wait(30, code=1)
    assert f"killing it: number={number} pid={stuck}" in worker.stderr
    assert "1 process died, or had to be killed" in worker.stderr
    assert is_gone(stuck)


def test_recycling_by_jobs(alias, queues, start_worker, notes):
    """7.1 After --max-jobs a process makes room for a new one; no job is lost, none runs twice."""
    ids = queues["plain"].enqueue_many([None] * 40)
    options = ["--queue", "plain", "--max-jobs", "10", "--threads", "2"]
    with start_worker(*options) as worker:
        eventually(lambda: count_live(alias) == 0)
        pids(worker, 3)
        worker.terminate()
        worker.wait()
    assert sorted(notes("plain")) == sorted(f"plain {job_id}" for job_id in ids)
    assert "acked=40" in worker.stdout
    assert worker.stderr.count("how=recycled") >= 2
    assert "ERROR" not in worker.stderr


def test_recycling_lets_a_long_job_finish(alias, queues, start_worker, notes):
    """7.1 Who makes room finishes what runs, beyond the grace period of a stop."""
    long_job = queues["slow"].enqueue(3, priority=1)
    queues["slow"].enqueue(0)
    options = ["--queue", "slow", "--max-jobs", "1", "--threads", "2", "--shutdown-timeout", "0.2"]
    with start_worker(*options) as worker:
        eventually(lambda: count_live(alias) == 0)
        worker.terminate()
        worker.wait()
    assert f"ended {long_job}" in notes("ended")
    assert "acked=2" in worker.stdout and "given_back=0" in worker.stdout


def test_a_stop_while_making_room(alias, queues, start_worker):
    """7.4 A stop reaches a process that makes room, too: its long job is given back in time."""
    job_id = queues["slow"].enqueue(60, priority=1)
    queues["slow"].enqueue(0)
    options = ["--queue", "slow", "--max-jobs", "1", "--threads", "2", "--shutdown-timeout", "0.5"]
    with start_worker(*options) as worker:
        eventually(lambda: "makes room" in worker.stderr)
        worker.terminate()
        worker.wait(20)
    assert "given_back=1" in worker.stdout
    assert live_row(alias, job_id)["attempts"] == 0


def test_recycling_by_memory(alias, queues, start_worker):
    """7.1 A process over --max-memory-mb makes room, and its successor is small again."""
    queues["hog"].enqueue_many([150] * 2)
    options = ["--queue", "hog", "--max-memory-mb", "180", "--threads", "1"]
    with start_worker(*options, "--poll-interval", "0.2") as worker:
        eventually(lambda: count_live(alias) == 0)
        eventually(lambda: worker.stderr.count("how=recycled") >= 1)
        pids(worker, 2)
        worker.terminate()
        worker.wait()
    assert "memory_mb=" in worker.stderr
    assert "acked=2" in worker.stdout


def test_a_memory_limit_below_what_the_project_takes(start_worker):
    """FR-007 A limit that every process would break from the start is refused."""
    with start_worker("--queue", "plain", "--max-memory-mb", "5") as worker:
        worker.wait(code=1)
    assert "--max-memory-mb 5 is less than" in worker.stderr


def test_a_death_while_draining(alias, queues, start_worker):
    """7.1 With --drain a process that died is replaced; what is left then is held by the dead."""
    queues["plain"].enqueue_many([None] * 30)
    queues["trip"].enqueue_many(["live"] * 10 + ["die"])
    later = queues["plain"].enqueue(None, delay=3600)
    options = ["--queue", "plain", "--queue", "trip", "--processes", "2", "--threads", "2"]
    with start_worker(*options, "--drain") as worker:
        worker.wait(30)
    assert worker.stdout.count("Worker stopped") == 1
    assert len(processes(worker)) == 3
    assert worker.stderr.count("how=drained") == 2 and worker.stderr.count("how=SIGKILL") == 1
    states = dict(Job.objects.using(alias).values_list("id", "state"))
    assert states.pop(later) == "pending"
    assert set(states.values()) <= {"processing"} and len(states) <= 2


def test_sums_of_a_drain(alias, queues, start_worker):
    """7.1 Every job that the processes did is in the one summary."""
    queues["plain"].enqueue_many([None] * 60)
    queues["ledger"].enqueue_many([0] * 20)
    with start_worker("--processes", "3", "--drain") as worker:
        worker.wait(30)
    assert "acked=80 retried=0 died=0 given_back=0 lost=0 left=0" in worker.stdout
    assert "  ledger: acked=20" in worker.stdout and "  plain: acked=60" in worker.stdout
    assert worker.stderr.count("how=drained") == 3


@pytest.mark.parametrize("n", ["1", "2"])
def test_health_file(tmp_path, start_worker, n):
    """7.4 The health file is fresh while every process is well, and gone after the stop."""
    file = tmp_path / "health"
    file.write_text("left behind")
    os.utime(file, (1, 1))
    options = ["--queue", "plain", "--processes", n, "--health-file", str(file)]
    with start_worker(*options, "--poll-interval", "0.2") as worker:
        eventually(lambda: file.exists() and time.time() - file.stat().st_mtime < 5)
        before = file.stat().st_mtime
        eventually(lambda: file.stat().st_mtime > before)
        if n == "2":
            stuck = pids(worker, 2)[1]
            os.kill(stuck, signal.SIGSTOP)
            time.sleep(1.5)
            old = file.stat().st_mtime
            time.sleep(2.5)
            assert file.stat().st_mtime == old
            os.kill(stuck, signal.SIGCONT)
            eventually(lambda: file.stat().st_mtime > old)
        worker.terminate()
        worker.wait()
    assert list(tmp_path.iterdir()) == []


def test_a_crash_loop_slows_down(start_worker):
    """7.4 A process that dies again and again is started again with growing pauses, not in a spin."""
    code = "--processes", "2", "--queue", "plain"
    with start_worker(*code, env={supervised.DIE_AT_ONCE: "1"}) as worker:
        eventually(lambda: worker.stderr.count("how=exit code 7") >= 6)
        time.sleep(2)
        assert worker.stderr.count("how=exit code 7") <= 12
        worker.terminate()
        assert worker.wait(code=None) in {0, 1}  # 1: one has died just during the stop


def test_reload(alias, queues, start_worker, notes, tmp_path):
    """FR-109 A change of code lets the running handler finish, once; the next job sees the new code."""
    module = tmp_path / "handlers_of_the_test.py"
    module.write_text("TEXT = 'old'\n")
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    env = {supervised.MODULE: module.stem, "PYTHONPATH": path}
    with start_worker("--queue", "fresh", "--reload", "--threads", "1", env=env) as worker:
        worker.wait_for_line("serves")
        first = queues["fresh"].enqueue(3)
        eventually(lambda: (live_row(alias, first) or {}).get("state") == "processing")
        second = queues["fresh"].enqueue(0)
        module.write_text("TEXT = 'new'\n")
        worker.wait_for_line("serves")
        eventually(lambda: count_live(alias) == 0)
        assert notes("fresh") == sorted([f"fresh old 1 {first}", f"fresh new 1 {second}"])
        module.write_text("TEXT = \n")
        eventually(lambda: "SyntaxError" in worker.stderr)
        module.write_text("TEXT = 'mended'\n")
        worker.wait_for_line("serves", timeout_s=20)
        third = queues["fresh"].enqueue(0)
        eventually(lambda: f"fresh mended 1 {third}" in notes("fresh"))
        worker.terminate()
        worker.wait(20)


def test_stop_of_a_reloading_worker(alias, queues, start_worker):
    """7.4 FR-109 With --reload a TERM, or an INT of the whole group, stops as gracefully as ever."""
    queues["slow"].enqueue(1.5)
    with start_worker("--queue", "slow", "--reload") as worker:
        worker.wait_for_line("serves")
        eventually(lambda: row_state(alias, 0) == "processing")
        worker.terminate()
        worker.wait(20)
    assert "acked=1" in worker.stdout
