"""The pages in Django's admin: dead letters, jobs, schedules. Loaded by the admin itself.

They only look; the one thing that they do is to enqueue dead jobs again. Every page is quick
however many rows there are: see ``changelist`` for how. To show another alias than the default
one, register a subclass with ``using`` on a site of your own.
"""

from __future__ import annotations

from django.contrib import admin

from ..models import DeadJob, Job, Schedule
from .dead_jobs import DeadJobAdmin
from .jobs import JobAdmin
from .schedules import ScheduleAdmin

__all__ = ["DeadJobAdmin", "JobAdmin", "ScheduleAdmin"]

admin.site.register(DeadJob, DeadJobAdmin)
admin.site.register(Job, JobAdmin)
admin.site.register(Schedule, ScheduleAdmin)
