"""Sphinx configuration: ``sphinx-build -W docs docs/_build`` makes the pages.

The pages are plain Markdown, so that they read well in the repository too. What Sphinx needs
beyond that, a table of contents, is made here from the links of each ``index.md``.
"""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

project = "alkstore-django"
author = "alkstore-django contributors"
release = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = f"alkstore-django {release}"


def add_contents(app, docname, source):
    """Give an index page a hidden table of contents of the pages that it links to."""
    if docname == "index" or docname.endswith("/index"):
        pages = dict.fromkeys(re.findall(r"\]\(([\w/-]+)\.md\)", source[0]))
        source[0] += "\n```{toctree}\n:hidden:\n\n" + "\n".join(pages) + "\n```\n"


def setup(app):
    app.connect("source-read", add_contents)
