"""Text from models, environments and files as data: it cannot control a terminal, a table or a page."""

from __future__ import annotations

import re
import unicodedata

_KEPT = "\n\t\u200c\u200d"
"""Line ends, tabs, and the two joiners that some scripts and emoji need."""
_HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Controls (ESC, NUL), formats (bidi overrides), lone surrogates, separators of lines and paragraphs."""
_PLAIN = re.compile(r"[\n\t\x20-\x7e]*")


def visible(text: str) -> str:
    """Return the text with each hidden or reordering character as its number, such as `[U+202E]`."""
    # Plain ASCII is by far the most frequent case, and the loop below is slow.
    if _PLAIN.fullmatch(text):
        return text
    return "".join(
        f"[U+{ord(character):04X}]"
        if character not in _KEPT and unicodedata.category(character) in _HIDDEN
        else character
        for character in text
    )


def one_line(text: object) -> str:
    """Return the value's text as `visible` text on one line, for names in tables and for reasons in messages."""
    return " ".join(visible(str(text)).split())
