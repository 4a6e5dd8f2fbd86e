"""Values that no rule may let through, for the tests of every rule that meets them."""

import datetime as dt
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest


def cases(values: dict[str, Any]) -> list[Any]:
    """Parameters of a test, one per value, under readable ids."""
    return [pytest.param(value, id=label) for label, value in values.items()]


NO_STR = {"none": None, "int": 1, "bytes": b"jobs", "list": ["jobs"], "object": object()}
BAD_TEXT = {
    **NO_STR,
    "empty": "",
    "201 characters": "q" * 201,
    "201 astral characters": "😀" * 201,
    "NUL": "a\x00b",
    "lone high surrogate": "a\ud800",
    "lone low surrogate": "\udfffa",
}
BAD_NAMES = {
    **BAD_TEXT,
    "reserved": "__alkstore_outbox_x",
    "reserved prefix alone": "__alkstore_",
}
GOOD_NAMES = {
    "one character": "q",
    "63 bytes": "q" * 63,
    "64 bytes": "q" * 64,
    "200 characters": "q" * 200,
    "200 astral characters": "😀" * 200,
    "two-byte letters": "é" * 32,
    "double quote": 'a"b',
    "injection": "a'b;--",
    "mixed scripts": "Ünïcode 队列",
    "upper case": "UPPER",
    "dot": "a.b",
    "outer blanks": " a ",
    "percent s": "%s",
    "percent": "100%",
    "named placeholder": "%(now_us)s",
    "braces": "{x}",
    "template": "$job ${job}",
    "line break": "a\nb",
    "backslash": "a\\b",
    "nearly reserved": "_alkstore_x",
    "reserved in upper case": "__ALKSTORE_x",
    "reserved after a blank": " __alkstore_x",
    "reserved inside": "x__alkstore_",
}

NO_LENGTH = {
    "true": True,
    "false": False,
    "str": "5",
    "bytes": b"5",
    "decimal": Decimal(5),
    "fraction": Fraction(5),
    "complex": 5 + 0j,
    "list": [5],
    "datetime": dt.datetime(2030, 1, 1, tzinfo=dt.UTC),
}
BAD_LENGTHS = {
    **NO_LENGTH,
    "nan": math.nan,
    "inf": math.inf,
    "minus inf": -math.inf,
    "minus one": -1,
    "just below zero": -1e-9,
    "negative timedelta": dt.timedelta(microseconds=-1),
    "2**63": 2**63,
    "minus 2**63": -(2**63),
    "1e20": 1e20,
    "1e308": 1e308,
    "huge int": 10**400,
    "timedelta.max": dt.timedelta.max,
    "timedelta.min": dt.timedelta.min,
    "beyond year 9999": 253_402_300_800,
}
BELOW_ONE = {
    "zero": 0,
    "zero float": 0.0,
    "minus zero": -0.0,
    "no time": dt.timedelta(),
    "0.999": 0.999,
}

NO_INT = {
    "none": None,
    "true": True,
    "false": False,
    "float": 1.0,
    "nan": math.nan,
    "inf": math.inf,
    "str": "1",
    "bytes": b"1",
    "decimal": Decimal(1),
    "list": [1],
}
NO_OPTIONAL_INT = {label: value for label, value in NO_INT.items() if value is not None}
BAD_MAX_ATTEMPTS = {
    **NO_OPTIONAL_INT,
    "zero": 0,
    "minus one": -1,
    "2**31": 2**31,
    "2**63": 2**63,
    "huge": 10**400,
}
BAD_PRIORITIES = {
    **NO_OPTIONAL_INT,
    "2**31": 2**31,
    "below int32": -(2**31) - 1,
    "2**63": 2**63,
    "huge": 10**400,
}

BAD_INSTANTS = {
    "naive": dt.datetime(2030, 1, 1),
    "date": dt.date(2030, 1, 1),
    "timedelta": dt.timedelta(seconds=5),
    "str": "2030-01-01T00:00:00Z",
    "true": True,
    "nan": math.nan,
    "inf": math.inf,
    "minus inf": -math.inf,
    "2**63": 2**63,
    "1e20": 1e20,
    "huge int": 10**400,
    "year 10000": 253_402_300_800,
    "rounds up to year 10000": 253_402_300_799.5,
    "year 0": -62_135_596_801,
    "decimal": Decimal(1),
    "list": [1],
}

OUT_OF_RANGE_IDS = {"zero": 0, "minus one": -1, "2**63": 2**63, "-2**63": -(2**63), "huge": 10**400}
