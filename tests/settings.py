"""Settings of the tests. Importing them starts nothing; see tests/support/ground.py."""

from typing import Any

from tests.support.ground import database_name, folder, postgres_folder
from tests.support.postgres_server import PORT, USER

SECRET_KEY = "tests"
USE_TZ = True
TIME_ZONE = "UTC"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
ROOT_URLCONF = "tests.urls"
STATIC_URL = "static/"
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "alkstore_django",
    "tests.testapp",
]


def _sqlite(alias: str) -> dict[str, Any]:
    """A file: threads and processes of the tests have to share it."""
    name = database_name(alias, str(folder() / f"{alias}.sqlite3"))
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": name,
        "TEST": {"NAME": name},
        "OPTIONS": {
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        },
    }


def _postgres(alias: str) -> dict[str, Any]:
    name = database_name(alias, "alkstore_test")
    return {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": str(postgres_folder()),
        "PORT": str(PORT),
        "USER": USER,
        "NAME": name,
        "TEST": {"NAME": name},
    }


# A database's name is that of its test database, so a process that a test starts needs no
# more than these settings to work on the same one.
DATABASES = {
    "default": _sqlite("default"),
    "sqlite": _sqlite("sqlite"),
    "postgres": _postgres("postgres"),
}

ALKSTORE: dict[str, dict[str, Any]] = {"default": {}, "sqlite": {}, "postgres": {}}
