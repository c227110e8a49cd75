"""Failures of calls: their kinds, and exceptions with the server's message, which have no address in their text."""

from __future__ import annotations

import re
from typing import Self
from urllib.parse import urlsplit

TIMEOUT = "timeout"
"""Kind of a call without a complete answer within the deadline."""
REFUSED = "refused"
"""Kind of a call to an address that refuses connections."""
CONNECTION = "connection"
"""Kind of a call without a connection, or with one that broke."""
GARBAGE = "garbage"
"""Kind of a call with an answer that is not a chat completion."""
BUDGET = "budget"
"""Kind of a call that was not sent because the budget is spent."""
PROMPT = "prompt"
"""Kind of a call that was not sent because its prompt cannot be encoded."""
REDIRECT = "redirect"
"""Kind of a call that the server redirects to another address; nothing is sent there."""
HTTP = "http"
"""Kind of a call with an error status, which follows the kind: `http 404`."""


HIDDEN = "[address]"
"""Text in place of a server's address."""
_ADDRESSES = re.compile(
    r"\b[a-z][a-z0-9+.-]*://[^\s'\"<>)\]]+"
    r"|\blocalhost(:\d+)?\b"
    r"|(?<![\w.])\d{1,3}(\.\d{1,3}){3}(:\d+)?\b"
    r"|\[[0-9a-f.]*:[0-9a-f:.]*\](:\d+)?"
    r"|\b[a-z0-9-]+(\.[a-z0-9-]+)+:\d{2,5}\b",
    re.IGNORECASE,
)
"""URLs, hosts with a port, and numeric addresses."""


class CallFailed(Exception):
    """A failed call. Its text, `kind: detail`, is the `error` of a Completion, which records and reports show."""

    def __init__(
        self, kind: str, detail: str, passing: bool = False, wait: float | None = None, address: str = ""
    ) -> None:
        """Initialize the failure.

        Args:
            kind: One of the kinds above, for HTTP errors with the status.
            detail: Reason, as a text for the user.
            passing: True if the same call may succeed later, so that it is retried.
            wait: Seconds to wait before the next attempt, if the server sent `Retry-After`.
            address: Address to check, for the terminal alone; empty if the failure is not about an address.
        """
        super().__init__(f"{kind}: {detail}")
        self.kind = kind
        self.detail = detail
        self.passing = passing
        self.wait = wait
        self.address = address

    def without_address(self, url: str) -> Self:
        """Return the failure with a text that has neither the host and port of `url` nor any other address."""
        return type(self)(self.kind, without_addresses(self.detail, url), self.passing, self.wait, self.address)

    def with_note(self, note: str) -> Self:
        """Return the failure with a note in parentheses behind its text."""
        return type(self)(self.kind, f"{self.detail} ({note})", self.passing, self.wait, self.address)


class PromptTooLong(CallFailed):
    """A prompt that exceeds the context of the server's model."""


class NotReached(CallFailed):
    """A failure to connect to the endpoint."""


def without_addresses(text: str, url: str) -> str:
    """Return the text with `[address]` in place of every address that it shows, such as the host and port of `url`."""
    text, parts = _ADDRESSES.sub(HIDDEN, text), urlsplit(url)
    if parts.hostname:
        text = re.sub(rf"(?<![\w-]){re.escape(parts.hostname)}(?![\w-])(:\d+)?", HIDDEN, text, flags=re.IGNORECASE)
    # A number alone may mean anything.
    return text if parts.port is None else re.sub(rf"(?i)\bport(\W{{0,3}}){parts.port}\b", rf"port\1{HIDDEN}", text)
