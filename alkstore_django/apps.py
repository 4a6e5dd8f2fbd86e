"""The Django app."""

from __future__ import annotations

from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules
from django.utils.translation import gettext_lazy as _


class AlkstoreConfig(AppConfig):
    """Registers the checks, discovers the apps' queues and schedules; runs no SQL."""

    name = "alkstore_django"
    verbose_name = _("Durable jobs")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from . import checks  # noqa: F401  registers the system checks

        autodiscover_modules("queues", "schedules")
