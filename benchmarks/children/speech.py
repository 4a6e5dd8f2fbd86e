"""How the programs of this folder speak to the benchmark that has started them."""

import json
import os
import sys
from typing import Any


def say(value: Any) -> None:
    """Say one JSON value, at once."""
    os.write(sys.stdout.fileno(), json.dumps(value).encode() + b"\n")


def wait_for_line() -> bool:
    """Wait for a line; False when there will be none."""
    return bool(sys.stdin.readline())
