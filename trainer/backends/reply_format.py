"""`ReplyFormat`: what a model's chat template and tokenizer say about its replies, found by a probe. No torch here.

The probe renders short chats with the model's own template and reads them back. It knows no model by name.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, fields
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from mage_envs.text.generation import Message
from mage_envs.text.thoughts import MARKERS
from mage_envs.trainer.backends.chat_template import ChatTemplate

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

QUESTION, REPLY, NEXT, THOUGHT = "probe-question", "probe-reply", "probe-next", "probe-thought"
"""Contents of the probe's chats. They have no outer whitespace, which templates strip."""
ASKED = (Message("user", QUESTION),)
ANSWERED = (*ASKED, Message("assistant", REPLY))
CONTINUED = (*ANSWERED, Message("user", NEXT))
FIELDS = ("reasoning_content", "thinking", "reasoning")
"""Fields of a message in which templates look for a thought."""
_TAG = re.compile(r"[<\[]/?[A-Za-z][\w:.-]*[>\]]")


@dataclass(frozen=True)
class ReplyFormat:
    """Facts about a model's replies, which a probe found."""

    end_ids: tuple[int, ...]
    """Ids of which any ends a reply."""
    turn_end_id: int | None = None
    """Id that the template writes after an earlier reply, or None."""
    reply_end_id: int | None = None
    """Id with which the template ends a whole reply, or None."""
    thought_start: str = ""
    """Marker before a thought; empty if the template has none."""
    thought_end: str = ""
    """Marker after a thought."""
    answer_start: str = ""
    """Text that the model writes before an answer without a thought, such as the name of a channel."""
    opens_thought: bool = False
    """True if the prompt ends inside a thought, so that every reply begins in it."""
    strips_thoughts: bool = False
    """True if the template leaves the thoughts of earlier replies out."""
    lists_parts: bool = False
    """True if the template reads contents as lists of parts."""
    shows_date: bool = False
    """True if the template writes the date."""
    extends: bool = True
    """True if the template writes a longer chat as a shorter one with further turns."""

    def describe(self, tokenizer: PreTrainedTokenizerBase) -> Iterator[tuple[str, str]]:
        """Yield the name and the text of each fact, for a reader."""

        def format_ids(ids: Collection[int | None]) -> str:
            return ", ".join(f"{tokenizer.convert_ids_to_tokens(i)} ({i})" for i in ids if i is not None) or "none"

        yield "a reply ends with", format_ids(self.end_ids)
        yield "after an earlier reply", format_ids((self.turn_end_id,))
        markers = f"{self.thought_start!r} to {self.thought_end!r}" if self.thought_start else "none in the template"
        yield "markers of a thought", markers
        yield "the prompt opens the thought", "yes" if self.opens_thought else "no"
        yield "thoughts of earlier replies", "left out" if self.strips_thoughts else "kept"
        if self.answer_start:
            yield "an answer begins with", repr(self.answer_start)
        yield "contents", "lists of parts" if self.lists_parts else "texts"
        yield (
            "a longer chat",
            "extends the shorter one" if self.extends else "is written anew, so conversations are refused",
        )
        yield "date in the prompt", "yes" if self.shows_date else "no"

    def difference(self, stored: ReplyFormat) -> str | None:
        """Return the first fact that differs from the stored ones, or None."""
        facts = ((item.name, getattr(stored, item.name), getattr(self, item.name)) for item in fields(self))
        return next((f"{name} was {old!r} and is {new!r}" for name, old, new in facts if old != new), None)


