"""What holds for every page: links lead somewhere, code is code, no path is private."""

import ast
import importlib
import re
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, PAGES, ROOT, Block, all_blocks, anchors_of, links_of, text_of

PYTHON = all_blocks("python")
# Where the documents may put things on a reader's machine.
PUBLIC_PLACES = ("/srv/shop", "/etc/systemd/")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    """Every link to a page or a heading of this project finds it."""
    for link in links_of(page):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{name_of(page)} links to {link}"
        if anchor:
            assert anchor in anchors_of(target), f"{name_of(page)} links to {link}"


def test_every_page_is_reached_from_the_start() -> None:
    """From the README and docs/index.md a reader can click to every page."""
    for start in (ROOT / "README.md", DOCS / "index.md"):
        reached, ahead = set(), [start]
        while ahead:
            page = ahead.pop()
            if page.suffix != ".md" or page in reached:
                continue
            reached.add(page)
            ahead += [
                (page.parent / link.partition("#")[0]).resolve()
                for link in links_of(page)
                if "://" not in link and not link.startswith("#")
            ]
        missing = set(DOCS.rglob("*.md")) - reached - {DOCS / "index.md"}
        assert not missing, f"not reached from {name_of(start)}: {sorted(missing)}"


def test_pages_of_the_docs_do_not_leave_the_docs() -> None:
    """Sphinx builds the folder alone: a link out of it would break there."""
    for page in DOCS.rglob("*.md"):
        for link in links_of(page):
            if "://" not in link and (path := link.partition("#")[0]):
                assert (page.parent / path).resolve().is_relative_to(DOCS), (page, link)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_private_paths(page: Path) -> None:
    """No absolute path but those of the examples' own server."""
    text = re.sub(r"https?://\S+", "", text_of(page))
    for path in re.findall(r"(?<![\w.~>*)/-])/[a-z][\w.-]*/[\w./@-]*", text):
        assert path.startswith(PUBLIC_PLACES), f"{name_of(page)} names {path}"


@pytest.mark.parametrize("block", PYTHON, ids=str)
def test_python_compiles(block: Block) -> None:
    """Every block of Python is Python."""
    compile(block.text, str(block), "exec")


@pytest.mark.parametrize("block", PYTHON, ids=str)
def test_imports_of_the_package_are_right(block: Block) -> None:
    """What a block imports from the package is there."""
    for node in ast.walk(ast.parse(block.text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("alkstore_django"):
            module = importlib.import_module(node.module)
            for name in node.names:
                assert hasattr(module, name.name), f"{block}: {node.module}.{name.name}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_options_of_the_worker_are_right(page: Path) -> None:
    """Every option that a page gives to the worker command is one."""
    from alkstore_django.management.commands.alkstore_worker import Command

    parser = Command().create_parser("manage.py", "alkstore_worker")
    known = {option for action in parser._actions for option in action.option_strings}
    for line in text_of(page).splitlines():
        if "alkstore_worker" in line:
            given = re.findall(r"(?<!\w)--[\w-]+", line.split("alkstore_worker", 1)[1])
            assert set(given) <= known, f"{name_of(page)}: {line}"
