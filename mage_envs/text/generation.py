"""The `Generator` protocol: prompts in, completions out. Backends live with the trainer; opponents may use one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol


class Message(NamedTuple):
    """One chat message; `role` is `user` or `assistant`."""

    role: str
    content: str


@dataclass(frozen=True)
class Completion:
    """One reply of a model, with the token ids that were really sent and sampled (empty for scripted replies)."""

    text: str
    prompt_ids: tuple[int, ...] = ()
    ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] | None = None
    """Log-probability of each id under the sampling distribution, where the backend knows it."""
    truncated: bool = False
    """Cut at the token limit."""
    overflow: bool = False
    """The prompt was longer than the backend's limit; nothing was generated."""
    no_text: str | None = None
    """Why a server's answer has no text: `refusal`, `tool_calls` or `empty`; None for every other reply."""
    error: str | None = None
    """The call failed (a typed, short reason); nothing was generated."""
    legal_ids: tuple[int, ...] = ()
    """First-token ids of the legal answers, where answers are single tokens."""
    tokens: tuple[int, int] | None = None
    """Tokens of the prompt and of the reply as a server counted them; None: as many as there are ids."""


class Prompt(NamedTuple):
    """One call to a model.

    `messages` is the whole chat. In a conversation, `previous` is the completion that the last message but one
    stands for: the new prompt's ids extend `previous.prompt_ids + previous.ids` and nothing is tokenised again.
    """

    messages: tuple[Message, ...]
    slot: int = 0
    """Index of the meta-episode that asks; a backend may keep a cache per slot."""
    seed: tuple[int, ...] = ()
    """Key of the sampling stream of this call: (seed, member, call, retry)."""
    legal_actions: tuple[str, ...] = ()
    """Legal answers of a play turn; empty in a reflection and in free-text tasks."""
    phase: str = "play"
    previous: Completion | None = None
    info: Mapping[str, Any] = {}
    """The environment's `info` that came with the prompt, for policies that play by what it tells."""


class Generator(Protocol):
    """Answers a batch of prompts, in order."""

    def generate(self, prompts: Sequence[Prompt]) -> list[Completion]: ...
