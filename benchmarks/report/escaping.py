"""Text from models and environments as what it is: data, which changes nothing around it."""

from __future__ import annotations

import html
import json
import re
import unicodedata
from typing import Any

_KEPT = "\n\t\u200c\u200d"
"""Line ends, tabs, and the two joiners that some scripts and emoji are written with."""
_HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Controls (ESC, NUL), formats (bidi overrides), lone surrogates, separators of lines and paragraphs."""
_PLAIN = re.compile(r"[\n\t\x20-\x7e]*")


def visible(text: str) -> str:
    """The text with each character that is not seen, or that reorders others, as its number: `[U+202E]`."""
    if _PLAIN.fullmatch(text):
        return text
    return "".join(
        f"[U+{ord(one):04X}]" if one not in _KEPT and unicodedata.category(one) in _HIDDEN else one for one in text
    )


def shown(text: object) -> str:
    """What stands in HTML for a value's text, in content and in quoted attributes."""
    return html.escape(visible(str(text)))


def short(text: str, limit: int) -> str:
    """At most `limit` characters, the end of a longer one being dots."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def embedded(value: Any) -> str:
    """JSON for a script element that is data: ASCII alone, and nothing that could end the element."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c").replace(">", "\\u003e")
