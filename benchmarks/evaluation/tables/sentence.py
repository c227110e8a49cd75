"""Shares as text, with two decimals and without the zero before the point."""

from __future__ import annotations

from mage_envs.benchmarks.evaluation.tables.summary_table import NOT_KNOWN


def share(value: float | None) -> str:
    """Return a share with two decimals and without the zero before the point: `.43`, `-1.20`."""
    if value is None:
        return NOT_KNOWN
    text = f"{round(value, 2) + 0.0:.2f}"
    return text.replace("0.", ".", 1) if text.lstrip("-").startswith("0.") else text
