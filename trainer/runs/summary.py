"""Summary of a run: a table, a figure, and the commands to evaluate, play against and resume its model. No torch."""

from __future__ import annotations

import io
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mage_envs.cli.tables import Block, TextTable, as_text
from mage_envs.files.atomic import write_atomically
from mage_envs.loading.imports import OPTION, user_modules
from mage_envs.trainer.backends.play_settings import PlaySettings
from mage_envs.trainer.runs.console import episode_values
from mage_envs.trainer.runs.panel_evaluation import LINES
from mage_envs.trainer.runs.run_folder import checkpoints
from mage_envs.wrappers.rollout.training_log import MEASURES, METRICS, TRANSCRIPTS, means, measure_of_rows, metric_rows

FIGURE = "training.png"
_SHARE = 5
"""Part of the rollouts that is compared: the first and the last fifth."""
RESUMES = ("--resume", "--resume-if-any")
"""Switches that resume a run."""
_KEY = re.compile(r"(success|value)/episode_(\d+)(?:/(.+))?")


class RunLength(NamedTuple):
    """Length of a run."""

    rollouts: int | None
    """Planned rollouts; None if the number of updates ended the run."""
    updates: int
    """Finished updates."""
    interrupted: bool = False
    """True if the run ended before its planned length."""


def table(folder: str | Path) -> str:
    """Return `blocks` as plain text."""
    return as_text(blocks(folder))


