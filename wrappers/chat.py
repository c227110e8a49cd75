"""The chat with the model: a fresh message for each answer, or a conversation that grows."""

from __future__ import annotations

from collections.abc import Sequence

Message = dict[str, str]
"""Chat message: `{"role": "user" or "assistant", "content": text}`."""


class Chat:
    """Messages that the model's next answer replies to."""

    def __init__(self, converses: bool) -> None:
        self.converses = converses
        """True if messages are appended. Otherwise every message starts a new chat."""
        self.text = ""
        """Newest message to the model."""
        self.fresh = True
        """True if that message does not extend the messages of the previous call."""
        self._messages: list[Message] = []
        self._restored = False

    def __bool__(self) -> bool:
        """Return True if the next message continues a conversation."""
        return bool(self._messages)

    def clear(self) -> None:
        """Remove all messages, so that the next one starts a chat."""
        self._messages = []

    def add_user_message(self, text: str) -> None:
        """Set the next message to the model."""
        self.fresh = self._restored or not self._messages
        self._restored = False
        self.text = text
        if self.converses:
            self._messages.append({"role": "user", "content": text})

    def add_reply(self, reply: str) -> None:
        """Append the model's answer, if the chat is a conversation."""
        if self.converses:
            self._messages.append({"role": "assistant", "content": str(reply)})

    def messages(self) -> list[Message]:
        """Return all messages that the next answer replies to."""
        return list(self._messages) if self._messages else [{"role": "user", "content": self.text}]

    def kept(self) -> list[Message]:
        """Return a copy of the messages so far, for `restore`."""
        return [dict(message) for message in self._messages]

    def restore(self, messages: Sequence[Message]) -> None:
        """Replace the messages so far. The next message does not extend the previous call, so it is marked as fresh."""
        self._messages = [dict(message) for message in messages]
        self._restored = True

    def shorten(self) -> bool:
        """Drop the oldest question after the first, with its answer. Return False if none is left to drop."""
        # Five messages: the first question with its answer, one later pair that can be dropped, and the open question.
        if len(self._messages) < 5:
            return False
        # The first message alone holds the rules. Its answer stays, so that questions and answers still alternate.
        del self._messages[2:4]
        self.fresh = True
        return True
