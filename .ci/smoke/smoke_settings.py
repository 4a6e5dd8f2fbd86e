"""A project as small as can be, for the built wheel."""

from pathlib import Path

SECRET_KEY = "smoke"
USE_TZ = True
INSTALLED_APPS = ["alkstore_django", "letters"]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": Path.cwd() / "smoke.sqlite3",
        "OPTIONS": {
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        },
    }
}
