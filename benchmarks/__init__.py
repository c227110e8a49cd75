"""Benchmarks: panels as data, agents, evaluation through the one rollout loop, scores with intervals, reports.

    tasks = panel("mage/KuhnPoker-Meta-v0", ["kuhn/conservative", "kuhn/aggressive"], rows_per_cell=64, seed=0)
    trajectories = evaluate(make_agent("policy:kuhn/nash"), tasks)
    print(table(summarise(trajectories, game_of(tasks[0].env_id))))

Loads neither torch nor matplotlib.
"""

from benchmarks.evaluation.agents import Agent, GeneratorAgent, PolicyAgent, SavedModelAgent, make_agent
from benchmarks.evaluation.evaluate import evaluate, game_of, make_envs
from benchmarks.evaluation.report import adaptation_figure, save, table
from benchmarks.evaluation.scores import EpisodeScore, Estimate, Row, Summary, estimate, summarise
from benchmarks.evaluation.suites import PANELS, Panel, fingerprint, named_panel, panel

__all__ = [
    "PANELS",
    "Agent",
    "EpisodeScore",
    "Estimate",
    "GeneratorAgent",
    "Panel",
    "PolicyAgent",
    "Row",
    "SavedModelAgent",
    "Summary",
    "adaptation_figure",
    "estimate",
    "evaluate",
    "fingerprint",
    "game_of",
    "make_agent",
    "make_envs",
    "named_panel",
    "panel",
    "save",
    "summarise",
    "table",
]
