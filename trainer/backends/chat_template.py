"""Rendering of chats with a tokenizer's own chat template. No torch here."""

from __future__ import annotations

import datetime
import inspect
import re
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mage_envs.text.generation import Message

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

FAULTS = (TypeError, ValueError, LookupError, AttributeError)
"""Errors of Python inside a template, next to those of Jinja."""


class ChatTemplate:
    """A tokenizer's chat template, with fixed variables, date and system message.

    Args:
        system_prompt: System message before every chat.
        date: Date (YYYY-MM-DD) that a template writes instead of today's.

    Raises:
        ValueError: If there is no template, a variable is a parameter of the call, or the date is invalid.
    """

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, variables: Mapping[str, Any], system_prompt: str | None, date: str
    ) -> None:
        self.name = repr(tokenizer.name_or_path)
        if tokenizer.chat_template is None:
            raise ValueError(
                f"Tokenizer {self.name} has no chat template; use an instruction-tuned model, or set "
                f"tokenizer.chat_template and save it with the model."
            )
        # A variable of such a name would silently change a parameter of the call.
        reserved = {"messages", *inspect.signature(tokenizer.apply_chat_template).parameters}
        if conflicts := sorted(reserved & variables.keys()):
            raise ValueError(
                f"chat_template_kwargs may not set {conflicts[0]!r}, which apply_chat_template sets itself; set "
                f"variables of the chat template, such as enable_thinking."
            )
        self.lists_parts = False
        """True if the template reads a content as a list of parts instead of as a text."""
        self._tokenizer, self._variables, self._system = tokenizer, variables, system_prompt
        self._day = datetime.datetime.fromisoformat(date)

    def render(
        self, messages: Sequence[Message], opens_reply: bool = True, extra: Mapping[str, str] | None = None
    ) -> str:
        """Return the text of a chat.

        Args:
            messages: The chat without the system message.
            opens_reply: True to add the text that opens a reply.
            extra: Further fields of the last message.

        Raises:
            ValueError: If the template cannot render the chat.
        """
        # Imported here: the core package needs no tokenizer and does not install jinja2.
        from jinja2 import TemplateError

        chat: list[dict[str, Any]] = [
            {"role": role, "content": [{"type": "text", "text": content}] if self.lists_parts else content}
            for role, content in (*(() if self._system is None else (("system", self._system),)), *messages)
        ]
        chat[-1] |= extra or {}
        # By itself the template would write the day on which the run happens to be.
        variables: Any = {"strftime_now": self._day.strftime, **self._variables}
        try:
            text = self._tokenizer.apply_chat_template(
                chat, tokenize=False, add_generation_prompt=opens_reply, **variables
            )
        except (TemplateError, *FAULTS) as error:
            # Some templates raise it for a system message.
            raise ValueError(
                f"The chat template of {self.name} cannot render the chat ({error}); leave out "
                f"system_prompt or chat_template_kwargs, or use another model."
            ) from error
        return str(text)

    def shows_date(self) -> bool:
        """Return True if the template writes the date."""
        chat, day = (Message("user", "."),), self._day
        text = self.render(chat)
        self._day = day + datetime.timedelta(days=400)
        try:
            return self.render(chat) != text
        finally:
            self._day = day


class ControlTokens:
    """Texts of tokens that structure a chat, which a message's content must not become."""

    def __init__(self, texts: Collection[str]) -> None:
        longest_first = sorted((text for text in texts if len(text) > 1), key=len, reverse=True)
        # Without any, a pattern that matches nothing.
        self.pattern = re.compile("|".join(map(re.escape, longest_first)) or "(?!)")
        """Pattern of one token's text."""

    def insert_cuts(self, messages: Sequence[Message]) -> tuple[tuple[Message, ...], str]:
        """Return the messages with a cut inside every control token of a content, and the cut.

        The cut is a character that occurs in no content, and it is empty if nothing was cut. Pieces between cuts are
        encoded apart, so that the token's text stays a text.
        """
        pattern = self.pattern
        if not any(pattern.search(message.content) for message in messages):
            return tuple(messages), ""
        # Private-use characters, which no template handles.
        cut = next(sign for sign in map(chr, range(0xE000, 0xF8FF)) if all(sign not in m.content for m in messages))
        split = [
            Message(role, pattern.sub(lambda token: f"{token[0][0]}{cut}{token[0][1:]}", content))
            for role, content in messages
        ]
        return tuple(split), cut
