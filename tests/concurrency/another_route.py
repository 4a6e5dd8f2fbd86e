"""The tests' settings, but the server of ``postgres`` is reached by another route.

The environment says which, as JSON: ``{"route": {...}, "store": {...}}`` are what ``DATABASES``
and ``ALKSTORE`` say otherwise. The alias ``direct`` leads where ``postgres`` usually does.
"""

import json
import os
from collections.abc import Mapping
from typing import Any

from tests.settings import *  # noqa: F403
from tests.settings import ALKSTORE, DATABASES

VARIABLE = "ALKSTORE_TEST_ROUTE"

_given = json.loads(os.environ.get(VARIABLE, "{}"))
DATABASES = {
    **DATABASES,
    "direct": DATABASES["postgres"],
    "postgres": {**DATABASES["postgres"], **_given.get("route", {})},
}
ALKSTORE = {**ALKSTORE, "postgres": _given.get("store", {})}


def environ(route: Mapping[str, Any], **store: Any) -> dict[str, str]:
    """Return the environment of a process that takes this route."""
    return {
        "DJANGO_SETTINGS_MODULE": __name__,
        VARIABLE: json.dumps({"route": dict(route), "store": store}),
    }
