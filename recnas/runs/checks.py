"""Checksums of JSON objects, kept in the objects themselves: a changed digit in a manifest is noticed when it is read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

CHECK = "check"


def checksum(value: Mapping[str, Any]) -> str:
    """Of everything but the checksum itself, however the file is laid out."""
    rest = {name: part for name, part in value.items() if name != CHECK}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, allow_nan=False).encode()).hexdigest()


def with_check(value: Mapping[str, Any]) -> dict[str, Any]:
    return {**value, CHECK: checksum(value)}


def has_check(value: Mapping[str, Any]) -> bool:
    return value.get(CHECK) == checksum(value)
