"""`--elicit` of `mage eval` and `mage adapt`: between episodes, the agent states its belief about the opponent."""

from __future__ import annotations

from mage_envs.benchmarks.evaluation.run.agents import Agent, PolicyAgent
from mage_envs.benchmarks.evaluation.suites.environments import game_of
from mage_envs.benchmarks.evaluation.suites.setting import Setting
from mage_envs.core import Policy
from mage_envs.loading.defaults import overrides
from mage_envs.wrappers.belief_question import ElicitForm


def add_question(setting: Setting, agent: Agent, form: ElicitForm = "probabilities") -> Setting:
    """Return the setting with the question, which offers the opponents of its panel.

    Raises:
        ValueError: If the panel has fewer than two opponents, or if the agent is a policy without a belief.
    """
    names = list(setting.panel.weights())
    if len(names) < 2:
        raise ValueError(f"--elicit needs a panel with two or more opponents; {setting.name} has {len(names)}.")
    if setting.resolved["num_episodes"] < 2:
        raise ValueError("--elicit asks between episodes. Use num_episodes of at least 2.")
    if isinstance(agent, PolicyAgent):
        policy = agent.policy(game_of(setting.panel.env_id, setting.options))
        if not overrides(policy, Policy, "report_belief"):
            raise ValueError(f"{agent.name} states no belief: it has no method report_belief. Remove --elicit.")
    # Absent unless set, so that the default adds no option to a record.
    return setting.with_options(elicit=names, **({} if form == "probabilities" else {"elicit_form": form}))
