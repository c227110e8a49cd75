"""The record of a rollout: one `Step` per model call, one `Trajectory` per meta-episode. No torch here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from mage_envs.core import DRAW, Task
from mage_envs.text.generation import Message


class EpisodeResult(NamedTuple):
    """How one episode of a meta-episode ended."""

    reward: float
    """R_k."""
    value: float
    """The learner's return in the game's unit (chips), summed over the hands."""
    hands: int
    success: bool
    timeout: bool
    seats: tuple[int, ...]
    """The learner's seat in each hand."""
    metrics: Mapping[str, float] = {}
    """The game's metrics at the end."""
    outcome: str = ""
    """`success`, `failure` or `draw`; empty if the environment does not say it."""
    ended_with: tuple[str, ...] = ()
    """The learner's last observation of each hand."""

    @property
    def is_draw(self) -> bool:
        """True for an episode that is neither a success nor a failure."""
        if self.outcome:
            return self.outcome == DRAW
        return self.value == 0 and not self.timeout and not self.success


class Step(NamedTuple):
    """One decision of the learner, which is one model call and one training sample."""

    episode: int
    phase: str
    """`play` or `reflect`; a reflection belongs to the episode that follows it."""
    turn: int
    """Index of the play step in its episode; 0 for a reflection."""
    hand: int
    """Index of the hand in its episode; 0 for a reflection."""
    anchor: str
    """The environment's raw observation (with the opponent in pooled groups the caller adds it)."""
    information_state: str = ""
    """Key of what the learner knew of its hand; empty for a reflection, and where the environment tells none."""
    seat: int = 0
    action: str | None = None
    """The move that was played, as the game spells it; None for an invalid answer and for a reflection."""
    reward: float = 0.0
    """Task reward that this step brought, in R units: the hand's share at the step that ends it, else 0."""
    penalty: float = 0.0
    """Non-negative: invalid-action plus length penalty of this reply."""
    invalid_reason: str | None = None
    """None, or one of `invalid`, `length`, `overflow`, `refusal`, `tool_calls`, `empty`."""
    text: str = ""
    prompt_ids: tuple[int, ...] = ()
    completion_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] | None = None
    """Sampling log-probabilities of `completion_ids`, where the backend gave them."""
    truncated: bool = False
    legal_ids: tuple[int, ...] = ()
    """First-token ids of the legal answers, where answers are single tokens."""
    hand_end: bool = False
    """This step ended a hand."""
    kind: str = ""
    """What was asked for: the phase, or the kind of a memory's request."""
    messages: tuple[Message, ...] = ()
    """What is new in the chat that the reply answers: all where `fresh_chat`, else what follows the last reply."""
    fresh_chat: bool = True
    shortened: int = 0
    """How often the prompt was too long and was made shorter before it was answered."""
    legal_actions: tuple[str, ...] = ()
    tokens: tuple[int, int] | None = None
    """Of the whole prompt and of the reply, where the backend knows them."""
    events: tuple[Mapping[str, Any], ...] = ()
    """What the memory did with this reply and for the next prompt (`info["memory_events"]`)."""


class FailedReply(NamedTuple):
    """A reply at which the environment, or an opponent in it, raised: it is no step, as nothing came of it."""

    text: str
    truncated: bool
    overflow: bool
    shortened: int
    """As in `Step`."""
    no_text: str | None = None
    """As in `Completion`."""


OPPONENT, ENVIRONMENT, GENERATOR = "opponent", "environment", "generator"
"""Kinds of failures that are exceptions, or, of the model, also late; `hang`, `crash` and `memory` are
`mage_envs.processes`'s."""


class Failure(NamedTuple):
    """Why one attempt at a meta-episode broke."""

    kind: str
    """`opponent`, `environment`, `generator`, `hang`, `crash`, `memory`, `reward` or `return` (not finite)."""
    reason: str
    """One line."""
    attempt: int
    """From 0."""
    episode: int
    """The episode that was being played."""
    traceback: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {self.reason}"


@dataclass(frozen=True)
class Trajectory:
    """The record of one meta-episode. Unplayed episodes (early stop) have neither steps nor a result."""

    task: Task
    opponent: str
    group: int
    member: int
    steps: tuple[Step, ...]
    episodes: tuple[EpisodeResult, ...]
    num_episodes: int
    """Episodes planned (K)."""
    failure: str | None = None
    """The last attempt's `Failure`, as text, when the meta-episode broke; such a trajectory is masked from the loss."""
    retries: int = 0
    category: str | None = None
    """Class of the task (number of boxes, task type), in games that have some."""
    failures: tuple[Failure, ...] = ()
    """Every attempt that broke, the last one included where `failure` is set."""
    seconds: tuple[float, ...] = field(default=(), compare=False, repr=False)
    """From asking to the reply, per step; no part of what a meta-episode is."""
    played: str | None = None
    """Id of the task that was played, drawn or chosen, in games that have ids."""
    opponent_calls: tuple[Mapping[str, Any], ...] = ()
    """What models answered the opponents; nothing where a process was lost."""
    failed_reply: FailedReply | None = None
    """Where the meta-episode broke at a reply, by an exception."""
