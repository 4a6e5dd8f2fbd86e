"""Schedules: what is fired, how often, and when next."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Q
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from ..core.instants import MICROSECONDS
from . import texts
from .store_admin import StoreAdmin, bound_shown


class DeclaredFilter(admin.SimpleListFilter):
    """By where a schedule comes from."""

    title = gettext_lazy("origin")
    parameter_name = "declared"

    def lookups(self, request: Any, model_admin: Any) -> Any:
        """Return both."""
        return (("1", gettext_lazy("declared in code")), ("0", gettext_lazy("made by hand")))

    def queryset(self, request: Any, queryset: Any) -> Any:
        """Keep one."""
        return (
            queryset.filter(declared=self.value() == "1")
            if self.value() in {"0", "1"}
            else queryset
        )


class ScheduleAdmin(StoreAdmin):
    """All schedules by name, with their ledger."""

    list_display = (
        "name", "spec", "queue_shown", "next_boundary", "n_fired", "n_skipped", "last_fired",
    )  # fmt: skip
    list_filter = (DeclaredFilter,)
    search_fields = ("name",)
    ordering = ("name",)
    fieldsets = (
        (None, {"fields": ("name", "spec", "queue_shown", "declared", "revision")}),
        (
            gettext_lazy("Boundaries"),
            {
                "fields": (
                    "next_in_full", "last_boundary", "last_fired_in_full", "n_fired", "n_skipped",
                )
            },
        ),
        (gettext_lazy("Payload"), {"fields": ("payload_shown",)}),
        (
            gettext_lazy("Options"),
            {
                "fields": (
                    "priority", "max_attempts", "expires", "visibility_timeout", "backoff_base",
                )
            },
        ),
        (gettext_lazy("Registration"), {"fields": ("registered", "changed")}),
    )  # fmt: skip

    @property
    def search_help_text(self) -> str:  # type: ignore[override]
        """Say what a search finds."""
        return _("A name, or a part of the name or queue of the first %(bound)s schedules.") % {
            "bound": bound_shown()
        }

    def row_of(self, term: str) -> Q | None:
        """A search may give the whole name."""
        return Q(name=term)

    def holds(self, term: str) -> Q:
        """Look for a text in names and queues."""
        return Q(name__icontains=term) | Q(queue__icontains=term)

    # -- columns --------------------------------------------------------------------------

    @admin.display(description=gettext_lazy("next boundary"))
    def next_boundary(self, row: Any) -> str:
        """When it is due next."""
        return texts.moment(row.next_boundary_at)

    @admin.display(description=gettext_lazy("next boundary"))
    def next_in_full(self, row: Any) -> str:
        """When it is due next, and how long that is from now."""
        return texts.moment_in_full(row.next_boundary_at)

    @admin.display(description=gettext_lazy("last fired"))
    def last_fired(self, row: Any) -> str:
        """When it was fired last."""
        return texts.moment(row.last_fired_at)

    @admin.display(description=gettext_lazy("last fired"))
    def last_fired_in_full(self, row: Any) -> str:
        """When it was fired last, and how long ago that was."""
        return texts.moment_in_full(row.last_fired_at)

    @admin.display(description=gettext_lazy("last boundary"))
    def last_boundary(self, row: Any) -> str:
        """The last boundary that was fired or skipped."""
        return texts.moment_in_full(row.last_boundary_at)

    @admin.display(description=gettext_lazy("jobs expire after"))
    def expires(self, row: Any) -> str:
        """How long its jobs may be claimed."""
        return texts.NOTHING if row.expires_us is None else f"{row.expires_us / MICROSECONDS:g} s"

    @admin.display(description=gettext_lazy("visibility timeout"))
    def visibility_timeout(self, row: Any) -> str:
        """How long a claim of its jobs lasts."""
        return texts.length(row.visibility_timeout_s)

    @admin.display(description=gettext_lazy("backoff base"))
    def backoff_base(self, row: Any) -> str:
        """The base of its jobs' retry curve."""
        return texts.length(row.backoff_base_s)

    @admin.display(description=gettext_lazy("registered"))
    def registered(self, row: Any) -> str:
        """When it was registered first."""
        return texts.moment_in_full(row.registered_at)

    @admin.display(description=gettext_lazy("changed"))
    def changed(self, row: Any) -> str:
        """When it was changed last."""
        return texts.moment_in_full(row.changed_at)
