"""Conversion between chats and token ids. Sampled ids are kept, so nothing is ever tokenised twice. No torch here."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from mage_envs.text.generation import Completion, Message, Prompt

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Ids = tuple[int, ...]

CACHED_TEXTS = 1024
"""Most first prompts, and most suffixes, in the caches. The members of a group share theirs."""


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
    """Ids that end a reply, in addition to the tokenizer's EOS and the token that the template puts after a turn."""
    max_prompt_length: int | None = None
    """Prompt limit in tokens; None disables it."""

    def __post_init__(self) -> None:
        for name, value in self.chat_template_kwargs.items():
            if not isinstance(value, str | int | float | bool | None):
                raise ValueError(
                    f"chat_template_kwargs[{name!r}] must be text, a number, true, false or null, got {value!r}."
                )


class ChatTokenizer:
    """A Hugging Face tokenizer with a chat template, as a function from prompts to ids."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, prompt_format: PromptFormat | None = None) -> None:
        """Raises ValueError if the tokenizer's template cannot render the format."""
        prompt_format = prompt_format or PromptFormat()
        if tokenizer.chat_template is None:
            raise ValueError(
                f"Tokenizer {tokenizer.name_or_path!r} has no chat template; use an instruction-tuned model, or set "
                f"tokenizer.chat_template and save it with the model."
            )
        # A variable of such a name would silently change a parameter of the call.
        own = {"messages", *inspect.signature(tokenizer.apply_chat_template).parameters}
        if taken := sorted(own & prompt_format.chat_template_kwargs.keys()):
            raise ValueError(
                f"chat_template_kwargs may not set {taken[0]!r}, which apply_chat_template sets itself; set "
                f"variables of the chat template, such as enable_thinking."
            )
        self.tokenizer = tokenizer
        self._format = prompt_format
        # Caches of this instance, not of the class: they end with it, and other formats give other ids.
        self._first: Callable[[tuple[Message, ...]], Ids] = lru_cache(CACHED_TEXTS)(self._encode_chat)
        self._suffix: Callable[[str], Ids] = lru_cache(CACHED_TEXTS)(self._encode_suffix)
        self.single_ids: Callable[[tuple[str, ...]], Ids] = lru_cache(CACHED_TEXTS)(self._encode_actions)
        """Function from actions to one id per action, or to an empty tuple if an action is not exactly one token.

        The ids of legal actions describe a reply only if it is the bare action word (one-token answers, constrained
        decoding).
        """
        self._decoded: Callable[[Ids], str] = lru_cache(CACHED_TEXTS)(self._decode)
        self.turn_end_id = self._find_turn_end()
        """The special token that the template puts right after an assistant's content, or None."""
        known = (tokenizer.eos_token_id, self.turn_end_id, *prompt_format.end_ids)
        self.end_ids: frozenset[int] = frozenset(int(i) for i in known if i is not None)
        """Ids of which any ends a reply."""
        pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
        self.pad_id: int = 0 if pad is None else int(pad)

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
        suffix = self._suffix(prompt.messages[-1].content)
        if previous.ids and previous.ids[-1] == self.turn_end_id:
            # The reply contains its own turn end, which the template would add again.
            suffix = suffix[1:]
        return previous.prompt_ids + previous.ids + suffix

    def encode_reply(self, text: str) -> Ids:
        """Return the ids of `text` as a scripted assistant's reply, with the template's turn end."""
        ids = self._encode_text(text)
        return ids if self.turn_end_id is None else (*ids, self.turn_end_id)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the reply's text, without end tokens and other special tokens."""
        return self._decoded(tuple(i for i in ids if i not in self.end_ids))

    def strips_thoughts(self) -> bool:
        """Return True if the template leaves the thoughts of earlier replies out of a chat."""
        reply = "<think>\nthought\n</think>\n\nanswer"
        return "thought" not in self._render((Message("user", "."), Message("assistant", reply), Message("user", ".")))

    def _decode(self, ids: Ids) -> str:
        text = self.tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return str(text)

    def _encode_actions(self, actions: tuple[str, ...]) -> Ids:
        encoded = [self._encode_text(action) for action in actions]
        return tuple(ids[0] for ids in encoded) if all(len(ids) == 1 for ids in encoded) else ()

    def _encode_text(self, text: str) -> Ids:
        return tuple(self.tokenizer.encode(text, add_special_tokens=False))

    def _encode_chat(self, messages: tuple[Message, ...]) -> Ids:
        return self._encode_text(self._render(messages))

    def _encode_suffix(self, content: str) -> Ids:
        return self._encode_text(self._suffix_text(content))

    def _suffix_text(self, content: str) -> str:
        """Return the template's text between an assistant's content and the reply to the user message `content`."""
        # Rendered with a mark in place of the assistant's content, because templates may strip or rewrite real content.
        mark = "@@"
        while mark in content:
            mark += "@"
        chat = (Message("user", "."), Message("assistant", mark), Message("user", content))
        # The template may strip whitespace, but never touches the mark; the last one belongs to the assistant.
        return self._render(chat).rpartition(mark)[2]

    def _render(self, messages: Sequence[Message]) -> str:
        # Imported here: the core package needs no tokenizer and does not install jinja2.
        from jinja2 import TemplateError

        system = self._format.system_prompt
        variables: Any = self._format.chat_template_kwargs
        chat = [] if system is None else [{"role": "system", "content": system}]
        chat += [{"role": message.role, "content": message.content} for message in messages]
        try:
            text = self.tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True, **variables)
        except TemplateError as error:
            # Some templates raise it for a system message.
            raise ValueError(
                f"The chat template of {self.tokenizer.name_or_path!r} cannot render the chat ({error}); leave out "
                f"system_prompt or chat_template_kwargs, or use another model."
            ) from error
        return str(text)

    def _find_turn_end(self) -> int | None:
        text = self._suffix_text(".").lstrip()
        for token_id, token in self.tokenizer.added_tokens_decoder.items():
            if token.special and text.startswith(token.content):
                return int(token_id)
        return None


def make_completion(
    prompt: Prompt,
    tokens: ChatTokenizer,
    prompt_ids: Ids,
    ids: Ids,
    logprobs: tuple[float, ...] | None,
    max_new_tokens: int,
    legal: Ids | None = None,
) -> Completion:
    """Return the completion of `ids`, cut after its first end id.

    Args:
        prompt: The prompt that was answered.
        tokens: Tokenizer of the model.
        prompt_ids: Ids of the whole prompt.
        ids: Sampled ids.
        logprobs: Log-probabilities of `ids`, if known.
        max_new_tokens: Limit of a reply in tokens.
        legal: Ids of the legal answers. None looks them up if replies are limited to one token.
    """
    length = next((number for number, one in enumerate(ids, start=1) if one in tokens.end_ids), len(ids))
    ids, logprobs = ids[:length], None if logprobs is None else logprobs[:length]
    if legal is None:
        legal = tokens.single_ids(prompt.legal_actions) if max_new_tokens == 1 else ()
    # One-token answers are never cut at the limit.
    truncated = max_new_tokens > 1 and len(ids) >= max_new_tokens and ids[-1] not in tokens.end_ids
    return Completion(tokens.decode(ids), prompt_ids, ids, logprobs, truncated=truncated, legal_ids=legal)
