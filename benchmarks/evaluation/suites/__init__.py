"""Evaluation data: panels (sets of tasks), settings (panels with options) and suites (groups of settings)."""

from benchmarks.evaluation.suites.panels import EVALUATION, Panel, named_panel, panel, panel_names, weights_of
from benchmarks.evaluation.suites.paper import SUITES, Suite, named_suite, reported
from benchmarks.evaluation.suites.setting import Setting

__all__ = [
    "EVALUATION",
    "SUITES",
    "Panel",
    "Setting",
    "Suite",
    "named_panel",
    "named_suite",
    "panel",
    "panel_names",
    "reported",
    "weights_of",
]
