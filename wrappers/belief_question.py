"""The question between two episodes for the opponent that the learner thinks it faces: the elicitation of a belief.

The question sees the memory that the next episode's prompts will show. Neither it nor its answer is part of a later
prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym

from mage_envs.text.prompts import AsksBelief, BeliefView, EpisodeRecord, PromptStyle
from wrappers.memory import BELIEF, MemoryView, Request


class BeliefQuestion:
    """The question before each episode but the first."""

    def __init__(self, names: Sequence[str], style: PromptStyle, descriptions: Sequence[str] = ()) -> None:
        """Prepare the question.

        Args:
            names: Registered names of the opponents to choose from.
            style: Style of the prompts.
            descriptions: Texts that prompts show in place of the names, in their order; empty for the names.

        Raises:
            ValueError: If there are fewer than two names or equal ones, or if the style has no words for the question.
        """
        self._names = tuple(names)
        if len(self._names) < 2 or len(set(self._names)) < len(self._names):
            raise ValueError(f"elicit must name two or more different opponents, got {list(self._names)}.")
        if not isinstance(style, AsksBelief):
            raise ValueError(f"{type(style).__name__} has no words for the question of elicit. Use style='plain'.")
        self._style, self._shown = style, tuple(descriptions) or self._names

    def request(self, view: MemoryView, memory: str, heading: str, previous: EpisodeRecord | None) -> Request:
        """Return the question before an episode.

        Args:
            view: Input of the memory's hooks at this point.
            memory: Memory section of the episode's play prompts.
            heading: Heading of the memory, or an empty string.
            previous: The previous episode, if the chat continues and does not state its end yet.
        """
        asked = BeliefView(
            frame=view.frame,
            episode=view.episode,
            names=self._shown,
            memory="" if view.continuing else memory,
            heading=heading,
            continues=view.continuing,
            previous=previous,
        )
        return Request(BELIEF, self._style.ask_belief(asked), self._style.belief_tag)

    def named(self, answer: str) -> str | None:
        """Return the opponent that an answer names by its number or its name, or None."""
        told = answer.strip().rstrip(".").strip()
        for number, (name, shown) in enumerate(zip(self._names, self._shown, strict=True), start=1):
            if told.lower() in (str(number), name.lower(), shown.lower(), f"{number}. {shown}".lower()):
                return name
        return None


def question_of(names: Sequence[str], style: PromptStyle, env: gym.Env[Any, Any]) -> BeliefQuestion:
    """Return the question for an environment. A game of related tasks describes its opponents, others name them.

    Raises ValueError as `BeliefQuestion`, and if the game has no opponents.
    """
    spec = env.get_wrapper_attr("game_spec") if env.has_wrapper_attr("game_spec") else None
    if spec is None or spec.players == 1:
        raise ValueError(f"elicit needs a game with opponents; {env} has none. Remove elicit.")
    describe = env.get_wrapper_attr("game").describe_opponent
    return BeliefQuestion(names, style, [describe(name) for name in names] if spec.series else ())
