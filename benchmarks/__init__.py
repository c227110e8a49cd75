"""Benchmarks: panels as data, agents, evaluation through the shared rollout loop, scores with intervals, reports.

    tasks = panel("mage/KuhnPoker-Meta-v0", ["kuhn/conservative", "kuhn/aggressive"], rows_per_cell=64, seed=0)
    trajectories = evaluate(make_agent("policy:kuhn/nash"), tasks)
    print(table(summarise(trajectories, game_of(tasks[0].env_id))))

Each name is imported on first access, so that importing this package loads neither torch nor matplotlib.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.evaluation.run.agents import Agent, GeneratorAgent, PolicyAgent, SavedModelAgent, make_agent
    from benchmarks.evaluation.run.environments import game_of, make_envs
    from benchmarks.evaluation.run.evaluate import evaluate
    from benchmarks.evaluation.scoring.estimates import Estimate, estimate
    from benchmarks.evaluation.scoring.scores import EpisodeScore, ScoreRow, Summary, summarise
    from benchmarks.evaluation.suites import Panel, Setting, list_panels, named_panel, panel
    from benchmarks.evaluation.suites.paper import SUITES, Suite
    from benchmarks.evaluation.tables.summary_table import adaptation_figure, save, table

_MODULES = {
    "benchmarks.evaluation.run.agents": ("Agent", "GeneratorAgent", "PolicyAgent", "SavedModelAgent", "make_agent"),
    "benchmarks.evaluation.run.environments": ("game_of", "make_envs"),
    "benchmarks.evaluation.run.evaluate": ("evaluate",),
    "benchmarks.evaluation.tables.summary_table": ("adaptation_figure", "save", "table"),
    "benchmarks.evaluation.scoring.estimates": ("Estimate", "estimate"),
    "benchmarks.evaluation.scoring.scores": ("EpisodeScore", "ScoreRow", "Summary", "summarise"),
    "benchmarks.evaluation.suites": ("Panel", "Setting", "list_panels", "named_panel", "panel"),
    "benchmarks.evaluation.suites.paper": ("SUITES", "Suite"),
}
"""Module to the names that this package exports from it."""

__all__ = [
    "SUITES",
    "Agent",
    "EpisodeScore",
    "Estimate",
    "GeneratorAgent",
    "Panel",
    "PolicyAgent",
    "SavedModelAgent",
    "ScoreRow",
    "Setting",
    "Suite",
    "Summary",
    "adaptation_figure",
    "estimate",
    "evaluate",
    "game_of",
    "list_panels",
    "make_agent",
    "make_envs",
    "named_panel",
    "panel",
    "save",
    "summarise",
    "table",
]


def __getattr__(name: str) -> Any:
    # This import loads mage_envs, which `mage --help` does not need.
    from mage_envs.loading import siblings

    for module, names in _MODULES.items():
        if name in names:
            return vars(siblings.load(module))[name]
    raise AttributeError(f"module 'benchmarks' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