def probe_reply_format(
    tokenizer: PreTrainedTokenizerBase, template: ChatTemplate, end_ids: Collection[int]
) -> ReplyFormat:
    """Render chats, read them back, and return the facts. Sets `template.lists_parts`.

    Args:
        end_ids: Further ids that may end a reply, such as those of the model's generation config.

    Raises:
        ValueError: If the template drops a text or opens no reply, or if no id can end a reply.
    """
    _find_content_form(template)
    prompt, continued_chat = template.render(ASKED), template.render(CONTINUED)
    header = continued_chat[: continued_chat.index(REPLY)]
    closed = template.render(ASKED, opens_reply=False)
    # Without the header the model would have to write the role itself, before every reply.
    missing = header.removeprefix(closed).strip() if prompt == closed and header.startswith(closed) else ""
    if missing and not _is_thought(missing):
        raise ValueError(
            f"The chat template of {template.name} ignores add_generation_prompt, so that no prompt opens a reply "
            f"({missing!r} is missing). Save another chat_template with the model, or use another model."
        )
    start, end = _thought_markers(template, prompt, header)
    strips = bool(start) and _keeps(template, start, end) is not True
    controls = _template_tokens(tokenizer, template)
    answer = _beyond(prompt, header)
    # Words alone are part of a reply; a channel's name has a token of the template.
    thinks = any(marker and marker in answer for marker in (start, end))
    channel = answer if any(token in answer for token in controls) and not thinks else ""
    inside = start + end + channel
    answered_chat = template.render(ANSWERED, opens_reply=False)
    turn_end, reply_end = _token_after(tokenizer, continued_chat), _token_after(tokenizer, answered_chat)
    # transformers has the id of an unknown word for an end token outside the vocabulary.
    stray = tokenizer.eos_token_id == tokenizer.unk_token_id and tokenizer.eos_token != tokenizer.unk_token
    candidates = (None if stray else tokenizer.eos_token_id, turn_end, reply_end, *end_ids)
    texts: dict[int, Any] = {int(i): tokenizer.convert_ids_to_tokens(int(i)) for i in candidates if i is not None}
    ends = tuple(sorted(i for i, text in texts.items() if text is None or text not in inside))
    if not ends:
        raise ValueError(
            f"Tokenizer {template.name} has no token that ends a reply; set its eos_token and save it with the model."
        )
    return ReplyFormat(
        end_ids=ends,
        turn_end_id=turn_end,
        reply_end_id=next((i for i in (turn_end, reply_end) if i in ends), None),
        thought_start=start,
        thought_end=end,
        answer_start=channel,
        opens_thought=bool(start) and prompt.rstrip().endswith(start),
        strips_thoughts=strips,
        lists_parts=template.lists_parts,
        shows_date=template.shows_date(),
        extends=_extends(template, prompt, continued_chat),
    )


def control_texts(tokenizer: PreTrainedTokenizerBase, template: ChatTemplate, facts: ReplyFormat) -> set[str]:
    """Return the texts of the tokens that structure a chat: special ones, and those that the template writes.

    Tokens in pairs mark a part of a reply, such as `<think>` and `<action>`, unless the template writes them itself.
    """
    added = tokenizer.added_tokens_decoder.values()
    special = {token.content for token in added if token.special} | {str(text) for text in tokenizer.all_special_tokens}
    roles = {str(text) for name, text in tokenizer.special_tokens_map.items() if name.endswith("_token")}
    lowered = {token.content.lower(): token.content for token in added if token.content not in roles}
    thoughts = [*MARKERS, (facts.thought_start.lower(), facts.thought_end.lower())]
    tags = [(tag, _closing(tag)) for tag in lowered if _TAG.fullmatch(tag) and "/" not in tag]
    written = set(_template_tokens(tokenizer, template))
    # A template writes the markers of a thought, but `[INST]` and `[/INST]` are a user's turn.
    paired = {
        lowered[part]
        for pair in (*thoughts, *tags)
        if pair[0] in lowered and pair[1] in lowered and (pair in thoughts or lowered[pair[0]] not in written)
        for part in pair
    }
    return (special | written) - paired


def _closing(tag: str) -> str:
    return f"{tag[0]}/{tag[1:]}"


def _is_thought(text: str) -> bool:
    return any(text.lower().startswith(start) for start, _ in MARKERS)


def _find_content_form(template: ChatTemplate) -> None:
    """Choose the form of contents, a text or a list of parts, in which the template writes every text."""
    faults: list[str] = []
    for lists in (False, True):
        template.lists_parts = lists
        try:
            text = template.render(CONTINUED)
        except ValueError as error:
            faults.append(str(error))
            continue
        offsets = [text.find(message.content) for message in CONTINUED]
        if -1 not in offsets and offsets == sorted(offsets):
            return
        dropped = next((m.role for m, offset in zip(CONTINUED, offsets, strict=True) if offset < 0), None)
        fault = (
            "writes the messages in another order" if dropped is None else f"drops the text of a {dropped!r} message"
        )
        faults.append(
            f"The chat template of {template.name} {fault}, so that the model would not read the chat. Save another "
            f"chat_template with the model, or use another model."
        )
    # The fault of plain texts, which are what most templates read.
    raise ValueError(faults[0])


