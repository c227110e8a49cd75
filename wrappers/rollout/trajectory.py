"""Records of a rollout: one `Step` per model call, one `Trajectory` per meta-episode. No torch here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any, NamedTuple

from mage_envs.core import DRAW, Task
from mage_envs.text.generation import Message


class EpisodeResult(NamedTuple):
    """Result of one episode of a meta-episode."""

    reward: float
    """R_k of docs/method.md."""
    value: float
    """The learner's return in the game's unit (chips), summed over the hands."""
    hands: int
    success: bool
    timeout: bool
    seats: tuple[int, ...]
    """The learner's seat in each hand."""
    metrics: Mapping[str, float] = {}
    """The game's metrics at the end of the episode."""
    outcome: str = ""
    """`success`, `failure` or `draw`; empty if the environment does not report an outcome."""
    ended_with: tuple[str, ...] = ()
    """The learner's last observation of each hand."""

    @property
    def is_draw(self) -> bool:
        """True if the episode is neither a success nor a failure."""
        if self.outcome:
            return self.outcome == DRAW
        return self.value == 0 and not self.timeout and not self.success


class Step(NamedTuple):
    """One decision of the learner: one model call, and one training sample."""

    episode: int
    phase: str
    """`play` or `reflect`. A reflection belongs to the episode after it."""
    turn: int
    """Index of the play step in its episode; 0 for a reflection."""
    hand: int
    """Index of the hand in its episode; 0 for a reflection."""
    anchor: str
    """The environment's raw observation. In pooled groups the caller adds the opponent."""
    information_state: str = ""
    """Key of the learner's information in its hand; empty for a reflection, or if the environment reports none."""
    seat: int = 0
    action: str | None = None
    """The move that was played, as the game spells it; None for an invalid answer and for a reflection."""
    reward: float = 0.0
    """Task reward of this step in units of R: the hand's share at the step that ends the hand, else 0."""
    penalty: float = 0.0
    """Penalty of this reply for an invalid action and for its length, at least 0."""
    invalid_reason: str | None = None
    """None, or one of `invalid`, `length`, `overflow`, `refusal`, `tool_calls`, `empty`."""
    text: str = ""
    prompt_ids: tuple[int, ...] = ()
    completion_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] | None = None
    """Sampling log-probabilities of `completion_ids`, if the backend returns them."""
    truncated: bool = False
    legal_ids: tuple[tuple[int, ...], ...] = ()
    """Ids that the reply's first tokens were drawn among, one set per token; empty if the reply is free."""
    hand_end: bool = False
    """True if this step ended a hand."""
    kind: str = ""
    """Kind of the prompt: the phase, or the kind of a memory's request."""
    messages: tuple[Message, ...] = ()
    """Messages of the prompt: all of them if `fresh_chat`, else those after the last reply."""
    fresh_chat: bool = True
    shortened: int = 0
    """Number of times that the prompt was too long and was shortened before the model answered."""
    legal_actions: tuple[str, ...] = ()
    tokens: tuple[int, int] | None = None
    """Tokens of the whole prompt and of the reply, if the backend knows them."""
    events: tuple[Mapping[str, Any], ...] = ()
    """Events of the memory at this reply and for the next prompt (`info["memory_events"]`)."""
    reasoning: str | None = None
    """Reasoning that a server sent apart from the text."""


class FailedReply(NamedTuple):
    """A reply at which the environment, or an opponent in it, raised. It is no step, because it had no result."""

    text: str
    truncated: bool
    overflow: bool
    shortened: int
    """As in `Step`."""
    no_text: str | None = None
    """As in `Completion`."""
    reasoning: str | None = None
    """As in `Completion`."""


OPPONENT, ENVIRONMENT, GENERATOR = "opponent", "environment", "generator"
"""Kinds of failures by exceptions. A late model is a `generator` failure, too.

`mage_envs.processes` adds `hang`, `crash` and `memory`.
"""
REWARD, RETURN = "reward", "return"
"""Kinds of failures by a number that is not finite, or too large to compute with.

Such a meta-episode is masked from the loss, excluded from means, and counted.
"""
LARGEST = 1e30
"""Maximum absolute value of a return. Much larger values overflow float32 (3.4e38), or float64 when squared."""


class Failure(NamedTuple):
    """Failure of one attempt at a meta-episode."""

    kind: str
    """`opponent`, `environment`, `generator`, `hang`, `crash`, `memory`, `reward` or `return` (not finite)."""
    reason: str
    """Cause, in one line."""
    attempt: int
    """Number of the attempt, from 0."""
    episode: int
    """Index of the episode that was being played."""
    traceback: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {self.reason}"


@dataclass(frozen=True)
class Trajectory:
    """The record of one meta-episode. Episodes that an early stop left unplayed have neither steps nor a result."""

    task: Task
    opponent: str
    group: int
    member: int
    steps: tuple[Step, ...]
    episodes: tuple[EpisodeResult, ...]
    num_episodes: int
    """Planned episodes (K)."""
    failure: str | None = None
    """The last attempt's `Failure` as text, or None if the meta-episode ended. The loss masks failed trajectories."""
    retries: int = 0
    category: str | None = None
    """Class of the task (number of boxes, task type), if the game has classes."""
    failures: tuple[Failure, ...] = ()
    """Failed attempts in order, including the last one if `failure` is set."""
    seconds: tuple[float, ...] = field(default=(), compare=False, repr=False)
    """Seconds from the prompt to the reply of each step. Timing is no part of a meta-episode's identity."""
    task_id: str | None = None
    """Id of the task that was played, drawn or chosen, if the game's tasks have ids."""
    opponent_calls: tuple[Mapping[str, Any], ...] = ()
    """Calls that models answered for the opponents; empty if a process was lost."""
    failed_reply: FailedReply | None = None
    """The reply at which the meta-episode failed, if an exception ended it there."""


def bad_pay(steps: Sequence[Step], episodes: Sequence[EpisodeResult]) -> str | None:
    """Return a description of the first reward, penalty or value that is not finite; None if all are finite."""
    for step in steps:
        if not isfinite(step.reward):
            return f"the reward of turn {step.turn} in episode {step.episode} is {step.reward}"
        if not isfinite(step.penalty):
            return f"the penalty of turn {step.turn} in episode {step.episode} is {step.penalty}"
    for number, episode in enumerate(episodes):
        if not isfinite(episode.reward):
            return f"the reward of episode {number} is {episode.reward}"
        if not isfinite(episode.value):
            return f"the value of episode {number} is {episode.value}"
    return None


def bad_returns(returns: Sequence[float]) -> str | None:
    """Return a description of the first return that is not finite or above `LARGEST`; None if all are valid."""
    # `not <=` also catches NaN, for which every comparison is False.
    for index, value in enumerate(returns):
        if not abs(value) <= LARGEST:
            return f"the return of step {index} is {value:g}"
    return None


def mask_trajectory(trajectory: Trajectory, kind: str, reason: str) -> Trajectory:
    """Mark a trajectory as a failure.

    Args:
        kind: Kind of the failure, `REWARD` or `RETURN`.
        reason: Reason in one line.

    Returns:
        A copy with `failure` set, and the failure added to `failures`.
    """
    episode = trajectory.steps[-1].episode if trajectory.steps else 0
    failure = Failure(kind=kind, reason=reason, attempt=trajectory.retries, episode=episode)
    return replace(trajectory, failure=str(failure), failures=(*trajectory.failures, failure))
