"""Benchmarks: panels as data, agents, evaluation through the shared rollout loop, scores with intervals, reports.

    tasks = panel("mage/KuhnPoker-Meta-v0", ["kuhn/conservative", "kuhn/aggressive"], rows_per_cell=64, seed=0)
    trajectories = evaluate(make_agent("policy:kuhn/nash"), tasks)
    print(table(summarise(trajectories, game_of(tasks[0].env_id))))

Each name is imported on first access, so that importing this package loads neither torch nor matplotlib.
"""

if __name__ == "benchmarks":
    # Imported from a clone by the name of its folder.
    from mage_envs.loading.folders import use_own_name

    use_own_name(__name__)


from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mage_envs.benchmarks.evaluation.run.agents import (
        Agent,
        GeneratorAgent,
        PolicyAgent,
        SavedModelAgent,
        make_agent,
    )
    from mage_envs.benchmarks.evaluation.run.evaluate import evaluate
    from mage_envs.benchmarks.evaluation.scoring.estimates import Estimate, estimate
    from mage_envs.benchmarks.evaluation.scoring.scores import EpisodeScore, ScoreRow, Summary, summarise
    from mage_envs.benchmarks.evaluation.suites.environments import game_of, make_envs
    from mage_envs.benchmarks.evaluation.suites.panels import Panel, list_panels, named_panel, panel
    from mage_envs.benchmarks.evaluation.suites.paper import SUITES, Suite
    from mage_envs.benchmarks.evaluation.suites.setting import Setting
    from mage_envs.benchmarks.evaluation.tables.summary_table import adaptation_figure, save, table

_MODULES = {
    "mage_envs.benchmarks.evaluation.run.agents": (
        "Agent",
        "GeneratorAgent",
        "PolicyAgent",
        "SavedModelAgent",
        "make_agent",
    ),
    "mage_envs.benchmarks.evaluation.suites.environments": ("game_of", "make_envs"),
    "mage_envs.benchmarks.evaluation.run.evaluate": ("evaluate",),
    "mage_envs.benchmarks.evaluation.tables.summary_table": ("adaptation_figure", "save", "table"),
    "mage_envs.benchmarks.evaluation.scoring.estimates": ("Estimate", "estimate"),
    "mage_envs.benchmarks.evaluation.scoring.scores": ("EpisodeScore", "ScoreRow", "Summary", "summarise"),
    "mage_envs.benchmarks.evaluation.suites.panels": ("Panel", "list_panels", "named_panel", "panel"),
    "mage_envs.benchmarks.evaluation.suites.setting": ("Setting",),
    "mage_envs.benchmarks.evaluation.suites.paper": ("SUITES", "Suite"),
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
    for module, names in _MODULES.items():
        if name in names:
            return import_module(module).__dict__[name]
    raise AttributeError(f"module 'mage_envs.benchmarks' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
