"""The chat with the model: one fresh message at a time, or a conversation that grows."""

from __future__ import annotations

from collections.abc import Sequence

Message = dict[str, str]
"""`{"role": "user" or "assistant", "content": text}`."""


class Chat:
    """What the next answer replies to."""

    def __init__(self, converses: bool) -> None:
        self.converses = converses
        """Whether messages are appended; else each stands alone."""
        self.text = ""
        """The newest message to the model."""
        self.fresh = True
        """Whether that message starts a chat, so that it does not extend the last one."""
        self._messages: list[Message] = []
        self._restored = False

    def __bool__(self) -> bool:
        """Whether the next message goes on with a conversation."""
        return bool(self._messages)

    def clear(self) -> None:
        """The next message starts a chat."""
        self._messages = []

    def ask(self, text: str) -> None:
        """The next message to the model."""
        self.fresh = self._restored or not self._messages
        self._restored = False
        self.text = text
        if self.converses:
            self._messages.append({"role": "user", "content": text})

    def take(self, reply: str) -> None:
        """The model's answer."""
        if self.converses:
            self._messages.append({"role": "assistant", "content": str(reply)})

    def messages(self) -> list[Message]:
        """All that the next answer replies to."""
        return list(self._messages) if self._messages else [{"role": "user", "content": self.text}]

    def kept(self) -> list[Message]:
        """The messages so far, to come back to."""
        return [dict(message) for message in self._messages]

    def restore(self, messages: Sequence[Message]) -> None:
        """Takes other messages for those so far; what is asked next is sent with all of them."""
        self._messages = [dict(message) for message in messages]
        self._restored = True

    def shorten(self) -> bool:
        """Drop the oldest question after the first, with its answer. Return False if none is left to drop."""
        if len(self._messages) < 5:
            return False
        # The first message alone holds the rules. Its answer stays, so that questions and answers still alternate.
        del self._messages[2:4]
        self.fresh = True
        return True
