"""Training runs in a report: success over the rollouts, and the logged transcripts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from mage_envs.benchmarks.evaluation.scoring.estimates import estimate
from mage_envs.benchmarks.evaluation.scoring.scores import label, per_hand
from mage_envs.benchmarks.report.charts import Chart, Series
from mage_envs.benchmarks.report.transcripts import outcomes, pack_transcript
from mage_envs.text.parser import NO_TEXT
from mage_envs.wrappers.rollout.training_log import TRANSCRIPTS, measure_of_rows, metric_rows, transcripts
from mage_envs.wrappers.rollout.trajectory_json import Line, trajectory_from_json

PARTS = 10
"""Maximum number of points of a curve. Each point is the mean over neighbouring rollouts."""


class KeptMetaEpisode(NamedTuple):
    """Transcript of a training, with the data that the list of transcripts shows."""

    position: int
    """Index in the file."""
    label: str
    outcomes: str
    gain: float | None
    calls: int
    invalid: int
    no_text: int
    failure: str | None


@dataclass(frozen=True, kw_only=True)
class TrainedRun:
    """Training run with all data that the report shows."""

    key: str
    """Name in links, numbered after the evaluated runs."""
    folder: Path
    meta_episodes: tuple[KeptMetaEpisode, ...]
    pages: Mapping[int, bytes]
    rollouts: tuple[Mapping[str, Any], ...]
    """Metrics of each rollout."""

    @property
    def name(self) -> str:
        """Name in the report."""
        return f"training {self.folder.name}"


def training_folders(path: Path) -> list[Path]:
    """Return the folders at a path and below it that contain transcripts of a training."""
    if (path / TRANSCRIPTS).exists():
        return [path]
    return sorted(file.parent for file in path.rglob(TRANSCRIPTS)) if path.is_dir() else []


def read_trained(paths: Sequence[Path], count: int) -> list[TrainedRun]:
    """Return the trainings at these paths and below them, numbered after `count` other runs."""
    folders = dict.fromkeys(folder.resolve() for path in paths for folder in training_folders(path))
    return [_read(folder, f"run{number}" if number > 1 else "run") for number, folder in enumerate(folders, count + 1)]


def training_lines(folder: Path) -> dict[int, Line]:
    """Return the transcripts of a training by their index in the file. Raise ValueError if a line is not one."""
    # The report and `mage export` address a transcript by this index.
    return {index: {**line, "index": index} for index, line in enumerate(transcripts(folder))}


def _read(folder: Path, key: str) -> TrainedRun:
    lines = training_lines(folder)
    return TrainedRun(
        key=key,
        folder=folder,
        meta_episodes=tuple(_build_entry(index, line) for index, line in lines.items()),
        pages={index: pack_transcript(line) for index, line in lines.items()},
        rollouts=tuple(metric_rows(folder, "rollout")),
    )


def _build_entry(index: int, line: Line) -> KeptMetaEpisode:
    trajectory = trajectory_from_json(line)
    episodes = trajectory.episodes
    # A difference needs the first and the last episode of a meta-episode that was played to its end.
    is_complete = trajectory.failure is None and len(episodes) == trajectory.num_episodes > 1
    return KeptMetaEpisode(
        position=index,
        label=label(trajectory),
        outcomes=outcomes(line),
        gain=per_hand(episodes[-1]) - per_hand(episodes[0]) if is_complete else None,
        calls=len(trajectory.steps),
        invalid=sum(step.invalid_reason not in (None, *NO_TEXT) for step in trajectory.steps),
        no_text=sum(step.invalid_reason in NO_TEXT for step in trajectory.steps),
        failure=trajectory.failure,
    )


def sentence(runs: Sequence[TrainedRun]) -> str:
    """Return one sentence with the number of trainings, rollouts and transcripts."""
    rollouts, count = sum(len(run.rollouts) for run in runs), sum(len(run.meta_episodes) for run in runs)
    trainings = f"{len(runs)} trainings" if len(runs) > 1 else "One training"
    return f"{trainings} of {rollouts:,} rollouts kept {count:,} transcripts."


def training_chart(run: TrainedRun) -> Chart | None:
    """Return the headline measure by episode over the rollouts of a training, or None if it was not logged."""
    measure = measure_of_rows(run.rollouts)
    parts = _parts(len(run.rollouts))
    series: list[Series] = []
    while any((key := f"{measure}/episode_{len(series) + 1}") in rollout for rollout in run.rollouts):
        points = []
        for start, end in parts:
            values = [row[key] for row in run.rollouts[start:end] if key in row]
            if values:
                points.append(estimate(values, range(len(values))))
        series.append(Series(f"episode {len(series) + 1}", len(series), points))
    names = [str(end) if end - start == 1 else f"{start + 1}-{end}" for start, end in parts]
    return Chart(f"{measure.capitalize()} of {run.name}", series, axis="rollouts", names=names) if series else None


def _parts(rollouts: int) -> list[tuple[int, int]]:
    """Return at most `PARTS` ranges (first, end) of rollouts of nearly equal length."""
    count = min(rollouts, PARTS)
    return list(pairwise(part * rollouts // count for part in range(count + 1))) if count else []
