"""A generator with a record of its prompts: the hands that ended before each, and the probabilities of its answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from benchmarks.evaluation.agents import Agent, PolicyAgent
from mage_envs.core import Game, HandResult, Policy, StatePolicy, Turn
from mage_envs.text.generation import Completion, Generator, Prompt
from trainer.exploitability import ScoresReplies, scored_shares


class SeenPrompt(NamedTuple):
    """What came with one prompt."""

    results: tuple[HandResult, ...]
    """Of the hands that ended since the last answer."""
    probabilities: Mapping[str, float] | None


class WatchedGenerator:
    """A generator, and what it was asked: by slot and retry, one entry a call."""

    def __init__(self, generator: Generator, scored: bool = False, policy: Policy | None = None) -> None:
        """`scored`: asks a generator that can tell for the probabilities of the legal answers; `policy` is one that
        answers, whose own they are."""
        self._generator = generator
        self._scores = generator if scored and isinstance(generator, ScoresReplies) else None
        self._policy = policy if isinstance(policy, StatePolicy) and policy.follows_information_state else None
        self.knows_probabilities = self._scores is not None or self._policy is not None
        self.seen: dict[tuple[int, int], list[SeenPrompt]] = {}

    @classmethod
    def of(cls, agent: Agent, game: Game, scored: bool) -> WatchedGenerator:
        """The agent's."""
        policy = agent.policy(game) if scored and isinstance(agent, PolicyAgent) else None
        return cls(agent.generator(game), scored, policy)

    def generate(self, prompts: Sequence[Prompt]) -> list[Completion]:
        answers = self._generator.generate(prompts)
        for prompt, row in zip(prompts, self._probabilities(prompts), strict=True):
            _, _, call, retry = prompt.seed
            if call == 0:
                self.seen[prompt.slot, retry] = []
            told = tuple(HandResult(**result) for result in prompt.info.get("hand_results", ()))
            self.seen[prompt.slot, retry].append(SeenPrompt(told, row))
        return answers

    def _probabilities(self, prompts: Sequence[Prompt]) -> list[Mapping[str, float] | None]:
        """Of the legal actions, as the model would answer them without a word more; None where it does not say."""
        if self._policy is not None:
            return [self._policy.distribution(_turn(p)) if p.phase == "play" else None for p in prompts]
        rows: list[Mapping[str, float] | None] = [None] * len(prompts)
        asked = [i for i, prompt in enumerate(prompts) if prompt.phase == "play" and prompt.legal_actions]
        if self._scores is None or not asked:
            return rows
        tags = [prompts[i].info.get("answer_tag") for i in asked]
        found = scored_shares(self._scores, [prompts[i] for i in asked], tags)
        for i, shares in zip(asked, found, strict=True):
            rows[i] = dict(zip(prompts[i].legal_actions, shares, strict=True))
        return rows


def _turn(prompt: Prompt) -> Turn:
    """What a policy that follows the information state needs of it."""
    return Turn(
        player=prompt.info["seat"],
        observation=prompt.info["anchor"],
        legal_actions=prompt.legal_actions,
        information_state=prompt.info["information_state"],
        episode=prompt.info["episode_index"],
    )
