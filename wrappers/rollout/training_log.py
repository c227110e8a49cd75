"""The files that a training writes into its folder, read back: metrics and transcripts as JSON lines."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from mage_envs.wrappers.rollout.line_schema import MetricRecord, TranscriptRecord, problems_of
from mage_envs.wrappers.rollout.resumable_jsonl import ResumableJsonl
from mage_envs.wrappers.rollout.trajectory_json import Line

METRICS, TRANSCRIPTS = "metrics.jsonl", "transcripts.jsonl"
SETTINGS = "mage.json"
"""File beside the weights of a saved model: how it is asked."""

MEASURE = "measure"
"""Key of the game's headline measure in the rows of rollouts and evaluations, one of `MEASURES`."""
MEASURES = {"success": "success", "value": "value per hand"}
"""Measures by episode, with their labels."""


def measure_of_rows(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the headline measure of a run's rows; `success` if they name none."""
    return str(rows[-1].get(MEASURE, "success")) if rows else "success"


def means(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return each metric's mean over the rows that contain it."""
    values_by_name: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        for name, value in row.items():
            if name not in ("kind", "step", "rollout", "table", MEASURE):
                values_by_name[name].append(value)
    return {name: sum(values) / len(values) for name, values in values_by_name.items()}


def transcripts(folder: str | Path) -> list[Line]:
    """Return the meta-episodes that a run logged, in the order in which they were played. Raises ValueError."""
    return _validate_lines(ResumableJsonl(Path(folder) / TRANSCRIPTS), TranscriptRecord)


def metric_rows(folder: str | Path, kind: str) -> list[dict[str, Any]]:
    """Return the lines of one kind in a run's folder. Raises ValueError for a line of another form."""
    return [row for row in _validate_lines(ResumableJsonl(Path(folder) / METRICS), MetricRecord) if row["kind"] == kind]


def _validate_lines(lines: ResumableJsonl, kind: type[BaseModel]) -> list[dict[str, Any]]:
    rows = lines.rows()
    for number, row in enumerate(rows, start=1):
        if problem := next(problems_of(kind, row), None):
            raise ValueError(f"{lines.path}, line {number}, is not of this version or was changed ({problem}).")
    return rows
