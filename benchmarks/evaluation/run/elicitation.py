"""`--elicit` of `mage eval`: between episodes, the agent names the opponent that it thinks it faces."""

from __future__ import annotations

from benchmarks.evaluation.run.agents import Agent, PolicyAgent
from benchmarks.evaluation.run.environments import game_of
from benchmarks.evaluation.suites.setting import Setting
from wrappers.memory import NamesOpponent


def eliciting(setting: Setting, agent: Agent) -> Setting:
    """Return the setting with the question, which offers the opponents of its panel.

    Raises:
        ValueError: If the panel has fewer than two opponents, or if the agent is a policy that names none.
    """
    names = list(setting.panel.weights())
    if len(names) < 2:
        raise ValueError(f"--elicit needs a panel with two or more opponents; {setting.name} has {len(names)}.")
    if setting.resolved["num_episodes"] < 2:
        raise ValueError("--elicit asks between episodes. Use num_episodes of at least 2.")
    if isinstance(agent, PolicyAgent):
        policy = agent.policy(game_of(setting.panel.env_id, setting.options))
        if not isinstance(policy, NamesOpponent):
            raise ValueError(f"{agent.name} names no opponent: it has no method name_opponent. Remove --elicit.")
    return setting.changed(elicit=names)
