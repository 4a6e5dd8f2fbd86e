"""The README, the tutorial and the how-to guides, walked through as a reader does."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import README, Block, blocks_of
from tests.docs.projects import Folder

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    made = Folder(tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="module")
def new_shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with the README's queue, its settings those of the SQLite guide."""
    folder = Folder(tmp_path_factory.mktemp("shop"))
    folder.shell("django-admin startproject mysite . && python manage.py startapp orders")
    (block,) = blocks_of("how-to/sqlite.md", "python")
    settings = folder.path / "mysite" / "settings.py"
    settings.write_text(
        settings.read_text()
        + block.text
        + 'INSTALLED_APPS += ["alkstore_django", "orders"]\n'
        + 'DATABASES["default"]["TEST"] = {"NAME": BASE_DIR / "test.sqlite3"}\n'
    )
    queue, _ = blocks_of(README, "python")
    folder.write(queue)
    folder.shell("python manage.py migrate --verbosity 0")
    return folder.path


@pytest.fixture
def shop(folder: Folder, new_shop: Path) -> Folder:
    """A copy of the new shop for one test."""
    shutil.copytree(new_shop, folder.path, dirs_exist_ok=True)
    return folder


def run(folder: Folder, code: str) -> str:
    """Run code in the project, as ``manage.py shell`` would."""
    (folder.path / "run.py").write_text(
        "import os, django\n"
        "os.environ['DJANGO_SETTINGS_MODULE'] = 'mysite.settings'\n"
        f"django.setup()\n{code}\n"
    )
    return folder.shell("python run.py")


def block_with(page: str, text: str) -> Block:
    (block,) = [block for block in blocks_of(page, "python") if text in block.text]
    return block


def test_readme(shop: Folder) -> None:
    """The README's ten lines do what it says, and its settings leave no check unhappy."""
    assert "no issues" in shop.shell("python manage.py check --database default")
    _, checkout = blocks_of(README, "python")
    run(shop, checkout.text)
    (work,) = [b for b in blocks_of(README, "console") if "alkstore_worker" in b.text]
    shop.follow(work)


def test_tutorial(folder: Folder) -> None:
    """The tutorial, to the letter."""
    for block in blocks_of("tutorial.md"):
        if block.mark == "stop":
            folder.stop(block)
        elif block.language == "console":
            folder.follow(block)
        elif block.language == "python":
            folder.write(block)
    assert folder.running is None


def test_guide_to_tests(shop: Folder) -> None:
    """The tests that the guide shows pass."""
    code = "".join(block.text for block in blocks_of("how-to/testing.md", "python"))
    (shop.path / "orders" / "tests.py").write_text(code)
    output = shop.shell("python manage.py test")
    assert "Ran 4 tests" in output
    assert "no issues" in output


def test_guide_to_schedules(shop: Folder) -> None:
    """What the guide declares is registered, listed and audited, and its tests pass."""
    for block in blocks_of("how-to/schedules.md", "python"):
        if block.file:
            shop.write(block)
    told = shop.shell("python manage.py alkstore_schedules --register-only --prune")
    assert "added=2 changed=0 left=0 removed=0" in told
    listed = shop.shell("python manage.py alkstore_schedules --list").splitlines()
    assert "report @every 1d reports" in {" ".join(line.split()[:4]) for line in listed}
    assert "total" in shop.shell("python manage.py alkstore_schedules --audit")
    late = block_with("how-to/schedules.md", "late = ")
    assert run(shop, late.text + "\nprint(late.count())").strip() == "0"
    assert "Ran 1 test" in shop.shell("python manage.py test")


def test_guide_to_dead_jobs(shop: Folder) -> None:
    """Dead jobs are listed, and run again, one or all."""
    show = block_with("how-to/dead-jobs.md", "manage.py shell")
    one = block_with("how-to/dead-jobs.md", "def run_again")
    many = block_with("how-to/dead-jobs.md", "def run_all_again")
    make = (
        "from orders.queues import receipts\n"
        "for n in range(3):\n"
        "    job_id = receipts.enqueue({'order': n})\n"
        "    receipts.claim_one('w').fail('printer away')\n"
    )
    assert run(shop, make + show.text).count("printer away") == 3
    again = run(shop, f"{make}{one.text}\nprint(receipts.get_job(run_again(job_id)).payload)")
    assert "{'order': 2}" in again
    assert run(shop, many.text + "\nprint(len(run_all_again('printer')))").strip() == "6"


def test_guide_to_sweeping(shop: Folder) -> None:
    """The command sweeps, retention may be a timedelta, and the ready handler sweeps as a job."""
    (command,) = blocks_of("how-to/maintenance.md", "console")
    shop.follow(command)
    run(shop, block_with("how-to/maintenance.md", "timedelta").text)
    shop.write(block_with("how-to/maintenance.md", "sweep_handler"))
    run(shop, "from orders.queues import maintenance\nmaintenance.enqueue({})")
    done = shop.shell("python manage.py alkstore_worker --drain --queue maintenance")
    assert "maintenance: acked=1" in done
    run(shop, block_with("how-to/maintenance.md", "def tidy").text + "\ntidy()")


