"""Policies as generators of replies: a registered opponent in the learner's seat."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mage_envs.core import BY_THE_RULES, Policy, Turn, hand_results
from mage_envs.exceptions import reason_of, stops
from mage_envs.info import private_info
from mage_envs.loading.defaults import fill_in
from mage_envs.random.streams import Streams
from mage_envs.text.generation import Completion, Prompt
from mage_envs.wrappers.controls import source_turns
from mage_envs.wrappers.memory import BELIEF, GUESS

REMARK = "No remark."
"""Reply of a policy to a request for a reflection."""
NONE, OTHER = "none", "other"
"""Controls of a policy's memory."""
AGENT = 2
"""Role of an agent's own random streams, next to the environment's `GAME`, `POOL` and `SEATS`."""


@dataclass
class _SeatedPolicy:
    """The policy of a slot, and its position in the meta-episode."""

    policy: Policy
    hand: tuple[int, ...] = ()
    """Key of the current hand; empty before the first hand."""
    episode: int = 0
    begun: int = 0
    """Number of episodes that the policy has begun, if its memory is under a control."""

    def begin(self) -> None:
        """Start a meta-episode."""
        self.hand, self.begun = (), 1
        self.policy.on_meta_episode_start()

    def on_hand_results(self, info: Mapping[str, Any]) -> None:
        """Pass the policy the results of the hands that ended by the rules since its last answer."""
        for result in hand_results(info):
            if result.ended_by == BY_THE_RULES:
                self.policy.on_hand_end(
                    Turn(
                        player=result.seat,
                        observation=result.observation,
                        legal_actions=(),
                        information_state=result.information_state,
                        episode=self.episode,
                        success=result.success,
                    )
                )

    def act(self, info: Mapping[str, Any], seed: Sequence[int], text: str) -> str:
        """Return the policy's action, and reset the policy if a new hand has begun.

        Args:
            info: `info` of the environment before the action.
            seed: Seed of the prompt: task, member, number of the call, retry.
            text: Newest message to the agent.
        """
        turn = Turn.from_info(info, text)
        number = info.get("hand", 0)
        task, member, _, retry = seed
        key = (task, member, retry, turn.episode, number)
        if key != self.hand:
            self.hand, self.episode = key, turn.episode
            # The stream depends only on task, member, retry, episode and hand, so actions do not depend on the batch or
            # the order of play.
            self.policy.reset(Streams(task, member, retry).at(AGENT, turn.episode, number).generator())
        return self.policy.act(turn)

    def answer_question(self, kind: str) -> str:
        """Return the answer to a question for the opponent; an empty one if the policy has no belief."""
        belief = self.policy.report_belief()
        if not belief:
            return ""
        # The first of several equally likely opponents; rounding errors make no difference between them.
        return json.dumps(dict(belief)) if kind == BELIEF else max(belief, key=lambda name: round(belief[name], 9))

    def relive(self, episodes: Sequence[Sequence[Mapping[str, Any]]]) -> None:
        """Play recorded episodes again, so that the policy has their memory.

        Args:
            episodes: For each episode, its prompts as stored by `controls.memories_of`.
        """
        for prompts in episodes:
            for prompt in prompts:
                self.on_hand_results(prompt["info"])
                if prompt["acts"]:
                    self.act(prompt["info"], prompt["seed"], "")


class PolicyGenerator:
    """A generator with one policy per slot, which reads the `info` of the prompts instead of their text."""

    def __init__(self, make_policy: Callable[[], Policy], control: str | None = None) -> None:
        """Make the first policy, so that an error in its construction is raised before anything is played.

        Args:
            make_policy: Function that makes a policy.
            control: Control of its memory: `none`, `other`, or None.
        """
        self._make_policy, self._control = make_policy, control
        self._spare = [self._new_policy()]
        self._policies: dict[int, _SeatedPolicy] = {}

    def generate(self, prompts: Sequence[Prompt]) -> list[Completion]:
        return [self._answer(prompt) for prompt in prompts]

    def _new_policy(self) -> Policy:
        policy: Policy = fill_in(self._make_policy(), Policy)
        return policy

    def _answer(self, prompt: Prompt) -> Completion:
        """Return the policy's answer to a prompt, in the answer tag if the prompt style has one."""
        seated = self._policies.get(prompt.slot)
        if seated is None:
            policy = self._spare.pop() if self._spare else self._new_policy()
            seated = self._policies[prompt.slot] = _SeatedPolicy(policy)
        try:
            # The third part of the seed numbers the calls of a meta-episode.
            if prompt.seed[2] == 0:
                seated.begin()
            if self._control is not None and prompt.info.get("episode_index", 0) >= seated.begun:
                self._exchange_memory(seated, prompt)
            else:
                seated.on_hand_results(prompt.info)
            if prompt.info.get("kind") in (BELIEF, GUESS):
                text = seated.answer_question(prompt.info["kind"])
            elif prompt.phase == "reflect":
                text = REMARK
            else:
                text = seated.act(prompt.info, prompt.seed, prompt.messages[-1].content)
        # A policy may be a user's code. Its failure is counted and masked, and must not end the evaluation.
        except BaseException as error:
            if stops(error):
                raise
            return Completion("", error=reason_of(error))
        tag = prompt.info.get("answer_tag")
        return Completion(text if tag is None else f"<{tag}>{text}</{tag}>")

    def _exchange_memory(self, seated: _SeatedPolicy, prompt: Prompt) -> None:
        """Seat a new policy before an episode, under `other` with the memory of the source's earlier episodes.

        The results of the agent's own last hand came with this prompt, and are not passed on.
        """
        episode = prompt.info["episode_index"]
        seated.policy = self._new_policy()
        seated.begin()
        if self._control == OTHER:
            seated.relive(source_turns(private_info(prompt.info)["memory_source"], episode))
        seated.begun = episode + 1
