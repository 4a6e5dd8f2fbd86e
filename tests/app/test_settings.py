"""settings.ALKSTORE: 1.2, and what the system checks say of it."""

import math

import pytest
from django.core import checks
from django.core.exceptions import ImproperlyConfigured

from alkstore_django import conf


def faults(settings, value):
    """The E001 messages for a value of the setting."""
    settings.ALKSTORE = value
    return [found for found in checks.run_checks() if found.id == "alkstore.E001"]


def test_everything_is_optional(settings):
    """1.2 Without any setting the store lives on default, with the documented defaults."""
    del settings.ALKSTORE
    assert conf.default_alias() == "default"
    assert conf.store_aliases() == ("default",)
    made = conf.store_settings("default")
    assert (made.schema, made.poll_interval_s, made.notify) == ("alkstore", 1, True)
    assert made.lease_s == 15
    assert [found for found in checks.run_checks() if found.id == "alkstore.E001"] == []


@pytest.mark.parametrize(
    ("setting", "alias", "aliases"),
    [
        ({}, "default", ("default",)),
        ({"postgres": {}}, "postgres", ("postgres",)),
        ({"sqlite": {}, "postgres": {}}, "default", ("sqlite", "postgres")),
    ],
)
def test_the_only_alias_that_the_setting_names_is_the_modules(settings, setting, alias, aliases):
    """1.2 The only one named, else default; several aliases may carry a store."""
    settings.ALKSTORE = setting
    assert conf.default_alias() == alias
    assert conf.store_aliases() == aliases


def test_a_changed_setting_counts_at_once(settings):
    """1.2 override_settings works: nothing is cached for ever."""
    settings.ALKSTORE = {"default": {"POLL_INTERVAL_S": 2}}
    assert conf.store_settings("default").poll_interval_s == 2
    settings.ALKSTORE = {"default": {"POLL_INTERVAL_S": 0.5, "NOTIFY": False}}
    assert conf.store_settings("default").poll_interval_s == 0.5
    assert conf.store_settings("default").notify is False


@pytest.mark.parametrize(
    ("setting", "suggestion"),
    [
        ({"default": {"SHCEMA": "x"}}, "SCHEMA"),
        ({"default": {"schema": "x"}}, "SCHEMA"),
        ({"default": {"POLL_INTERVAL": 1}}, "POLL_INTERVAL_S"),
        ({"default": {"LISTEN": {"ALAIS": None}}}, "ALIAS"),
        ({"defualt": {}}, "default"),
        ({"default": {"LISTEN": {"ALIAS": "postgers"}}}, "postgres"),
    ],
)
def test_an_unknown_key_is_an_error_with_a_suggestion(settings, setting, suggestion):
    """1.2 alkstore.E001 names the place and what was probably meant."""
    (found,) = faults(settings, setting)
    assert isinstance(found, checks.Error)
    assert suggestion in found.hint
    with pytest.raises(ImproperlyConfigured):
        conf.store_settings("default")


@pytest.mark.parametrize(
    ("option", "values"),
    [
        ("SCHEMA", ["", None, 1, "a\x00b", "s" * 64, "é" * 32, "a\ud800"]),
        ("POLL_INTERVAL_S", [0, -1, True, None, "1", math.nan, math.inf, 10**400]),
        ("LEASE_S", [0, 0.9, -1, 3601, True, None, "15", math.nan, math.inf, 10**400]),
        ("NOTIFY", [None, 0, 1, "yes"]),
        ("LISTEN", [None, [], "direct", {"OPTIONS": None}, {"OPTIONS": "x=1"}]),
        ("MAX_PAYLOAD_BYTES", [0, -1, True, None, "1", 1.5, math.nan, 10**400]),
    ],
)
def test_a_bad_value_is_an_error(settings, option, values):
    """1.2 alkstore.E001 names the option; nothing breaks on the way."""
    for value in values:
        messages = faults(settings, {"default": {option: value}})
        assert messages, value
        assert all(option in message.msg for message in messages)


@pytest.mark.parametrize(
    "setting", [None, [], "default", {"default": None}, {"default": []}, {1: {}}]
)
def test_a_setting_of_the_wrong_shape_is_an_error(settings, setting):
    """1.2 alkstore.E001, whatever is in its place."""
    assert faults(settings, setting)


@pytest.mark.parametrize(
    "schema", ["alkstore", "My-Schema", "ünï", 'a"b', "per%cent", "{x}", "s" * 63]
)
def test_odd_schema_names_are_legal(settings, schema):
    """FR-137 Whatever PostgreSQL takes."""
    assert faults(settings, {"default": {"SCHEMA": schema}}) == []
