"""The reference is complete, and says nothing that is not so."""

import ast
import dataclasses
import inspect
import re
import tomllib
from typing import Any
from unittest import mock

import pytest
from django.dispatch import Signal
from django.test import override_settings

import alkstore_django
from alkstore_django import (
    Event,
    Job,
    JobHandle,
    Listener,
    Outbox,
    Queue,
    StopToken,
    Store,
    declare_schedule,
    exceptions,
    inbox,
    run_schedules,
    schedule,
    signals,
    sweep_inbox,
    unschedule,
)
from alkstore_django import models as mirrors
from alkstore_django.conf import (
    _RULES,
    ListenSettings,
    StoreSettings,
    setting_faults,
    store_settings,
)
from alkstore_django.core.options import QueueOptions
from alkstore_django.deliveries.nats import JetStreamDelivery
from alkstore_django.deliveries.webhooks import WebhookDelivery, verify, webhook_client
from alkstore_django.management.commands import alkstore_schedules, alkstore_worker
from alkstore_django.testing import FrozenClock, drain, frozen_time, run_due_schedules
from alkstore_django.worker.tally import OUTCOMES
from tests.docs.pages import README, ROOT, Block, all_blocks, blocks_of, first_column, text_of

PACKAGE = ROOT / "alkstore_django"


def code_words(page: str) -> str:
    """All that a page shows as code, inline or in blocks."""
    text = text_of(page)
    return "\n".join(re.findall(r"`([^`\n]+)`", text) + [b.text for b in blocks_of(page)])


def has_word(word: str, text: str) -> bool:
    return re.search(rf"(?<![\w]){re.escape(word)}(?!\w)", text) is not None


# -- names -----------------------------------------------------------------------------------


def test_public_names() -> None:
    """The reference imports exactly what the package offers, and says more of each name."""
    block = blocks_of("reference/queues.md", "python")[0]
    (imported,) = [node for node in ast.parse(block.text).body if isinstance(node, ast.ImportFrom)]
    assert {name.name for name in imported.names} == set(alkstore_django.__all__)
    names = ("queues", "outbox", "payloads", "errors", "schedules")
    pages = [text_of(f"reference/{page}.md") for page in names]
    described = "\n".join(re.findall(r"`[^`\n]+`|^## .+$", "\n".join(pages), re.MULTILINE))
    for name in alkstore_django.__all__:
        assert has_word(name, described), name


@pytest.mark.parametrize("owner", [Queue, JobHandle, Listener, Job, Store, StopToken])
def test_public_attributes(owner: type) -> None:
    """Every public method and attribute of the public classes is in the reference."""
    words = code_words("reference/queues.md")
    for name in dir(owner):
        if not name.startswith("_") and name != "claim":  # the fence itself is for the engine
            assert has_word(name, words), f"{owner.__name__}.{name}"


@pytest.mark.parametrize(
    ("page", "function"),
    [
        ("queues", Queue.enqueue),
        ("queues", Queue.enqueue_many),
        ("queues", Queue.claim_one),
        ("queues", Queue.claim_batch),
        ("queues", Queue.ack_batch),
        ("queues", Queue.cancel),
        ("queues", Queue.get_job),
        ("queues", Queue.sweep_expired),
        ("queues", Listener.wait),
        ("queues", JobHandle.ack),
        ("queues", JobHandle.retry),
        ("queues", JobHandle.fail),
        ("queues", JobHandle.heartbeat),
        ("queues", Store.queue),
        ("queues", Store.enqueue_tx),
        ("queues", Store.get_job_tx),
        ("queues", Store.outbox),
        ("queues", Store.outbox_enqueue_tx),
        ("queues", Store.close),
        ("outbox", Outbox.enqueue),
        ("outbox", Outbox.enqueue_many),
        ("outbox", Outbox.enqueue_tx),
        ("outbox", Outbox.cancel),
        ("outbox", Outbox.get_job),
        ("outbox", Outbox.sweep_expired),
        ("outbox", inbox),
        ("outbox", sweep_inbox),
        ("queues", StopToken.wait),
        ("queues", StopToken.on_stop),
        ("deliveries", WebhookDelivery),
        ("deliveries", webhook_client),
        ("deliveries", verify),
        ("deliveries", JetStreamDelivery),
        ("schedules", schedule),
        ("schedules", unschedule),
        ("schedules", run_schedules),
        ("schedules", declare_schedule),
        ("queues", Store.schedule),
        ("queues", Store.unschedule),
        ("queues", Store.run_schedules),
        ("testing", drain),
        ("testing", run_due_schedules),
        ("testing", frozen_time),
        ("testing", FrozenClock.advance),
        ("testing", FrozenClock.move_to),
    ],
)
def test_signatures(page: str, function: Any) -> None:
    """Signatures are shown as they are, defaults included."""
    shown = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in shown:
            shown.append("*")
        text = "**" * (parameter.kind is parameter.VAR_KEYWORD) + parameter.name
        if parameter.default is not parameter.empty:
            text += "=" + repr(parameter.default).replace("'", '"')
        shown.append(text)
    call = f"{function.__name__}({', '.join(shown)})"
    assert call in code_words(f"reference/{page}.md"), call


