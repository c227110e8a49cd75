"""The question between two episodes for the opponent that the learner thinks it faces: the elicitation of a belief.

The question sees the memory that the next episode's prompts will show. Neither it nor its answer is part of a later
prompt.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import gymnasium as gym

from mage_envs.text.prompts import BeliefView, EpisodeRecord, PromptStyle
from mage_envs.wrappers.memory import BELIEF, GUESS, MemoryView, Request

SUM_TOLERANCE = 0.05
"""Largest difference from 1 of the sum of an answer's probabilities, which rounded numbers have. They are rescaled."""
ElicitForm = Literal["probabilities", "name"]
_KINDS: Mapping[ElicitForm, str] = {"probabilities": BELIEF, "name": GUESS}


class BeliefQuestion:
    """The question before each episode but the first."""

    def __init__(
        self,
        names: Sequence[str],
        style: PromptStyle,
        descriptions: Sequence[str] = (),
        form: ElicitForm = "probabilities",
    ) -> None:
        """Prepare the question.

        Args:
            names: Registered names of the opponents to choose from.
            descriptions: Texts that prompts show in place of the names, in their order; empty for the names.
            form: `probabilities` of all opponents, or the `name` of one.

        Raises:
            ValueError: If there are fewer than two names or equal ones, or if the style has no words for the question.
        """
        self._names = tuple(names)
        if len(self._names) < 2 or len(set(self._names)) < len(self._names):
            raise ValueError(f"elicit must name two or more different opponents, got {list(self._names)}.")
        if style.belief_tag is None:
            raise ValueError(f"{type(style).__name__} has no words for the question of elicit. Use style='plain'.")
        self._style, self._shown, self._kind = style, tuple(descriptions) or self._names, _KINDS[form]

    def request(self, view: MemoryView, memory: str, heading: str, previous: EpisodeRecord | None) -> Request:
        """Return the question before an episode.

        Args:
            view: Input of the memory's hooks at this point.
            memory: Memory section of the episode's play prompts.
            heading: Heading of the memory, or an empty string.
            previous: The previous episode, if the chat continues and does not state its end yet.
        """
        belief_view = BeliefView(
            frame=view.frame,
            episode=view.episode,
            names=self._shown,
            memory="" if view.continuing else memory,
            heading=heading,
            continues=view.continuing,
            previous=previous,
            one_name=self._kind == GUESS,
        )
        return Request(self._kind, self._style.ask_belief(belief_view), self._style.belief_tag)

    def read(self, answer: str) -> dict[str, Any]:
        """Return the event that records an answer; its value is None if the answer is invalid."""
        if self._kind == GUESS:
            return {"event": GUESS, "name": self._name_of(answer.strip().rstrip(".").strip())}
        return {"event": BELIEF, "probabilities": self._probabilities(answer)}

    def _name_of(self, text: str) -> str | None:
        """Return the opponent with this number or name, or None."""
        for number, (name, label) in enumerate(zip(self._names, self._shown, strict=True), start=1):
            if text.lower() in (str(number), name.lower(), label.lower(), f"{number}. {label}".lower()):
                return name
        return None

    def _probabilities(self, answer: str) -> dict[str, float] | None:
        """Return the probability of each opponent from a JSON object, or None if the answer is invalid.

        The keys are numbers or names of opponents, each at most once. Missing opponents have probability 0.
        """
        try:
            pairs = json.loads(answer, object_pairs_hook=list, parse_constant=_refuse_constant)
        # Deeply nested text ends in a RecursionError.
        except (ValueError, RecursionError):
            return None
        # An array of arrays looks like the pairs of an object.
        if not isinstance(pairs, list) or not answer.lstrip().startswith("{"):
            return None
        probabilities: dict[str, float] = {}
        for key, value in pairs:
            name = self._name_of(key.strip())
            # A bool is an int in Python. Huge integers have no float, so the range is checked first.
            if name is None or name in probabilities or isinstance(value, bool) or not isinstance(value, int | float):
                return None
            if not 0 <= value <= 1 + SUM_TOLERANCE:
                return None
            probabilities[name] = float(value)
        total = sum(probabilities.values())
        if abs(total - 1) > SUM_TOLERANCE:
            return None
        return {name: probabilities.get(name, 0.0) / total for name in self._names}


def _refuse_constant(text: str) -> float:
    """Refuse `NaN` and `Infinity`, which Python reads and JSON does not have."""
    raise ValueError(f"{text} is no JSON.")


def question_of(
    names: Sequence[str], style: PromptStyle, env: gym.Env[Any, Any], form: ElicitForm = "probabilities"
) -> BeliefQuestion:
    """Return the question for an environment. A game of related tasks describes its opponents, others name them.

    Raises ValueError as `BeliefQuestion`, and if the game has no opponents.
    """
    spec = env.get_wrapper_attr("game_spec") if env.has_wrapper_attr("game_spec") else None
    if spec is None or spec.players == 1:
        raise ValueError(f"elicit needs a game with opponents; {env} has none. Remove elicit.")
    describe = env.get_wrapper_attr("game").describe_opponent
    return BeliefQuestion(names, style, [describe(name) for name in names] if spec.series else (), form)
