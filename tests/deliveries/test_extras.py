"""The package without its extras."""

import pytest

from tests.support.processes import run_python

WITHOUT = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name in {missing}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
try:
    import alkstore_django.deliveries.{module}
except Exception as error:
    print(type(error).__name__, error)
"""


def test_nothing_is_imported_unasked():
    """Whoever imports the package, and all of its modules but the deliveries, needs no extra."""
    done = run_python(
        "import importlib, pkgutil, sys\n"
        "import alkstore_django\n"
        "for found in pkgutil.walk_packages(alkstore_django.__path__, 'alkstore_django.'):\n"
        "    if not found.name.startswith('alkstore_django.deliveries.'):\n"
        "        importlib.import_module(found.name)\n"
        "import alkstore_django.deliveries, alkstore_django.deliveries.events\n"
        "print(sorted({'httpcore', 'httpx', 'nats', 'standardwebhooks'} & set(sys.modules)))\n"
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("module", "missing"),
    [("webhooks", "httpx"), ("webhooks", "standardwebhooks"), ("nats", "nats")],
)
def test_missing_extra(module, missing):
    """Without its extra, a delivery says in one line what to install."""
    done = run_python(WITHOUT.format(module=module, missing={missing}))
    (line,) = done.stdout.splitlines()
    assert line.startswith("ImproperlyConfigured ")
    assert line.endswith(f'pip install "alkstore-django[{module}]"')
    assert missing in line
