"""Text from models and environments inside HTML."""

from __future__ import annotations

import html
import json
from typing import Any

from mage_envs.text.visible import visible


def shown(text: object) -> str:
    """What stands in HTML for a value's text, in content and in quoted attributes."""
    return html.escape(visible(str(text)))


def short(text: str, limit: int) -> str:
    """At most `limit` characters, the end of a longer one being dots."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def embedded(value: Any) -> str:
    """JSON for a script element that is data: ASCII alone, and nothing that could end the element."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c").replace(">", "\\u003e")
