"""Conversion between chats and token ids. Sampled ids are kept, so nothing is ever tokenised twice. No torch here."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from mage_envs.text.generation import Completion, Message, Prompt
from mage_envs.text.thoughts import END, MARKERS, START
from mage_envs.trainer.backends.chat_template import ChatTemplate, ControlTokens
from mage_envs.trainer.backends.reply_format import control_texts, probe_reply_format

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Ids = tuple[int, ...]

CACHED_TEXTS = 1024
"""Most first prompts, and most suffixes, in the caches. The members of a group share theirs."""
DATE = "2026-01-01"
"""Date in the prompts of templates that write one, unless an option sets another: a run must not depend on its day."""
_SHUT, _OPEN = "\uf8ff", "\uf8fe"
"""Signs around the text of a control token in a decoded reply, before the markers are read."""
_CONTROL = re.compile(f"{_OPEN}[^{_OPEN}{_SHUT}]*{_SHUT}")


@dataclass(frozen=True)
class PromptFormat:
    """Rules that turn a chat into a model's token ids, and that end its replies.

    Training makes it from the config, and `mage.json` stores it. The chat template itself is saved with the tokenizer.
    """

    chat_template_kwargs: Mapping[str, str | int | float | bool | None] = field(default_factory=dict)
    """Variables of the chat template, such as `enable_thinking`."""
    system_prompt: str | None = None
    """System message before every chat."""
    end_ids: tuple[int, ...] = ()
    """Ids that end a reply, in addition to the tokenizer's EOS and the token that the template puts after a turn.

    An id that occurs inside a reply ends none.
    """
    max_prompt_length: int | None = None
    """Prompt limit in tokens; None disables it."""
    date: str = DATE
    """Date (YYYY-MM-DD) in the prompts, if the chat template writes one."""

    def __post_init__(self) -> None:
        try:
            if datetime.date.fromisoformat(self.date).isoformat() != self.date:
                raise ValueError("another form")
        except ValueError:
            raise ValueError(f"date={self.date!r} must be a day in the form YYYY-MM-DD, as in {DATE}.") from None
        for name, value in self.chat_template_kwargs.items():
            if not isinstance(value, str | int | float | bool | None):
                raise ValueError(
                    f"chat_template_kwargs[{name!r}] must be text, a number, true, false or null, got {value!r}."
                )


class ActionTrie:
    """The ids that may follow a prefix of a reply, and the reply that a whole sequence is."""

    def __init__(self, sequences: Mapping[str, Ids], end_id: int | None) -> None:
        """Build the trie.

        Args:
            sequences: Ids of each reply. A reply with the ids of an earlier one is left out: the model cannot tell them
                apart.
            end_id: Id that ends a reply whose ids begin another one, or None.

        Raises:
            ValueError: If the ids of a reply are empty, or begin another one without an id to end it.
        """
        self._replies: dict[Ids, str] = {}
        for reply, ids in sequences.items():
            if not ids:
                raise ValueError(f"The action {reply!r} has no tokens in this model's vocabulary.")
            self._replies.setdefault(ids, reply)
        self._allowed: dict[Ids, Ids] = {}
        for ids in self._replies:
            for length in range(len(ids)):
                known = self._allowed.get(ids[:length], ())
                if ids[length] not in known:
                    self._allowed[ids[:length]] = (*known, ids[length])
        for ids, reply in list(self._replies.items()):
            if ids in self._allowed:
                if end_id is None:
                    raise ValueError(f"The action {reply!r} begins another one, and the model has no end token.")
                self._allowed[ids] = (*self._allowed[ids], end_id)
                self._replies[*ids, end_id] = self._replies.pop(ids)
        self.depth = max(map(len, self._replies), default=0)
        """Number of tokens of the longest reply."""

    def allowed(self, prefix: Sequence[int]) -> Ids:
        """Return the ids that may follow a prefix, in the order of the actions; none if it is a whole reply."""
        return self._allowed.get(tuple(prefix), ())

    def reply(self, ids: Sequence[int]) -> str | None:
        """Return the reply of these ids, or None if they are not a whole one."""
        return self._replies.get(tuple(ids))

    def ids(self, reply: str) -> Ids:
        """Return the ids of a reply; empty if the trie does not contain it."""
        return next((ids for ids, known in self._replies.items() if known == reply), ())

    def legal_ids(self, ids: Sequence[int]) -> tuple[Ids, ...]:
        """Return the ids that each of these was drawn among."""
        return tuple(self.allowed(ids[:length]) for length in range(len(ids)))


class ChatTokenizer:
    """A Hugging Face tokenizer with a chat template, as a function from prompts to ids."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, prompt_format: PromptFormat | None = None) -> None:
        """Probe the tokenizer's chat template.

        Raises ValueError if the template cannot render the format or drops a text, or if nothing ends a reply.
        """
        prompt_format = prompt_format or PromptFormat()
        self.tokenizer = tokenizer
        self._template = ChatTemplate(
            tokenizer, prompt_format.chat_template_kwargs, prompt_format.system_prompt, prompt_format.date
        )
        self.reply_format = probe_reply_format(tokenizer, self._template, prompt_format.end_ids)
        """Facts about the model's replies."""
        texts = control_texts(tokenizer, self._template, self.reply_format)
        self._controls = ControlTokens(texts)
        self._dropped = {
            int(i): token.content for i, token in tokenizer.added_tokens_decoder.items() if token.content in texts
        }
        """Tokens that are no part of a reply's text, by their ids."""
        # Caches of this instance, not of the class: they end with it, and other formats give other ids.
        self._first: Callable[[tuple[Message, ...]], Ids] = lru_cache(CACHED_TEXTS)(self._encode_chat)
        self._suffix: Callable[[str], Ids] = lru_cache(CACHED_TEXTS)(self._encode_suffix)
        self.single_ids: Callable[[tuple[str, ...]], Ids] = lru_cache(CACHED_TEXTS)(self._encode_actions)
        """Function from actions to one id per action, or to an empty tuple if an action is not exactly one token.

        The ids of legal actions describe a reply only if it is the bare action word (one-token answers).
        """
        self.action_trie: Callable[[tuple[str, ...], str | None, tuple[str, ...]], ActionTrie] = lru_cache(
            CACHED_TEXTS
        )(self._make_trie)
        """Function from legal actions, the tag around an answer or None, and the words of the actions (empty for their
        own text), to the trie of the replies."""
        self._decoded: Callable[[Ids], str] = lru_cache(CACHED_TEXTS)(self._decode)
        self.turn_end_id = self.reply_format.turn_end_id
        """The added token that the template puts right after an assistant's content, or None."""
        self.end_ids: frozenset[int] = frozenset(self.reply_format.end_ids)
        """Ids of which any ends a reply."""
        pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
        self.pad_id: int = 0 if pad is None else int(pad)

    def prompt_trie(self, prompt: Prompt) -> ActionTrie:
        """Return the trie of the replies to a prompt among its legal actions."""
        words = prompt.info.get("action_words", {})
        spelled = tuple(words[action] for action in prompt.legal_actions) if words else ()
        return self.action_trie(prompt.legal_actions, prompt.info.get("answer_tag"), spelled)

    def encode(self, prompt: Prompt) -> Ids:
        """Return the ids of the whole prompt up to the reply.

        In a conversation they extend the ids that were sent and sampled before.
        """
        previous = prompt.previous
        if previous is None:
            return self._first(prompt.messages)
        if not previous.prompt_ids:
            raise ValueError(
                f"Prompt of slot {prompt.slot} continues a reply without token ids (a scripted one?); pass the "
                f"scripted generator a tokenizer, or use the context 'rebuilt'."
            )
        if prompt.messages[-1].role != "user":
            raise ValueError(
                f"Prompt of slot {prompt.slot} ends with a message of role {prompt.messages[-1].role!r}; "
                f"a conversation continues with a 'user' message."
            )
        if not self.reply_format.extends:
            raise ValueError(
                f"The chat template of {self._template.name} writes a longer chat anew, so that no conversation can "
                f"continue its ids. Use the context 'rebuilt', or another model."
            )
        suffix = self._suffix(prompt.messages[-1].content)
        if previous.ids and previous.ids[-1] in self.end_ids and self.turn_end_id in suffix:
            # The reply has its own end, and a turn ends once.
            end = suffix.index(self.turn_end_id)
            if not self._decode_plain(suffix[:end]).strip():
                suffix = suffix[end + 1 :]
        return previous.prompt_ids + previous.ids + suffix

    def encode_reply(self, text: str) -> Ids:
        """Return the ids of `text` as a scripted assistant's reply, with the template's turn end."""
        facts = self.reply_format
        ids = (*self._encode_text(facts.answer_start), *self._encode_content(text))
        return ids if facts.reply_end_id is None else (*ids, facts.reply_end_id)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the reply's text, without end tokens and other control tokens.

        Markers of thoughts that no parser knows, and those that are control tokens, become `<think>` and `</think>`.
        """
        return self._decoded(tuple(i for i in ids if i not in self.end_ids))

    def read_reply(self, ids: Sequence[int]) -> str:
        """Return a free reply's text, with the start of the thought that the prompt opened."""
        text = self.decode(ids)
        return f"{START}\n{text}" if self.reply_format.opens_thought else text

    def _decode(self, ids: Ids) -> str:
        start, end, channel = (
            getattr(self.reply_format, name) for name in ("thought_start", "thought_end", "answer_start")
        )
        readable = (start.lower(), end.lower()) in MARKERS
        if not any(i in self._dropped for i in ids):
            text = self._decode_plain(ids)
            return text if readable or not start else text.replace(start, START).replace(end, END)
        # The signs keep the text of a control token apart from the same text, spelled by other tokens.
        parts, plain = [], list[int]()
        for i in ids:
            if i in self._dropped:
                parts += [self._decode_plain(plain), f"{_OPEN}{self._dropped[i]}{_SHUT}"]
                plain = []
            else:
                plain.append(i)
        text = "".join([*parts, self._decode_plain(plain)])
        for marker, written in ((end, END), (start, START), (channel, "")):
            if marker:
                text = text.replace(self._with_signs(marker), written)
        return _CONTROL.sub("", text)

    def _decode_plain(self, ids: Sequence[int]) -> str:
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False))

    def _with_signs(self, marker: str) -> str:
        """Return a marker with the signs around its control tokens."""
        return self._controls.pattern.sub(lambda token: f"{_OPEN}{token[0]}{_SHUT}", marker)

    def _encode_actions(self, actions: tuple[str, ...]) -> Ids:
        encoded = self._encode_choices(actions)
        return tuple(ids[0] for ids in encoded) if all(len(ids) == 1 for ids in encoded) else ()

    def _make_trie(self, actions: tuple[str, ...], tag: str | None, spelled: tuple[str, ...]) -> ActionTrie:
        replies, texts = (
            [text if tag is None else f"<{tag}>{text}</{tag}>" for text in texts]
            for texts in (actions, spelled or actions)
        )
        end = self.reply_format.reply_end_id
        # The words of a game end no turn in a chat, but the tokenizer has an end token.
        end = min(self.end_ids, default=None) if end is None else end
        return ActionTrie(dict(zip(replies, self._encode_choices(texts), strict=True)), end)

    def _encode_choices(self, replies: Sequence[str]) -> list[Ids]:
        encoded = [self._encode_text(reply) for reply in replies]
        # They would all be the same token.
        if replies and all(set(ids) == {self.tokenizer.unk_token_id} for ids in encoded):
            raise ValueError(f"None of the actions is in this model's vocabulary: {', '.join(replies)}.")
        return encoded

    def _encode_text(self, text: str) -> Ids:
        return tuple(self.tokenizer.encode(text, add_special_tokens=False))

    def _encode_chat(self, messages: tuple[Message, ...]) -> Ids:
        written, cut = self._controls.insert_cuts(messages)
        return self._encode_pieces(self._template.render(written), cut)

    def _encode_content(self, text: str) -> Ids:
        [message], cut = self._controls.insert_cuts([Message("assistant", text)])
        return self._encode_pieces(message.content, cut)

    def _encode_pieces(self, text: str, cut: str) -> Ids:
        start, *others = text.split(cut) if cut else [text]
        return sum(map(self._encode_inner, others), self._encode_text(start))

    def _encode_inner(self, piece: str) -> Ids:
        """Return the ids of a text that stands inside another one."""
        # Some tokenizers write a space before a text, but not behind a line break.
        line_break = self._encode_text("\n")
        ids = self._encode_text(f"\n{piece}")
        inside = ids[: len(line_break)] == line_break
        return ids[len(line_break) :] if inside else self._encode_text(piece)

    def _encode_suffix(self, content: str) -> Ids:
        """Return the ids between an assistant's content and the reply to the user message `content`."""
        # Rendered with a mark in place of the assistant's content, because templates may strip or rewrite real content.
        mark = "@@"
        while mark in content:
            mark += "@"
        chat, cut = self._controls.insert_cuts(
            (Message("user", "."), Message("assistant", mark), Message("user", content))
        )
        # The template may strip whitespace, but never touches the mark; the last one belongs to the assistant.
        return self._encode_pieces(self._template.render(chat).rpartition(mark)[2], cut)