def test_handler_options() -> None:
    """The options of ``@queue.handler`` and their defaults are shown as they are."""
    parameters = inspect.signature(Queue.handler).parameters
    options = {n: p.default for n, p in parameters.items() if n not in {"self", "function"}}
    call = ", ".join(f"{name}={default}" for name, default in options.items())
    assert f"@queue.handler({call})" in code_words("reference/queues.md")
    assert set(options) <= set(first_column("reference/queues.md"))


def test_queue_options() -> None:
    """The queue shown with its defaults is the one that a bare name makes."""
    block = blocks_of("reference/queues.md", "python")[1]
    scope: dict[str, Any] = {}
    exec(compile(block.text, str(block), "exec"), scope)  # noqa: S102  our own page
    bare = Queue("bare")
    shown = scope["invoices"]
    assert (shown.options, shown.codec, shown.using) == (bare.options, bare.codec, bare.using)
    assert bare.options == QueueOptions()
    documented = set(first_column("reference/queues.md"))
    for method in (Queue.__init__, Queue.enqueue):
        names = {n for n in inspect.signature(method).parameters if not n.startswith("_")}
        assert names - {"self", "payload"} <= documented


def test_errors() -> None:
    """Every error class is documented, with what it carries."""
    shown = first_column("reference/errors.md")
    for cls in vars(exceptions).values():
        if isinstance(cls, type) and issubclass(cls, exceptions.AlkstoreError):
            assert cls.__name__ in shown
            row = next(
                line
                for line in text_of("reference/errors.md").splitlines()
                if line.startswith(f"| `{cls.__name__}`")
            )
            own = (
                inspect.signature(cls).parameters if cls.__init__ is not Exception.__init__ else ()
            )
            for name in () if cls is exceptions.AlkstoreError else own:
                assert f"`{name}`" in row, f"{cls.__name__}.{name}"
        elif isinstance(cls, type) and issubclass(cls, exceptions.JobSignal):
            assert has_word(cls.__name__, code_words("reference/errors.md"))
    value_errors = {n for n in shown if issubclass(getattr(exceptions, n), ValueError)}
    sentence = re.search(
        r"^(.*) are also `ValueError`", text_of("reference/errors.md"), re.MULTILINE
    )
    assert sentence is not None
    assert set(re.findall(r"`(\w+)`", sentence[1])) == value_errors


def test_outbox() -> None:
    """The outbox shown with its defaults is the one that a bare name makes; all of it is shown."""
    block = blocks_of("reference/outbox.md", "python")[0]
    scope: dict[str, Any] = {}
    exec(compile(block.text, str(block), "exec"), scope)  # noqa: S102  our own page
    bare, shown = Outbox("bare"), scope["events"]
    assert (shown.options, shown.codec, shown.using) == (bare.options, bare.codec, bare.using)
    parameters = inspect.signature(Outbox.deliver).parameters
    options = [f"{n}={p.default}" for n, p in parameters.items() if n not in {"self", "function"}]
    words = code_words("reference/outbox.md")
    assert f"@events.deliver({', '.join(options)})" in words
    for owner in (Outbox, Event):
        for name in dir(owner):
            assert name.startswith("_") or has_word(name, words), f"{owner.__name__}.{name}"


