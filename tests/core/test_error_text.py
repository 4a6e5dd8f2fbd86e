"""Section 3.9, error texts."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alkstore_django.core.errortext import kept_error

LIMIT = 32_768
ANY_TEXT = st.text(st.characters(codec=None, categories=None))


class Unprintable:
    def __str__(self):
        raise RuntimeError("no text for you")


class NoText:
    def __str__(self):
        return 5


def test_only_none_means_the_default():
    """3.9 FR-085 None is the default; the empty text, 0 and False are texts."""
    assert kept_error(None, default="failed") == "failed"
    assert kept_error("", default="failed") == ""
    assert kept_error(0, default="failed") == "0"
    assert kept_error(False, default="failed") == "False"


@pytest.mark.parametrize("text", ["boom", " boom\n", "é😀", "%s {x} $job", "x" * LIMIT])
def test_a_storable_text_is_kept_verbatim(text):
    """3.9 Errors are kept verbatim, up to 32,768 characters."""
    assert kept_error(text, default="failed") == text


@pytest.mark.parametrize("error", [ValueError("it broke"), ["a"], 1.5, b"raw"])
def test_what_is_no_text_is_passed_through_str(error):
    """3.9 What is no str is passed through str()."""
    assert kept_error(error, default="failed") == str(error)


@pytest.mark.parametrize("error", [Unprintable(), NoText(), ValueError(Unprintable())])
def test_an_error_that_has_no_text_breaks_nothing(error):
    """3.9 A failing operation is never itself broken by its error text."""
    assert isinstance(kept_error(error, default="failed"), str)


@given(ANY_TEXT)
def test_nul_and_lone_surrogates_are_replaced_one_by_one(text):
    """3.9 FR-058 NUL and lone surrogates become U+FFFD, and nothing else changes."""
    kept = kept_error(text, default="failed")
    assert kept == re.sub("[\0\ud800-\udfff]", "\N{REPLACEMENT CHARACTER}", text)
    assert kept.encode().decode() == kept


@pytest.mark.parametrize("character", ["x", "\0", "😀"])
def test_a_long_text_is_cut_with_a_mark(character):
    """3.9 More than 32,768 characters are cut, and one can see it."""
    kept = kept_error(character * (LIMIT + 1), default="failed")
    shown = "\N{REPLACEMENT CHARACTER}" if character == "\0" else character
    assert kept.startswith(shown * (LIMIT - 100))
    assert kept.strip(shown) != ""
    assert len(kept) <= LIMIT
