"""FR-141: nothing is asked of a database at import, check or makemigrations time."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = """
SECRET_KEY = "tests"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = ["django.contrib.contenttypes", "alkstore_django", "shop"]
DATABASES = {"default": %s}
"""
UNREACHABLE = {
    "postgres": {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": "/nonexistent",
        "NAME": "nowhere",
    },
    "sqlite": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": "/nonexistent/nowhere.sqlite3",
        "OPTIONS": {
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": "PRAGMA journal_mode=WAL;",
        },
    },
}
COMMANDS = {
    "check": ["check"],
    "makemigrations": ["makemigrations", "--check", "--dry-run"],
    "help": ["help", "alkstore_worker"],
    "shell": ["shell", "-c", "import shop.queues"],
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS.keys())
@pytest.mark.parametrize("database", UNREACHABLE.values(), ids=UNREACHABLE.keys())
def test_needs_no_database(tmp_path, database, command):
    """FR-141 With the database down, every one of these commands ends well."""
    (tmp_path / "project_settings.py").write_text(SETTINGS % repr(database))
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "__init__.py").write_text("")
    (tmp_path / "shop" / "queues.py").write_text(
        "from alkstore_django import Queue, Store\n"
        "jobs = Queue('jobs')\n"
        "more = Store().queue('more')\n"
        "@jobs.handler\n"
        "def handle(job): ...\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "django", *command],
        cwd=tmp_path,
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "project_settings",
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path)]),
        },
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