# -- settings, checks, command -----------------------------------------------------------------


def test_settings() -> None:
    """Every key of the setting is documented, no other, and the defaults shown are the defaults."""
    listen = {field.name.upper() for field in dataclasses.fields(ListenSettings)}
    assert set(first_column("reference/settings.md")) - {"LISTEN"} - listen == set(_RULES) - {
        "LISTEN"
    }
    assert listen | {"LISTEN"} <= set(first_column("reference/settings.md"))
    scope: dict[str, Any] = {}
    exec(blocks_of("reference/settings.md", "python")[0].text, scope)  # noqa: S102  our own page
    with override_settings(ALKSTORE=scope["ALKSTORE"]):
        assert store_settings("default") == StoreSettings()
    assert set(scope["ALKSTORE"]["default"]) == set(_RULES)


@pytest.mark.parametrize(
    "block", [b for b in all_blocks("python") if "ALKSTORE =" in b.text], ids=str
)
def test_settings_that_are_shown(block: Block) -> None:
    """Every ALKSTORE that a page shows is without fault."""
    scope: dict[str, Any] = {}
    exec(block.text, scope)  # noqa: S102  our own page
    aliases: Any = {name: {} for name in ("default", "direct", "archive", "orders_db")}
    with mock.patch("alkstore_django.conf.settings") as settings:
        settings.ALKSTORE, settings.DATABASES = scope["ALKSTORE"], aliases
        assert not list(setting_faults())


def test_check_ids() -> None:
    """The ids of the system checks are those in the code."""
    sources = [path.read_text(encoding="utf-8") for path in PACKAGE.rglob("checks.py")]
    ids = set(re.findall(r'id="(alkstore\.[EW]\d{3})"', "\n".join(sources)))
    assert ids
    assert first_column("reference/checks.md") == sorted(ids)


@pytest.mark.parametrize(
    ("page", "module"), [("worker", alkstore_worker), ("schedules", alkstore_schedules)]
)
def test_command_options(page: str, module: Any) -> None:
    """Every option of a command is documented with its default, and no other."""
    own = module.Command().create_parser("manage.py", "command")
    django = {"--version", "--verbosity", "--settings", "--pythonpath", "--traceback", "--help"}
    django |= {"--no-color", "--force-color", "--skip-checks"}
    actions = {a.option_strings[-1]: a for a in own._actions if a.option_strings}
    options = set(actions) - django
    rows = {
        match[1]: line
        for line in text_of(f"reference/{page}.md").splitlines()
        if (match := re.match(r"\| `(--[\w-]+)", line))
    }
    assert set(rows) == options
    for option in options:
        default = actions[option].default
        if isinstance(default, int | float) and not isinstance(default, bool):
            assert re.search(rf"\b{default:g}\b", rows[option]), rows[option]


def test_counts_of_the_worker() -> None:
    """What the worker counts is explained."""
    assert set(OUTCOMES) <= set(first_column("reference/worker.md"))


# -- signals and log lines -----------------------------------------------------------------------


def test_signals() -> None:
    """The signals are those in the code."""
    sent = {name for name, value in vars(signals).items() if isinstance(value, Signal)}
    shown = {w for w in first_column("reference/signals.md") if not w.startswith("alkstore_django")}
    assert shown == sent


def test_log_lines() -> None:
    """Every log line of the package is documented, and the logger that writes it."""
    page = text_of("reference/signals.md")
    found = 0
    for path in PACKAGE.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for name in _logger_names(tree):
            assert f"`{name}`" in page, name
        for line in _log_lines(tree):
            found += 1
            assert re.split(r"[:%]", line)[0].strip() in page, f"{path}: {line}"
    assert found >= 10


