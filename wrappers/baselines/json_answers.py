"""JSON in a model's answer: what can be read is read, and nothing raises."""

from __future__ import annotations

import json
from typing import Any

MOST = 20
"""Entries of a list that count."""
LONGEST = 500
"""Characters of a text in it that count."""


def read_object(text: str) -> dict[str, Any] | None:
    """The object that an answer is, or that stands between its first and its last brace; None without one."""
    start, end = text.find("{"), text.rfind("}")
    if start < 0 or end < start:
        return None
    try:
        found = json.loads(text[start : end + 1])
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def text_of(value: object) -> str:
    """The value, if it is a text."""
    return value.strip()[:LONGEST] if isinstance(value, str) else ""


def texts_of(value: object) -> tuple[str, ...]:
    """The texts of a list, each once; empty for anything else."""
    found = [text_of(item) for item in value[:MOST]] if isinstance(value, list) else []
    return tuple(dict.fromkeys(text for text in found if text))
