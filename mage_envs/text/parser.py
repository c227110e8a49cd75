"""The only parser of model replies: strict tags after the reasoning, without guesses from prose."""

from __future__ import annotations

from typing import NamedTuple

from mage_envs.text.thoughts import after_thoughts, lower_ascii

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


class Parsed(NamedTuple):
    """The parts of a reply."""

    reply: str
    """The text after the thoughts, stripped."""
    thought: str
    """Free text before the tag, or the whole text if the tag is missing."""
    answer: str | None
    """Stripped text from the last opening tag that is closed to its first closing tag, or None if there is none."""


def parse_reply(reply: str, tag: str | None) -> Parsed:
    """Split a reply into its parts. If `tag` is None, the whole text is the answer."""
    text = after_thoughts(reply, tag)
    stripped = text.strip()
    if tag is None:
        return Parsed(stripped, "", stripped or None)
    lowered, tag = lower_ascii(text), lower_ascii(tag)
    opening, closing = f"<{tag}>", f"</{tag}>"
    # The last opening tag that has a closing one: a model may name the tags in its text before it uses them.
    last_closing = lowered.rfind(closing)
    opened = lowered.rfind(opening, 0, last_closing) if last_closing >= 0 else -1
    if opened < 0:
        return Parsed(stripped, stripped, None)
    # Up to the first closing tag behind it, because models repeat closing tags.
    close = lowered.index(closing, opened + len(opening))
    return Parsed(stripped, text[:opened].strip(), text[opened + len(opening) : close].strip())


def parse_tag(reply: str, tag: str | None) -> str | None:
    """Return the answer in a reply, as `parse_reply` finds it."""
    return parse_reply(reply, tag).answer


def without_tag(action: str) -> str:
    """Return the answer in the tag of the meta ids, which agents keep in base ids too, or the text itself."""
    # Almost every action has none, and a search is cheaper than parsing.
    return parse_tag(action, "action") or action if "</action>" in action else action
