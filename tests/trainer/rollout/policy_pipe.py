"""A policy behind the text pipe. A module of its own, since the tests around it load torch."""

from __future__ import annotations

from typing import Any

import numpy as np

from mage_envs import make_game
from mage_envs.core import Game, Turn
from mage_envs.opponents import make_opponent
from mage_envs.opponents.llm.opponent import LanguageModelPolicy, settings_for
from mage_envs.text.generation import Prompt
from mage_envs.text.styles import as_style
from mage_envs.wrappers.rollout.exploitability import decisions_of
from mage_envs.wrappers.rollout.scripted import ScriptedGenerator

KUHN = make_game("KuhnPoker")
STYLE = as_style("plain", KUHN.spec)


def pipe(name: str, game: Game, rubbish: float = 0.0) -> ScriptedGenerator:
    """A policy that answers prompts, which it knows by their text alone; sometimes with no action."""
    policy: Any = make_opponent(name, game)
    reader = LanguageModelPolicy(
        ScriptedGenerator(lambda prompt: ""), game.spec, STYLE, num_episodes=1, settings=settings_for(game.spec)
    )
    turns: dict[str, Turn] = {}
    for decision in decisions_of(game):
        prompt = reader.prompt(decision.turn, decision.records, decision.records, ())
        turns[prompt.messages[0].content] = decision.turn
    assert len(turns) == len(decisions_of(game)), "every information set has a prompt of its own"

    def answer(prompt: Prompt) -> str:
        rng = np.random.default_rng(list(prompt.seed))
        if rng.random() < rubbish:
            return "<action>sing</action>"
        row = policy.distribution(turns[prompt.messages[0].content])
        action = list(row)[rng.choice(len(row), p=list(row.values()))]
        return f"I think so. <action>{action}</action>"

    return ScriptedGenerator(answer)