def _thought_markers(template: ChatTemplate, prompt: str, header: str) -> tuple[str, str]:
    """Return the markers around a thought, or two empty texts.

    The template writes them around a thought in a field of its own, drops a thought between them from an earlier
    reply, or opens every reply with the first one.
    """
    for field in FIELDS:
        try:
            text = template.render(ANSWERED, opens_reply=False, extra={field: THOUGHT})
        except ValueError:
            continue
        text_before, thought, behind = text.partition(THOUGHT)
        if not thought or REPLY not in behind:
            continue
        end = behind[: behind.index(REPLY)].strip()
        start = _beyond(prompt, text_before).strip()
        # A prompt that opens the thought has the whole marker in common with the chat, or a part of it.
        start = (
            next((tag for tag in _tags(text_before) if _closing(tag) == end), start)
            or _opening_markers(prompt, header)[0]
        )
        if start and end:
            return start, end
    dropped = next((pair for pair in MARKERS if _keeps(template, *pair) is False), None)
    return dropped or _opening_markers(prompt, header)


def _keeps(template: ChatTemplate, start: str, end: str) -> bool | None:
    """Return True if the template writes the thought of an earlier reply, or None if it refuses the markers."""
    reply = Message("assistant", f"{start}\n{THOUGHT}\n{end}\n\n{REPLY}")
    try:
        return THOUGHT in template.render((*ASKED, reply, CONTINUED[-1]))
    except ValueError:
        return None


def _extends(template: ChatTemplate, prompt: str, continued_chat: str) -> bool:
    """Return True if chats of one, two and three turns are the same text as far as they are the same chat."""
    third = "probe-third"
    try:
        longer = template.render((*CONTINUED, ANSWERED[-1], Message("user", third)))
    except ValueError:
        return False
    # From the end, because the replies are equal.
    same_turn = longer.rpartition(REPLY)[2] == continued_chat.rpartition(REPLY)[2].replace(NEXT, third)
    return (
        same_turn
        and longer.partition(NEXT)[0] == continued_chat.partition(NEXT)[0]
        and continued_chat.partition(QUESTION)[0] == prompt.partition(QUESTION)[0]
    )


def _beyond(shorter: str, text: str) -> str:
    """Return the rest of the text behind the characters that both begin with."""
    return text[sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(shorter, text, strict=False))) :]


def _tags(text: str) -> list[str]:
    return [match[0] for match in _TAG.finditer(text)][::-1]


def _opening_markers(prompt: str, header: str) -> tuple[str, str]:
    """Return the markers of the thought that a prompt opens, or two empty texts."""
    text = prompt.rstrip()
    for start, end in MARKERS:
        if text.lower().endswith(start):
            return text[len(text) - len(start) :], end
    # Any other tag that an earlier reply does not begin with.
    tail = _beyond(header, text).strip()
    return (tail, _closing(tail)) if _TAG.fullmatch(tail) and "/" not in tail else ("", "")


def _template_tokens(tokenizer: PreTrainedTokenizerBase, template: ChatTemplate) -> list[str]:
    """Return the texts of the added tokens that the template writes around contents."""
    written = template.render(CONTINUED) + template.render(ANSWERED, opens_reply=False)
    for field in FIELDS:
        try:
            written += template.render(ANSWERED, opens_reply=False, extra={field: THOUGHT})
        except ValueError:
            continue
    # Some tokenizers have tokens of several line breaks, which structure no chat.
    texts = [token.content for token in tokenizer.added_tokens_decoder.values() if token.content.strip()]
    return [text for text in texts if text in written]


def _token_after(tokenizer: PreTrainedTokenizerBase, text: str) -> int | None:
    """Return the id of the added token right after the reply, if there is one."""
    behind = text[text.index(REPLY) + len(REPLY) :].partition(NEXT)[0].lstrip()
    tokens = sorted(tokenizer.added_tokens_decoder.items(), key=lambda item: -len(item[1].content))
    return next((int(i) for i, token in tokens if token.content and behind.startswith(token.content)), None)
