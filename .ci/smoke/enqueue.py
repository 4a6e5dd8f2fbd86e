"""Enqueue in a transaction that commits, and in one that does not."""

import contextlib

import django

django.setup()

from django.db import transaction  # noqa: E402  needs the apps
from letters.queues import letters  # noqa: E402

with transaction.atomic():
    letters.enqueue({"to": "Ada"})
    letters.enqueue_many([{"to": "Grace"}, {"to": "Edsger"}])

with contextlib.suppress(ZeroDivisionError), transaction.atomic():
    letters.enqueue({"to": "nobody"})
    raise ZeroDivisionError
