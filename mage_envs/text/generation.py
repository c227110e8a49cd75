"""The `Generator` protocol: prompts in, completions out. The trainer has the backends; opponents may use one too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable


class Message(NamedTuple):
    """One chat message; `role` is `user` or `assistant`."""

    role: str
    content: str


@dataclass(frozen=True)
class Completion:
    """One reply of a model, with the exact token ids that were sent and sampled (empty for scripted replies)."""

    text: str
    prompt_ids: tuple[int, ...] = ()
    ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] | None = None
    """Log-probability of each id under the sampling distribution, if the backend returns it."""
    truncated: bool = False
    """True if the reply was cut at the token limit."""
    overflow: bool = False
    """True if the prompt was longer than the backend's limit. Nothing was generated."""
    no_text: str | None = None
    """Reason if a server's answer has no text: `refusal`, `tool_calls` or `empty`."""
    error: str | None = None
    """Short, typed reason if the call failed. Nothing was generated."""
    legal_ids: tuple[tuple[int, ...], ...] = ()
    """Ids that the reply's first tokens were drawn among, one set per token; empty if the reply is free."""
    tokens: tuple[int, int] | None = None
    """Tokens of the prompt and of the reply as a server counted them. If None, the ids are counted."""
    reasoning: str | None = None
    """Reasoning that a server sent apart from the text. It is recorded, and it is never part of a prompt."""


def check_completion(reply: Completion, source: str) -> Completion:
    """Return a completion that a user's code made.

    Args:
        source: What made it, for errors.

    Raises:
        TypeError: If its text is not a str, or its token counts are not two whole numbers of at least 0.
    """
    if not isinstance(reply.text, str):
        raise TypeError(f"{source}: the text of a Completion must be a str, got {type(reply.text).__name__}.")
    counts = reply.tokens
    is_pair = isinstance(counts, tuple) and len(counts) == 2 and all(type(n) is int and n >= 0 for n in counts)
    if counts is not None and not is_pair:
        raise TypeError(
            f"{source}: tokens of a Completion must be those of the prompt and of the reply, as (12, 3), "
            f"got {counts!r}."
        )
    return reply


class Prompt(NamedTuple):
    """One call to a model.

    `messages` is the whole chat. In a conversation, `previous` is the completion behind the last message but one. The
    new prompt's ids extend `previous.prompt_ids + previous.ids`, so that nothing is tokenised again.
    """

    messages: tuple[Message, ...]
    slot: int = 0
    """Index of the calling meta-episode; a backend may keep a cache per slot."""
    seed: tuple[int, ...] = ()
    """Key of the sampling stream of this call: (seed, member, call, retry)."""
    legal_actions: tuple[str, ...] = ()
    """Legal answers of a play turn; empty in a reflection and in free-text tasks."""
    phase: str = "play"
    previous: Completion | None = None
    info: Mapping[str, Any] = {}
    """The environment's `info` of this prompt, for policies that use it."""


class Generator(Protocol):
    """A source of replies: a model, a server or a script."""

    def generate(self, prompts: Sequence[Prompt]) -> list[Completion]:
        """Return one completion per prompt, in the order of the prompts."""
        ...


@runtime_checkable
class StreamingGenerator(Protocol):
    """Backend that answers each prompt as soon as its own reply is ready. A slot has at most one prompt under way."""

    def submit(self, prompt: Prompt) -> None:
        """Start to answer a prompt."""

    def poll(self, timeout: float | None = None) -> list[tuple[int, Completion]]:
        """Wait for at least one reply, and return all (slot, completion) pairs that are ready.

        The list is empty after `timeout` seconds without a reply, or if no prompt is under way. Generation continues
        between the calls.
        """
        ...

    def cancel(self) -> None:
        """Cancel all prompts under way. No later `poll` returns them."""
