"""Parser for JSON in a model's answer. It skips invalid parts and never raises."""

from __future__ import annotations

import json
from typing import Any

MAX_ITEMS = 20
"""Maximum number of entries of a list; the rest is ignored."""
LONGEST = 500
"""Maximum number of characters of a string; the rest is ignored."""


def read_object(text: str) -> dict[str, Any] | None:
    """Return the JSON object between the first and the last brace of an answer, or None."""
    start, end = text.find("{"), text.rfind("}")
    if start < 0 or end < start:
        return None
    try:
        answer = json.loads(text[start : end + 1])
    # json raises RecursionError if an answer nests thousands of brackets.
    except (ValueError, RecursionError):
        return None
    return answer if isinstance(answer, dict) else None


def text_of(value: object) -> str:
    """Return the stripped value if it is a string, otherwise an empty string."""
    return value.strip()[:LONGEST] if isinstance(value, str) else ""


def texts_of(value: object) -> tuple[str, ...]:
    """Return the strings of a list without duplicates, or () if the value is not a list."""
    texts = [text_of(item) for item in value[:MAX_ITEMS]] if isinstance(value, list) else []
    return tuple(dict.fromkeys(text for text in texts if text))