def blocks(folder: str | Path) -> list[Block]:
    """Return success and value by opponent and episode, in the first and the last rollouts, and the best evaluation."""
    rows = metric_rows(folder, "rollout")
    if not rows:
        return []
    # At least one rollout, in a run of fewer than five.
    part = max(len(rows) // _SHARE, 1)
    first_means, last_means = means(rows[:part]), means(rows[-part:])
    keys = [match for match in map(_KEY.fullmatch, {**first_means, **last_means}) if match]
    episodes = max((int(match[2]) for match in keys), default=0)
    names = ["", *sorted({match[3] for match in keys if match[3]})]
    counted = f"{part} of {len(rows)} rollouts" if part > 1 else f"one of {len(rows)} rollouts"
    cells = [
        [
            name or "all",
            measure,
            " -> ".join(_numbers(side, measure, name, episodes) for side in (first_means, last_means)),
        ]
        for measure in ("success", "value")
        for name in names
    ]
    columns = ["opponent", "measure", f"by episode, the first and the last {counted}"]
    lines: list[Block] = [TextTable(columns, cells, text=(0, 1, 2))]
    evaluations = metric_rows(folder, "eval")
    if evaluations:
        best = max(evaluations, key=lambda row: float(row["score"]))
        lines += ["", f"Best of {len(evaluations)} evaluations, after update {best['step']}:", best["table"].rstrip()]
    return lines


def _numbers(metrics: Mapping[str, float], measure: str, name: str, episodes: int) -> str:
    keys = [f"{measure}/episode_{k}{f'/{name}' if name else ''}" for k in range(1, episodes + 1)]
    return " ".join(f"{metrics[key]:6.3f}" if key in metrics else "     -" for key in keys)


def figure(folder: str | Path) -> Path | None:
    """Draw the game's headline measure by episode over the rollouts and over the evaluations; return the file.

    The exact lines of the last episode are drawn where the panel has them. Returns None without matplotlib or rollouts.
    """
    rows, evaluations = metric_rows(folder, "rollout"), metric_rows(folder, "eval")
    if not rows:
        return None
    try:
        # A Figure without pyplot needs no display and leaves the backend as it is.
        from matplotlib.figure import Figure
    except ImportError:
        return None
    measure = measure_of_rows(rows)
    canvas = Figure(figsize=(9.0 if evaluations else 5.0, 3.4), layout="constrained")
    axes = canvas.subplots(1, 2 if evaluations else 1, squeeze=False)[0]
    _draw_episodes(axes[0], [(row["rollout"] + 1, row) for row in rows], measure)
    axes[0].set(xlabel="rollout", ylabel=f"{MEASURES[measure]} in training")
    if evaluations:
        points = [(row["rollout"], row) for row in evaluations]
        _draw_episodes(axes[1], points, measure, marker="o")
        axes[1].set(xlabel="rollout", ylabel=f"{MEASURES[measure]} in evaluations")
        # The exact lines are values per hand.
        for number, (name, title) in enumerate(LINES.items() if measure == "value" else ()):
            if values := episode_values(evaluations[-1], name):
                style = {"color": "#808080", "linestyle": ("-", "--", ":")[number], "linewidth": 1.0}
                axes[1].axhline(values[-1], label=f"{title}, last episode", **style)
    for axis in axes:
        if measure == "success":
            axis.set_ylim(-0.03, 1.03)
        axis.legend(fontsize=8, frameon=False)
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(axis="y", color="#e4e4e4")
    # Drawn in memory first, so that the file is complete or missing.
    buffer = io.BytesIO()
    canvas.savefig(buffer, format="png", dpi=150)
    path = Path(folder) / FIGURE
    write_atomically(path, buffer.getvalue())
    return path


def _draw_episodes(axis: Any, rows: Sequence[tuple[float, Mapping[str, Any]]], measure: str, marker: str = "") -> None:
    """Draw one curve for each episode."""
    episode = 1
    while any((key := f"{measure}/episode_{episode}") in row for _, row in rows):
        points = [(rollout, row[key]) for rollout, row in rows if key in row]
        axis.plot(*zip(*points, strict=True), label=f"episode {episode}", linewidth=1.2, marker=marker)
        episode += 1


def commands(
    folder: str | Path, play_settings: PlaySettings | None, arguments: Sequence[str], length: RunLength, opponents: bool
) -> str:
    """Return the next commands: evaluate the model, play against it, read transcripts, and resume the run.

    Args:
        play_settings: Play settings of the model, or None.
        arguments: Arguments of the command that started the run.
        length: Planned and finished length of the run.
        opponents: True if other players take part in the game.
    """
    name = shlex.quote(str(folder))
    lines = []
    # The commands load no module that only mage.json names. The memory or the style of a run may name one, too.
    imports = dict.fromkeys((*(play_settings.imports if play_settings is not None else ()), *user_modules()))
    modules = "".join(f" {OPTION} {module}" for module in imports)
    if play_settings is not None and play_settings.env_id.endswith("-Meta-v0"):
        lines.append(f"Evaluate it:      mage eval {name}{modules}")
        if opponents:
            base = play_settings.env_id.replace("-Meta-v0", "-v0")
            opponent = shlex.quote(f"checkpoint:{folder}")
            lines.append(f"Play against it:  mage play {base} --opponents {opponent}{modules}")
    if (Path(folder) / TRANSCRIPTS).exists():
        page = shlex.quote(str(Path(folder) / "report.html"))
        lines.append(f"Read transcripts: mage report {name} --out {page}")
    if not checkpoints(Path(folder)):
        lines.append(
            "It cannot be resumed, because it has no checkpoint. --save_strategy steps --save_steps N writes some."
        )
    elif length.interrupted:
        words = [*_without(arguments, OPTION), *shlex.split(modules)]
        lines.append(f"Continue it:      mage train {shlex.join(words)} --resume")
    else:
        if length.rollouts is None:
            limits, longer = ["--max_steps"], ["--max_steps", str(2 * length.updates)]
        else:
            limits, longer = ["--max_steps", "--max_rollouts"], ["--max_rollouts", str(2 * length.rollouts)]
        words = [*_without(arguments, OPTION, *limits), *longer, *shlex.split(modules)]
        lines.append(f"Train it further: mage train {shlex.join(words)} --resume")
    return "\n".join(lines) + "\n"


def _without(arguments: Sequence[str], *options: str) -> list[str]:
    """Return the arguments without these options and their values, and without the switches that resume."""
    words, values = [], iter(arguments)
    for word in values:
        if word in options:
            next(values, None)
        elif word not in RESUMES and word.partition("=")[0] not in options:
            words.append(word)
    return words


def summarise_run(folder: str | Path) -> list[Block]:
    """Draw the figure of a run, and return its table and its files."""
    path = figure(folder)
    if path is None:
        line = 'No figure: install matplotlib with pip install "mage-envs[report]".'
    else:
        line = f"Figure: {path}"
    files_line = f"Metrics: {Path(folder) / METRICS}, transcripts: {Path(folder) / TRANSCRIPTS}"
    return ["", *blocks(folder), "", line, files_line]
