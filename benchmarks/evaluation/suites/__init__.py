"""Evaluation data: panels (sets of tasks), settings (panels with options) and suites (groups of settings).

Suites are in `paper`, which is not imported here: most evaluations play a single setting.
"""

from mage_envs.benchmarks.evaluation.suites.panels import (
    EVALUATION,
    Panel,
    list_panels,
    named_panel,
    panel,
    panel_names,
    weights_of,
)
from mage_envs.benchmarks.evaluation.suites.setting import Setting

__all__ = [
    "EVALUATION",
    "Panel",
    "Setting",
    "list_panels",
    "named_panel",
    "panel",
    "panel_names",
    "weights_of",
]
