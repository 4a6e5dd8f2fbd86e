"""Live jobs: what waits, and what is being done."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Q
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from . import texts
from .filters import AttemptsFilter, DueFilter, QueueFilter, StateFilter
from .job_columns import JobColumnsAdmin
from .store_admin import bound_shown

CLAIM_ORDER = ("queue", "-priority", "run_at", "id")


class JobAdmin(JobColumnsAdmin):
    """Live jobs: all by their ids, the newest first; of one state in the order of claims."""

    list_display = (
        "id", "queue_shown", "state_shown", "due", "attempts_shown", "priority", "worker",
    )  # fmt: skip
    list_filter = (QueueFilter, StateFilter, DueFilter, AttemptsFilter)
    fieldsets = (
        (None, {"fields": ("id", "queue_shown", "key", "state", "deadline_in_full")}),
        (gettext_lazy("Payload"), {"fields": ("payload_shown",)}),
        *JobColumnsAdmin.option_fieldsets,
    )

    @property
    def search_help_text(self) -> str:  # type: ignore[override]
        """Say what a search finds."""
        return _(
            "A number finds the job with that id; other text is looked for in the keys and "
            "workers of the first %(bound)s jobs listed, which is also how far a list is counted."
        ) % {"bound": bound_shown()}

    def get_ordering(self, request: HttpRequest) -> tuple[str, ...]:
        """Return the order of the index that serves the filters."""
        state = request.GET.get(StateFilter.parameter_name)
        if state == "behind":
            return ("queue", "key", "id")
        if state in {"pending", "processing"} or request.GET.get(QueueFilter.parameter_name):
            return CLAIM_ORDER
        return ("-id",)

    def queue_names(self, *, at_most: int) -> list[str]:
        """Return the queues that have live jobs."""
        return self.upkeep.live_queue_names(at_most=at_most)

    def holds(self, term: str) -> Q:
        """Look for a text in keys and workers."""
        return Q(key__icontains=term) | Q(worker_id__icontains=term)

    # -- columns --------------------------------------------------------------------------

    @admin.display(description=gettext_lazy("state"))
    def state_shown(self, row: Any) -> str:
        """The state in a word."""
        return _("behind") if row.state == "behind" else row.get_state_display()

    @admin.display(description=gettext_lazy("due"))
    def due(self, row: Any) -> str:
        """From when on it may be claimed."""
        return texts.moment(row.run_at)

    @admin.display(description=gettext_lazy("deadline"))
    def deadline_in_full(self, row: Any) -> str:
        """When its claim lapses."""
        return texts.moment_in_full(row.deadline)
