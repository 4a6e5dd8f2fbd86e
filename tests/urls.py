"""The admin: one site for the default alias, as a project has it, and one per engine."""

from django.contrib import admin
from django.urls import path

from alkstore_django.admin import DeadJobAdmin, JobAdmin, ScheduleAdmin
from alkstore_django.models import DeadJob, Job, Schedule


def site_of(alias: str) -> admin.AdminSite:
    """A site whose pages show the store on an alias."""
    site = admin.AdminSite(name=f"admin_{alias}")
    for model, page in ((DeadJob, DeadJobAdmin), (Job, JobAdmin), (Schedule, ScheduleAdmin)):
        site.register(model, type(page.__name__, (page,), {"using": alias}))
    return site


urlpatterns = [
    path("admin/", admin.site.urls),
    path("sqlite/", site_of("sqlite").urls),
    path("postgres/", site_of("postgres").urls),
]
