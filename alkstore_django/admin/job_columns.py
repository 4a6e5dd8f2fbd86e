"""What is shown of live and of dead jobs alike."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin
from django.utils.translation import gettext_lazy as _

from . import texts
from .store_admin import StoreAdmin


class JobColumnsAdmin(StoreAdmin):
    """The columns that both tables have."""

    option_fieldsets: ClassVar[tuple[Any, ...]] = (
        (
            _("Life"),
            {"fields": ("attempts_shown", "enqueued", "runs", "expires", "worker", "claimed")},
        ),
        (_("Options"), {"fields": ("priority", "visibility_timeout", "backoff_base")}),
    )

    @admin.display(description=_("enqueued"))
    def enqueued(self, row: Any) -> str:
        """When it was enqueued."""
        return texts.moment_in_full(row.enqueued_at)

    @admin.display(description=_("due"))
    def runs(self, row: Any) -> str:
        """From when on it may be claimed."""
        return texts.moment_in_full(row.run_at)

    @admin.display(description=_("expires"))
    def expires(self, row: Any) -> str:
        """From when on it is not claimed any more."""
        return texts.moment_in_full(row.expires_at)

    @admin.display(description=_("worker"))
    def worker(self, row: Any) -> str:
        """Who holds it, or held it last."""
        return row.worker_id or texts.NOTHING

    @admin.display(description=_("claimed"))
    def claimed(self, row: Any) -> str:
        """When it was claimed."""
        return texts.moment_in_full(row.claimed_at)

    @admin.display(description=_("visibility timeout"))
    def visibility_timeout(self, row: Any) -> str:
        """How long a claim lasts."""
        return texts.length(row.visibility_timeout_s)

    @admin.display(description=_("backoff base"))
    def backoff_base(self, row: Any) -> str:
        """The base of the retry curve."""
        return texts.length(row.backoff_base_s)
