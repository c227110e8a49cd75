"""The only parser of model replies: strict tags after the reasoning, without guesses from prose."""

from __future__ import annotations

from typing import NamedTuple

INVALID = "invalid"
"""The reply has no answer, or no legal one."""
LENGTH = "length"
"""The reply was cut at the token limit."""
OVERFLOW = "overflow"
"""The prompt was longer than the model's limit, so the model did not reply."""
REFUSAL = "refusal"
"""A server returned the model's refusal instead of a text."""
TOOL_CALLS = "tool_calls"
"""A server returned tool calls instead of a text."""
EMPTY = "empty"
"""A server returned nothing instead of a text."""
NO_TEXT = (REFUSAL, TOOL_CALLS, EMPTY)
"""Reasons for an answer without text, which is not an invalid answer of the model."""

REMARK_LIMIT = 2000
"""Limit of characters of a stored remark."""


class Reply(str):
    """A reply with details from its generator. A plain `str` is a reply of unknown length, not truncated."""

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
        """Create a reply.

        Args:
            text: Text of the reply.
            tokens: Length of the reply in tokens.
            limit: Maximum length in tokens (0: unknown).
            truncated: True if the reply was cut at the token limit.
            overflow: True if the prompt was too long, so that the model did not reply.
            no_text: Reason if a server returned no text, one of `NO_TEXT`.
        """
        reply = super().__new__(cls, text)
        reply.tokens, reply.limit, reply.truncated, reply.overflow = tokens, limit, truncated, overflow
        reply.no_text = no_text
        return reply


def encodable(text: str) -> str:
    """Return the text with U+FFFD for each half of a surrogate pair. A `Reply` keeps its details."""
    # A reply may hold such halves, and an environment may quote it in a prompt that a tokenizer must read.
    if text.isascii():
        return text
    valid = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(text, Reply):
        valid = Reply(valid)
        vars(valid).update(vars(text))
    return valid


def _lower(text: str) -> str:
    """Return a text of the same length, with ASCII letters in lower case."""
    if text.isascii():
        return text.lower()
    # `str.lower` may change the length of other texts, and reads the Kelvin sign as a "k".
    return text.encode("utf-8", "surrogatepass").lower().decode("utf-8", "surrogatepass")


def after_reasoning(reply: str) -> str:
    """Return the text after the last `</think>` and before an unclosed `<think>`."""
    lowered = _lower(reply)
    closed = lowered.rfind("</think>")
    start = closed + len("</think>") if closed >= 0 else 0
    opened = lowered.find("<think>", start)
    return reply[start:opened] if opened >= 0 else reply[start:]


class Parsed(NamedTuple):
    """The parts of a reply."""

    reply: str
    """The text after the reasoning, stripped."""
    thought: str
    """Free text before the tag, or the whole text if the tag is missing."""
    answer: str | None
    """Stripped text inside the last `<tag>...</tag>`, or None if the tag is missing."""


def parse_reply(reply: str, tag: str | None) -> Parsed:
    """Split a reply into its parts. If `tag` is None, the whole text is the answer."""
    # Most replies of small models are bare words: without "<" they hold neither reasoning nor tags.
    text = after_reasoning(reply) if "<" in reply else reply
    stripped = text.strip()
    if tag is None:
        return Parsed(stripped, "", stripped or None)
    lowered, tag = _lower(text), _lower(tag)
    opening, closing = f"<{tag}>", f"</{tag}>"
    # The last opening tag before the last closing tag: a model may name the tags in its text before it uses them.
    close = lowered.rfind(closing)
    opened = lowered.rfind(opening, 0, close) if close >= 0 else -1
    if opened < 0:
        return Parsed(stripped, stripped, None)
    return Parsed(stripped, text[:opened].strip(), text[opened + len(opening) : close].strip())


def parse_tag(reply: str, tag: str | None) -> str | None:
    """Return the answer in a reply, as `parse_reply` finds it."""
    return parse_reply(reply, tag).answer