def make_completion(
    prompt: Prompt,
    tokens: ChatTokenizer,
    prompt_ids: Ids,
    ids: Ids,
    logprobs: tuple[float, ...] | None,
    max_new_tokens: int,
    trie: ActionTrie | None = None,
) -> Completion:
    """Return the completion of `ids`, cut after its first end id.

    Args:
        prompt: The prompt that was answered.
        prompt_ids: Ids of the whole prompt.
        logprobs: Log-probabilities of `ids`, if known.
        max_new_tokens: Limit of a reply in tokens.
        trie: Trie that the reply was drawn from, or None if it is free. The legal ids of a free reply of one token are
            those of the legal actions.
    """
    length = next((number for number, token_id in enumerate(ids, start=1) if token_id in tokens.end_ids), len(ids))
    ids, logprobs = ids[:length], None if logprobs is None else logprobs[:length]
    if trie is not None:
        # The trie knows the action, also if the tokenizer writes its text in another way.
        text = trie.reply(ids) or tokens.decode(ids)
        return Completion(text, prompt_ids, ids, logprobs, legal_ids=trie.legal_ids(ids))
    legal = tokens.single_ids(prompt.legal_actions) if max_new_tokens == 1 else ()
    # One-token answers are never cut at the limit.
    truncated = max_new_tokens > 1 and len(ids) >= max_new_tokens and ids[-1] not in tokens.end_ids
    # A bare action word has no thought.
    text = tokens.decode(ids) if legal or max_new_tokens == 1 else tokens.read_reply(ids)
    drawn_among = (legal,) if legal else ()
    return Completion(text, prompt_ids, ids, logprobs, truncated=truncated, legal_ids=drawn_among)
