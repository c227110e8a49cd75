"""Failures of calls: their kinds, and exceptions with the server's message."""

from __future__ import annotations

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


class CallFailed(Exception):
    """A failed call. Its text, `kind: detail`, is the `error` of a Completion."""

    def __init__(self, kind: str, detail: str, passing: bool = False, wait: float | None = None) -> None:
        """Initialize the failure.

        Args:
            kind: One of the kinds above, for HTTP errors with the status.
            detail: Reason, as a text for the user.
            passing: True if the same call may succeed later, so that it is retried.
            wait: Seconds to wait before the next attempt, if the server sent `Retry-After`.
        """
        super().__init__(f"{kind}: {detail}")
        self.kind = kind
        self.detail = detail
        self.passing = passing
        self.wait = wait


class PromptTooLong(CallFailed):
    """A prompt that exceeds the context of the server's model."""


class NotReached(CallFailed):
    """A failure to connect to the endpoint."""
