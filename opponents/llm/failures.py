"""Why a call failed: a kind, what was said, and whether the same call may succeed later."""

from __future__ import annotations

TIMEOUT = "timeout"
"""No whole answer within the deadline."""
REFUSED = "refused"
"""Nothing listens at the address."""
CONNECTION = "connection"
"""No connection, or one that broke."""
GARBAGE = "garbage"
"""An answer that is no chat completion."""
BUDGET = "budget"
"""The budget is spent; nothing was sent."""
PROMPT = "prompt"
"""A prompt that no request can hold; nothing was sent."""
REDIRECT = "redirect"
"""The server sends on to another address; nothing was sent there."""
HTTP = "http"
"""The server answered with an error: `http 404`."""


class CallFailed(Exception):
    """One failed call; `str()` of it is the `error` of a Completion: `kind: detail`."""

    def __init__(self, kind: str, detail: str, passing: bool = False, wait: float | None = None) -> None:
        """`passing`: worth another try. `wait`: seconds that the server asks to wait before it."""
        super().__init__(f"{kind}: {detail}")
        self.kind = kind
        self.detail = detail
        self.passing = passing
        self.wait = wait


class PromptTooLong(CallFailed):
    """The server's model has no room for the prompt."""


class NotReached(CallFailed):
    """There was no connection to the endpoint."""
