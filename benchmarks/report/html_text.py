"""Escaping of texts from models and environments for HTML."""

from __future__ import annotations

import html
import json
from typing import Any

from mage_envs.text.visible import visible


def shown(text: object) -> str:
    """Return a value's text escaped for HTML content and quoted attributes, with invisible characters visible."""
    return html.escape(visible(str(text)))


def short(text: str, limit: int) -> str:
    """Return a text with at most `limit` characters; a longer one ends with an ellipsis."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def embedded(value: Any) -> str:
    """Return JSON for a data script element, with only ASCII characters."""
    # Escaped brackets, because `</script>` inside a string would end the element.
    return json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c").replace(">", "\\u003e")