def test_guide_to_monitoring(shop: Folder) -> None:
    """The counters count, and the queries answer."""
    metrics = block_with("how-to/monitoring.md", "count_acked")
    health = block_with("how-to/monitoring.md", "def waiting")
    code = (
        "from alkstore_django.testing import drain\n"
        "from orders.queues import receipts\n"
        "receipts.enqueue_many([{'order': 1}, {'order': 2}])\n"
        "print(waiting())\n"
        "drain(receipts)\n"
        "print(waiting(), dead(), counts)\n"
    )
    output = run(shop, metrics.text + health.text + code)
    assert "[{'queue': 'receipts', 'n': 2, 'oldest': datetime.datetime(" in output
    assert "[] [] Counter({('acked', 'receipts'): 2})" in output


def test_logging_settings(shop: Folder) -> None:
    """The worker logs through the project's own handler when there is one."""
    settings = shop.path / "mysite" / "settings.py"
    logging = block_with("how-to/monitoring.md", "LOGGING").text.replace('"INFO"', '"DEBUG"')
    settings.write_text(settings.read_text() + logging)
    run(shop, "from orders.queues import receipts; receipts.enqueue({'order': 1})")
    output = shop.shell("python manage.py alkstore_worker --drain")
    assert output.count("DEBUG alkstore_django.worker: Job acked id=1 queue=receipts") == 1


def test_own_codec(shop: Folder) -> None:
    """The codec that the reference shows keeps dates, and refuses the rest."""
    codec = block_with("reference/payloads.md", "class DateCodec")
    code = (
        "job_id = closings.enqueue(date(2026, 12, 31))\n"
        "print(closings.get_job(job_id).payload)\n"
        "try:\n    closings.enqueue('2026-12-31')\n"
        "except InvalidPayload as error:\n    print(error)\n"
    )
    output = run(shop, codec.text + code)
    assert output.splitlines() == ["2026-12-31", "queue 'closings': payload must be a date"]


def test_own_worker(shop: Folder) -> None:
    """The loop around ``listen()`` handles a job that is there."""
    loop = block_with("reference/queues.md", "listener.wait")
    code = "from orders.queues import receipts\njob_id = receipts.enqueue({'order': 1})\n"
    output = run(shop, f"{code}{loop.text}\nprint(receipts.get_job(job_id))")
    assert output.strip() == "None"


def test_several_databases(shop: Folder) -> None:
    """Queues live where the guide says, and the router keeps the tables there alone."""
    settings = shop.path / "mysite" / "settings.py"
    setting, _ = [
        block
        for block in blocks_of("how-to/several-databases.md", "python")
        if block.text.startswith("# settings.py")
    ]
    settings.write_text(
        settings.read_text()
        + 'DATABASES["orders_db"] = DATABASES["default"] | {"NAME": BASE_DIR / "orders.sqlite3"}\n'
        + 'DATABASES["orders_db"].pop("TEST")\n'
        + 'DATABASE_ROUTERS = ["mysite.routers.JobsRouter"]\n'
        + setting.text
    )
    shop.write(block_with("how-to/several-databases.md", "class JobsRouter"))
    (shop.path / "db.sqlite3").unlink()
    shop.shell("python manage.py migrate -v 0")
    shop.shell("python manage.py migrate -v 0 --database orders_db")
    code = (
        "from alkstore_django.models import Job\n"
        "from orders.queues import receipts\n"
        "receipts.enqueue({'order': 1})\n"
        "print(receipts.using, Job.objects.count())\n"
        "from django.db import connections\n"
        "print([t for t in connections['default'].introspection.table_names() if 'alk' in t])\n"
    )
    assert run(shop, code).splitlines() == ["orders_db 1", "[]"]
    assert "receipt for order 1" in shop.shell("python manage.py alkstore_worker --drain")


def test_guide_to_the_outbox(shop: Folder) -> None:
    """The guide's batch delivery delivers, and its receiver writes one invoice for two deliveries."""
    shop.write(block_with("how-to/outbox.md", "batch=100"))
    view = block_with("how-to/outbox.md", "def receive")
    sweep = block_with("how-to/outbox.md", "sweep_inbox")
    code = (
        "from django.test import RequestFactory\n"
        "from alkstore_django.testing import drain\n"
        "from orders.queues import events\n"
        "event_id = events.enqueue({'order': 7}, key='customer-1')\n"
        "print(drain(events))\n"
        "for _ in range(2):\n"
        "    request = RequestFactory().post('/', {'order': 7}, 'application/json',\n"
        "                                    headers={'Event-Id': str(event_id)})\n"
        "    print(receive(request).status_code)\n"
        "sweep()\n"
    )
    output = run(shop, view.text + sweep.text + code)
    assert output.split("\n")[:4] == [
        "acked=1 retried=0 died=0 given_back=0 lost=0",
        "invoice for order 7",
        "204",
        "204",
    ]