def _logger_names(tree: ast.AST) -> list[str]:
    return [
        node.args[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "getLogger"
        and isinstance(node.args[0], ast.Constant)
        and "." in node.args[0].value
    ]


def _log_lines(tree: ast.AST) -> list[str]:
    """The texts given to loggers, straight or by a name that holds them."""
    lines = []
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        texts = {
            target.id: node.value.value
            for node in ast.walk(function)
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(function):
            if not isinstance(node, ast.Call):
                continue
            if isinstance(node.func, ast.Name) and node.func.id == "_log_job":
                lines.append(f"Job {node.args[1].value}")  # type: ignore[attr-defined]
            elif (
                isinstance(node.func, ast.Attribute)
                and node.func.attr in {"debug", "info", "warning", "error", "exception"}
                and "logger" in ast.unparse(node.func.value)
            ):
                text = node.args[0]
                line = text.value if isinstance(text, ast.Constant) else texts[ast.unparse(text)]
                lines.append(line)
    return lines


# -- tables --------------------------------------------------------------------------------------


def test_columns() -> None:
    """Every column of the tables is documented, and no other."""
    documented = first_column("reference/tables.md")
    columns = {f.column for m in (mirrors.Job, mirrors.DeadJob) for f in m._meta.fields}
    shown = documented[documented.index("id") : documented.index("died_at") + 1]
    assert set(shown) == columns


def test_columns_of_schedules() -> None:
    """Every column of a schedule is documented, and no other."""
    documented = first_column("reference/schedules.md")
    shown = documented[documented.index("spec", documented.index("--audit")) - 1 :]
    assert set(shown) == {f.column for f in mirrors.Schedule._meta.fields}


def test_index_names() -> None:
    """FR-101 The names of the indexes, and those in the recipe to rebuild them, are real."""
    made = {}
    for engine in ("postgres", "sqlite"):
        ddl = (PACKAGE / "engines" / engine / "schema" / "0001_initial.sql").read_text("utf-8")
        made[engine] = set(re.findall(r"CREATE INDEX IF NOT EXISTS (\w+)", ddl))
        made[engine] |= set(re.findall(r"CONSTRAINT (\w+_pk) PRIMARY KEY", ddl))
    recipe = re.findall(
        r"REINDEX INDEX CONCURRENTLY alkstore\.(\w+);", text_of("how-to/postgresql.md")
    )
    assert sorted(recipe) == sorted(made["postgres"])
    documented = {w for w in first_column("reference/tables.md") if w in made["postgres"]}
    assert documented == made["postgres"]
    keys = {name for name in made["postgres"] if name.endswith("_pk")}
    assert made["sqlite"] == {f"__alkstore_{name}" for name in made["postgres"] - keys}


def test_models() -> None:
    """Every query method of the mirrors is documented."""
    words = code_words("reference/tables.md")
    for method in ("for_queue", "ready", "running", "lapsed"):
        assert hasattr(mirrors.Job.objects, method)
        assert has_word(f"Job.objects.{method}", words)
    own = {
        name
        for name, value in vars(type(mirrors.Job.objects.all())).items()
        if inspect.isfunction(value) and not name.startswith("_")
    }
    assert own == {"for_queue", "ready", "running", "lapsed"}


# -- versions and rules ----------------------------------------------------------------------------


def test_supported_versions() -> None:
    """The README's versions are those of the package's metadata."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    text = README.read_text(encoding="utf-8")
    django = [c.rsplit(" ", 1)[1] for c in project["classifiers"] if "Framework :: Django :: " in c]
    assert f"| Django | {', '.join(django)} |" in text
    assert f"| Python | {project['requires-python'].removeprefix('>=')} or newer |" in text
    (psycopg,) = project["optional-dependencies"]["postgres"]
    assert f"psycopg {psycopg.partition('>=')[2]} or newer" in text


def test_rules_that_the_code_cites_are_in_the_contract() -> None:
    """Where the code names a rule of the contract, the reader finds it."""
    rules = set(re.findall(r"\*\*(\d\.\d+)\*\*", text_of("reference/contract.md")))
    for path in PACKAGE.rglob("*.py"):
        for cited in re.findall(r"CONTRACT (\d\.\d+)", path.read_text(encoding="utf-8")):
            assert cited in rules, f"{path.name} cites {cited}"
