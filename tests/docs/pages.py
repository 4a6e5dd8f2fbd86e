"""The documents as data: pages, their code blocks, headings and links."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
DOCS = ROOT / "docs"
PAGES = (README, ROOT / "CHANGELOG.md", *sorted(DOCS.rglob("*.md")))

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_FILE_COMMENT = re.compile(r"# ([\w/]+\.py)\b")


@dataclass(frozen=True)
class Block:
    """One fenced block of code."""

    page: Path
    line: int
    language: str
    text: str
    mark: str
    """What a comment ``<!-- doctest: ... -->`` right above the block says."""

    @property
    def file(self) -> str | None:
        """The path that the block's first line names: the file that it is the content of."""
        match = _FILE_COMMENT.match(self.text)
        return match[1] if match else None

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def text_of(page: Path | str) -> str:
    """Return a page's text; a ``str`` is a path below ``docs``."""
    return (DOCS / page if isinstance(page, str) else page).read_text(encoding="utf-8")


def blocks_of(page: Path | str, language: str | None = None) -> list[Block]:
    """Return a page's code blocks, of one language or all."""
    path = DOCS / page if isinstance(page, str) else page
    return [b for b in _blocks(path) if language in (None, b.language)]


def all_blocks(language: str) -> list[Block]:
    """Return the code blocks of a language on all pages."""
    return [block for page in PAGES for block in blocks_of(page, language)]


def _blocks(page: Path) -> Iterator[Block]:
    text = text_of(page)
    for match in _FENCE.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        mark = re.search(r"<!-- doctest: (\w+) -->\n+$", text[: match.start()])
        yield Block(page, line, match[1], match[2], mark[1] if mark else "")


def prose_of(page: Path | str) -> str:
    """Return a page's text without its code blocks."""
    return _FENCE.sub("", text_of(page))


def links_of(page: Path) -> list[str]:
    """Return the targets of a page's links."""
    return _LINK.findall(prose_of(page))


def anchors_of(page: Path) -> set[str]:
    """Return the anchors of a page's headings, made as GitHub and MyST make them."""
    return {_anchor(heading) for heading in _HEADING.findall(prose_of(page))}


def _anchor(heading: str) -> str:
    text = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return text.replace(" ", "-")


def first_column(page: Path | str) -> list[str]:
    """Return the code words in the first column of a page's tables, in order."""
    rows = re.findall(r"^\| ?((?:[^|\\]|\\.)*)\|", prose_of(page), re.MULTILINE)
    return [word for row in rows for word in re.findall(r"`([^`]+)`", row)]
