"""A generator that records the hands that ended before each prompt, and the action probabilities of its answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mage_envs.benchmarks.evaluation.run.agents import Agent, PolicyAgent
from mage_envs.core import Game, HandResult, Policy, Turn, hand_results, is_state_policy
from mage_envs.text.generation import Completion, Generator, Prompt
from mage_envs.wrappers.rollout.exploitability import ScoresReplies, score_shares


class SeenPrompt(NamedTuple):
    """Data recorded with one prompt."""

    results: tuple[HandResult, ...]
    """Results of the hands that ended since the last answer."""
    probabilities: Mapping[str, float] | None
    """Legal action to its probability; None if the generator does not know it."""


class WatchedGenerator:
    """A generator with a record of its prompts, by slot and retry, with one entry per call."""

    def __init__(self, generator: Generator, scored: bool = False, policy: Policy | None = None) -> None:
        """Wrap a generator.

        Args:
            generator: Generator that answers the prompts.
            scored: True to query the probabilities of the legal actions, if the generator can score replies.
            policy: Policy behind the generator. If it follows the information state, its own probabilities are
                recorded.
        """
        self._generator = generator
        self._scores = generator if scored and isinstance(generator, ScoresReplies) else None
        self._policy = policy if policy is not None and is_state_policy(policy) else None
        self.knows_probabilities = self._scores is not None or self._policy is not None
        self.seen: dict[tuple[int, int], list[SeenPrompt]] = {}

    @classmethod
    def of(cls, agent: Agent, game: Game, scored: bool) -> WatchedGenerator:
        """Return the watched generator of an agent.

        Args:
            game: Game to play, which is only read.
            scored: True to record the probabilities of the legal actions, if the agent knows them.
        """
        policy = agent.policy(game) if scored and isinstance(agent, PolicyAgent) else None
        return cls(agent.generator(game), scored, policy)

    def generate(self, prompts: Sequence[Prompt]) -> list[Completion]:
        answers = self._generator.generate(prompts)
        for prompt, row in zip(prompts, self._probabilities(prompts), strict=True):
            _, _, call, retry = prompt.seed
            # A slot plays many meta-episodes. Call 0 begins the next one and replaces the record.
            if call == 0:
                self.seen[prompt.slot, retry] = []
            self.seen[prompt.slot, retry].append(SeenPrompt(tuple(hand_results(prompt.info)), row))
        return answers

    def _probabilities(self, prompts: Sequence[Prompt]) -> list[Mapping[str, float] | None]:
        """Return the probabilities of the legal actions for each prompt, or None if they are not known.

        A model is scored on the bare answers, that is, without any reasoning before the action.
        """
        if self._policy is not None:
            return [
                self._policy.distribution(Turn.from_info(prompt.info, prompt.messages[-1].content))
                if prompt.phase == "play"
                else None
                for prompt in prompts
            ]
        rows: list[Mapping[str, float] | None] = [None] * len(prompts)
        indices = [i for i, prompt in enumerate(prompts) if prompt.phase == "play" and prompt.legal_actions]
        if self._scores is None or not indices:
            return rows
        tags = [prompts[i].info.get("answer_tag") for i in indices]
        share_rows = score_shares(self._scores, [prompts[i] for i in indices], tags)
        for i, shares in zip(indices, share_rows, strict=True):
            rows[i] = dict(zip(prompts[i].legal_actions, shares, strict=True))
        return rows
