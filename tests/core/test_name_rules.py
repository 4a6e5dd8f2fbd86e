"""Section 1.3, the pure rule."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alkstore_django.core.names import checked_name, checked_worker_id
from alkstore_django.exceptions import AlkstoreError, InvalidName
from tests.core.hostile import BAD_NAMES, BAD_TEXT, GOOD_NAMES, cases

ANY_CHARACTER = st.characters(codec=None, categories=None)


def is_text(value: str) -> bool:
    """The rule in other words: 1 to 200 code points, each one a storable character."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return 0 < len(value) < 201 and "\0" not in value


@pytest.mark.parametrize("name", cases(GOOD_NAMES))
def test_accepts_every_legal_name_unchanged(name):
    """1.3 A name of 1 to 200 code points is taken as it is."""
    assert checked_name("queue", name) == name


@pytest.mark.parametrize("name", cases(BAD_NAMES))
def test_refuses_every_illegal_name(name):
    """1.3 All else is InvalidName, and tells the kind and the value."""
    with pytest.raises(InvalidName) as caught:
        checked_name("queue", name)
    assert isinstance(caught.value, ValueError) and isinstance(caught.value, AlkstoreError)
    assert caught.value.kind == "queue"
    assert caught.value.name is name
    assert str(caught.value).startswith("queue")
    str(caught.value).encode(errors="backslashreplace")


@pytest.mark.parametrize("worker_id", cases(BAD_TEXT))
def test_refuses_every_illegal_worker_id(worker_id):
    """1.3 A worker id obeys the same rule."""
    with pytest.raises(InvalidName):
        checked_worker_id(worker_id)


def test_a_worker_id_may_be_reserved():
    """1.3 The reserved prefix is allowed in a worker id."""
    assert checked_worker_id("__alkstore_worker") == "__alkstore_worker"


@given(
    st.text(ANY_CHARACTER, max_size=230)
    | st.text(st.sampled_from("q\0\ud800😀"), min_size=195, max_size=205)
    | st.just("__alkstore_").flatmap(lambda prefix: st.text(max_size=3).map(prefix.__add__))
)
def test_the_rule_decides_as_worded(name):
    """1.3 The accepted names are those that the contract words, and no others."""
    legal = is_text(name) and not name.startswith("__alkstore_")
    try:
        assert checked_name("queue", name) == name
        accepted = True
    except InvalidName:
        accepted = False
    assert accepted == legal
