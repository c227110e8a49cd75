"""One meta-episode of a person or of a watched agent, through `reset` and `step` of a Gymnasium environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym

from mage_envs.benchmarks.exact.recorded_generator import SeenPrompt
from mage_envs.benchmarks.play.view import PersonView
from mage_envs.core import BY_TIMEOUT, GameSpec, Task, hand_results
from mage_envs.text.generation import Completion, Prompt
from mage_envs.text.parser import REMARK_LIMIT
from mage_envs.text.visible import visible
from mage_envs.wrappers.env_metadata import EnvMetadata
from mage_envs.wrappers.rollout.env_pool import ResetCall
from mage_envs.wrappers.rollout.playing import MetaEpisodeRollout, RolloutSpec
from mage_envs.wrappers.rollout.policy_generator import REMARK
from mage_envs.wrappers.rollout.trajectory import Trajectory

HANDS = 3
"""Hands per episode against an opponent, unless the player chooses another number: those of the demo."""


class Sitting:
    """A meta-episode that advances by one answer at a time. It records the same trajectory as a rollout."""

    def __init__(self, env: gym.Env[Any, Any], task: Task, draws_boards: bool = True) -> None:
        """Start the meta-episode of the task.

        Args:
            env: Environment, a `MetaEpisode`.
            draws_boards: See `PersonView`.
        """
        self._env = env
        self._metadata: EnvMetadata = env.get_wrapper_attr("env_metadata")
        self.spec: GameSpec = self._metadata.spec
        self.view = PersonView(self.spec, draws_boards)
        self.notes: dict[int, str] = {}
        """Person's notes by the number of the episode that they follow, from 1."""
        self.seen: list[SeenPrompt] = []
        """Data of each prompt, for the regret of the decisions."""
        self.headings: list[tuple[str, str]] = []
        """Title and first line of each prompt that was answered."""
        self.happened: list[str] = []
        """Texts on the last answer: what the opponent did, results of hands and episodes."""
        self._run = MetaEpisodeRollout(0, RolloutSpec(task))
        self._advance()

    @property
    def episodes(self) -> int:
        """Number of episodes."""
        return int(self._env.get_wrapper_attr("num_episodes"))

    @property
    def hands(self) -> int:
        """Number of hands per episode."""
        return self._metadata.hands

    @property
    def alternates(self) -> bool:
        """True if the player's seat changes from hand to hand."""
        return len(self._env.get_wrapper_attr("seats")) > 1

    @property
    def over(self) -> bool:
        """True if the meta-episode has ended."""
        return self._run.over

    @property
    def prompt(self) -> Prompt:
        """The open prompt."""
        return self._run.prompt

    @property
    def reflects(self) -> bool:
        """True if a note on the last episode is due, and no action."""
        return not self.over and self.prompt.phase == "reflect"

    @property
    def trajectory(self) -> Trajectory:
        """The record so far. Its `opponent` is empty until the meta-episode has ended."""
        return self._run.trajectory()

    @property
    def heading(self) -> str:
        """Title of the open prompt."""
        info, hands = self.prompt.info, self._metadata.hands
        episode = info.get("episode_index", 0) + (0 if self.reflects else 1)
        hand = f", hand {info.get('hand', 0) + 1} of {hands}" if hands > 1 and not self.reflects else ""
        return f"Episode {episode} of {info.get('num_episodes', 1)}{hand}"

    def play(self, text: str) -> None:
        """Play an action of a person, or store a note, which may be empty."""
        info = self.prompt.info
        if self.reflects:
            text = text.strip()[:REMARK_LIMIT]
            if text:
                self.notes[info["episode_index"]] = visible(text)
            text = text or REMARK
        tag = info.get("answer_tag")
        self.answer(Completion(text if tag is None else f"<{tag}>{text}</{tag}>"))

    def answer(self, completion: Completion) -> None:
        """Play the whole reply of an agent. Raises RuntimeError if the agent failed."""
        self.headings.append((self.heading, self.shown.partition("\n")[0]))
        self._run.on_completion(completion)
        if self._run.failed:
            raise RuntimeError(f"The agent failed: {self._run.failures[-1].reason}")
        self._advance()

    def _advance(self) -> None:
        call = self._run.call
        if isinstance(call, ResetCall):
            outcome: Any = self._env.reset(seed=call.seed, options=None if call.options is None else dict(call.options))
        else:
            outcome = self._env.step(call)
        self._run.on_env_result(outcome)
        if self._run.failed:
            raise RuntimeError(f"The meta-episode failed: {self._run.failures[-1].reason}")
        info = outcome[-1]
        self.happened = self._texts(info) if self.seen else []
        if not self.over:
            self.seen.append(SeenPrompt(tuple(hand_results(info)), None))
            self.shown = "" if self.reflects else self.view.now(info, outcome[0])
            """Text of the open decision."""

    def _texts(self, info: Mapping[str, Any]) -> list[str]:
        """Return the texts on the last answer."""
        results, unit = hand_results(info), self.spec.unit
        texts = []
        if info.get("invalid_reason") is not None and self.trajectory.steps[-1].phase == "play":
            max_turns = self._metadata.max_turns
            texts.append(f"That is not a legal action; it spent one of your {max_turns} turns.")
        for result in results:
            late = "You ran out of turns. " if result.ended_by == BY_TIMEOUT else ""
            texts.append(late + self.view.end(info.get("action"), result.observation))
        if info.get("episode_end"):
            texts.append(f"Episode {info['ended_episode'] + 1} is over: {info['episode_value']:+g} {unit}.")
        return texts
