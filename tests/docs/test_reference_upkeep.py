"""The reference of maintenance and of the admin is complete, and says nothing that is not so."""

import re

import pytest
from django.contrib.admin import site

from alkstore_django.maintenance import sweep, sweep_handler
from alkstore_django.management.commands.alkstore_sweep import Command
from alkstore_django.models import DeadJob, Job, Schedule
from tests.docs.pages import first_column, text_of
from tests.docs.test_reference import code_words

DJANGO = {
    "--version", "--verbosity", "--settings", "--pythonpath", "--traceback", "--help",
    "--no-color", "--force-color", "--skip-checks",
}  # fmt: skip


def test_options_of_the_sweep() -> None:
    """Every option of the command is documented, and no other."""
    parser = Command().create_parser("manage.py", "alkstore_sweep")
    options = {action.option_strings[-1] for action in parser._actions if action.option_strings}
    shown = {word.split()[0] for word in first_column("reference/maintenance.md")}
    assert {word for word in shown if word.startswith("--")} == options - DJANGO


@pytest.mark.parametrize("page", ["how-to/maintenance.md", "reference/maintenance.md"])
def test_options_in_examples(page: str) -> None:
    """Every option that a page gives to the command is one."""
    parser = Command().create_parser("manage.py", "alkstore_sweep")
    known = {option for action in parser._actions for option in action.option_strings}
    for line in text_of(page).splitlines():
        if "alkstore_sweep" in line:
            assert set(re.findall(r"(?<!\w)--[\w-]+", line)) <= known, line


def test_functions() -> None:
    """The functions are shown with their arguments."""
    words = code_words("reference/maintenance.md")
    assert "sweep(*, queues=None, using=None)" in words and "sweep_handler(job)" in words
    assert sweep.__kwdefaults__ == {"queues": None, "using": None}
    assert sweep_handler.__code__.co_varnames[0] == "job"


def test_permissions() -> None:
    """Every permission that there is is documented, and no other."""
    there = {
        f"alkstore_django.{codename}"
        for model in (DeadJob, Job, Schedule)
        for codename in [
            *(f"{action}_{model._meta.model_name}" for action in model._meta.default_permissions),
            *(codename for codename, _ in model._meta.permissions),
        ]
    }
    for page in ("reference/admin.md", "how-to/admin.md"):
        shown = {word for word in first_column(page) if word.startswith("alkstore_django.")}
        assert shown == there


def test_pages() -> None:
    """Every page of the admin is documented, and no other."""
    pages = {type(site._registry[model]).__name__ for model in (DeadJob, Job, Schedule)}
    assert {word for word in first_column("reference/admin.md") if word.endswith("Admin")} == pages
