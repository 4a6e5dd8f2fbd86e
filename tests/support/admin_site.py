"""A visitor of the admin."""

import re
from html import unescape
from typing import Any

from django.contrib.admin.models import LogEntry
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.test import Client

PAGES = {"deadjob": "dead jobs", "job": "jobs", "schedule": "schedules"}


class Visitor:
    """A logged-in user on the site of one alias; addresses are relative to the app's pages."""

    def __init__(self, alias: str, user: Any, **options: Any) -> None:
        self.alias = alias
        self.user = user
        self.client = Client(**options)
        self.client.force_login(user)

    def get(self, path: str) -> Any:
        return self.client.get(self.url(path))

    def post(self, path: str, data: Any = None, **options: Any) -> Any:
        return self.client.post(self.url(path), data or {}, **options)

    def url(self, path: str) -> str:
        return f"/{self.alias}/alkstore_django/{path}"

    def act(
        self, path: str, ids: Any, *, action: str = "enqueue_again", across: bool = False
    ) -> Any:
        """Run an action on rows of a list, and follow to the list that it leads to."""
        data = {
            "action": action,
            "index": "0",
            "select_across": "1" if across else "0",
            "_selected_action": [str(row_id) for row_id in ids],
        }
        return self.post(path, data, follow=True)


def make_user(name: str, *permissions: str, superuser: bool = False) -> Any:
    """Make a member of the staff with these permissions of the app."""
    user = get_user_model().objects.create(username=name, is_staff=True, is_superuser=superuser)
    found = Permission.objects.filter(
        content_type__app_label="alkstore_django", codename__in=permissions
    )
    assert len(found) == len(permissions)
    user.user_permissions.set(found)
    return user


def forget_users() -> None:
    """Remove all users and what they did."""
    LogEntry.objects.all().delete()
    get_user_model().objects.all().delete()


def text_of(response: Any) -> str:
    """Return what a page says, without its tags."""
    body = re.sub(r"<(script|style|head).*?</\1>", " ", response.content.decode(), flags=re.DOTALL)
    return re.sub(r"[ \t\n]+", " ", unescape(re.sub(r"<[^>]*>", " ", body)))


def rows_of(response: Any) -> list[Any]:
    """Return the keys of the rows that a list shows, in its order."""
    return [row.pk for row in response.context["cl"].result_list]
