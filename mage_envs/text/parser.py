"""The one parser of model replies: strict tags after the reasoning, never a guess from prose."""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

INVALID = "invalid"
"""No or no legal answer."""
LENGTH = "length"
"""The reply was cut at the token limit."""
OVERFLOW = "overflow"
"""The prompt was longer than the model's limit, so that there was no reply."""
REFUSAL = "refusal"
"""A server sent the model's refusal in place of a text."""
TOOL_CALLS = "tool_calls"
"""A server sent calls of tools in place of a text."""
EMPTY = "empty"
"""A server sent nothing in place of a text."""
NO_TEXT = (REFUSAL, TOOL_CALLS, EMPTY)
"""Reasons for an answer without text, which is not an invalid answer of the model."""

REMARK_LIMIT = 2000
"""Characters of a remark that are kept."""


class Reply(str):
    """A reply with what only its generator knows. A plain `str` is a reply of unknown length, not truncated."""

    tokens: int
    limit: int
    truncated: bool
    overflow: bool
    no_text: str | None

    def __new__(
        cls,
        text: str,
        tokens: int = 0,
        limit: int = 0,
        truncated: bool = False,
        overflow: bool = False,
        no_text: str | None = None,
    ) -> Reply:
        """`tokens`: length of the reply; `limit`: the most it could have been (0: unknown); `no_text`: why a server
        sent no text, one of `NO_TEXT`."""
        reply = super().__new__(cls, text)
        reply.tokens, reply.limit, reply.truncated, reply.overflow = tokens, limit, truncated, overflow
        reply.no_text = no_text
        return reply


def encodable(text: str) -> str:
    """Return the text with U+FFFD for each half of a surrogate pair. An environment may quote what it is sent."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@cache
def _tags(tag: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """What finds `<tag>` and `</tag>`, in any case."""
    opening, closing = (re.compile(re.escape(text), re.IGNORECASE | re.ASCII) for text in (f"<{tag}>", f"</{tag}>"))
    return opening, closing


_THINK, _THOUGHT = _tags("think")


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    match = None
    for match in pattern.finditer(text):  # noqa: B007
        pass
    return match


def after_reasoning(reply: str) -> str:
    """The text after the last `</think>`; what follows an unclosed `<think>` is reasoning too."""
    closed = _last(_THOUGHT, reply)
    text = reply[closed.end() :] if closed else reply
    opened = _THINK.search(text)
    return text[: opened.start()] if opened else text


class Parsed(NamedTuple):
    """A reply, taken apart."""

    reply: str
    """The text after the reasoning, stripped."""
    thought: str
    """Its free text before the tag; all of it without a tag."""
    answer: str | None
    """The stripped text inside the last `<tag>...</tag>`, None without one."""


def parse_reply(reply: str, tag: str | None) -> Parsed:
    """Takes a reply apart. `tag=None` is the bare form, for models that answer with nothing but the answer."""
    text = after_reasoning(reply) if "<" in reply else reply
    stripped = text.strip()
    if tag is None:
        return Parsed(stripped, "", stripped or None)
    opening, closing = _tags(tag)
    close = _last(closing, text)
    opened = _last(opening, text[: close.start()]) if close else None
    if close is None or opened is None:
        return Parsed(stripped, stripped, None)
    return Parsed(stripped, text[: opened.start()].strip(), text[opened.end() : close.start()].strip())


def parse_tag(reply: str, tag: str | None) -> str | None:
    """The answer in a reply, as `parse_reply` finds it."""
    return parse_reply(reply, tag).answer
