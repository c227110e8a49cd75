"""Summary of a run: a table, a figure, and the commands to evaluate, play against and resume its model. No torch."""

from __future__ import annotations

import io
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from mage_envs.cli.tables import Block, TextTable, as_text
from mage_envs.files.atomic import write_atomically
from trainer.backends.play_settings import PlaySettings
from trainer.runs.run_log import METRICS, TRANSCRIPTS, means, metric_rows

FIGURE = "training.png"
_SHARE = 5
"""Part of the rollouts that is compared: the first and the last fifth."""
_KEY = re.compile(r"(success|value)/episode_(\d+)(?:/(.+))?")


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
    first, last = means(rows[:part]), means(rows[-part:])
    keys = [found for found in map(_KEY.fullmatch, {**first, **last}) if found]
    episodes = max((int(found[2]) for found in keys), default=0)
    names = ["", *sorted({found[3] for found in keys if found[3]})]
    counted = f"{part} of {len(rows)} rollouts" if part > 1 else f"one of {len(rows)} rollouts"
    cells = [
        [name or "all", measure, " -> ".join(_numbers(side, measure, name, episodes) for side in (first, last))]
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
    """Draw success by episode over the rollouts, and the score of the evaluations; return the file.

    Returns None without matplotlib or rollouts.
    """
    rows, evaluations = metric_rows(folder, "rollout"), metric_rows(folder, "eval")
    if not rows:
        return None
    try:
        # A Figure without pyplot needs no display and leaves the backend as it is.
        from matplotlib.figure import Figure
    except ImportError:
        return None
    drawn = Figure(figsize=(9.0 if evaluations else 5.0, 3.4), layout="constrained")
    axes = drawn.subplots(1, 2 if evaluations else 1, squeeze=False)[0]
    episode = 1
    while any((key := f"success/episode_{episode}") in row for row in rows):
        points = [(row["rollout"] + 1, row[key]) for row in rows if key in row]
        axes[0].plot(*zip(*points, strict=True), label=f"episode {episode}", linewidth=1.2)
        episode += 1
    axes[0].set(xlabel="rollout", ylabel="success in training", ylim=(-0.03, 1.03))
    axes[0].legend(fontsize=8, frameon=False)
    if evaluations:
        axes[1].plot([row["rollout"] for row in evaluations], [row["score"] for row in evaluations], marker="o")
        axes[1].set(xlabel="rollout", ylabel="score of the evaluations")
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(axis="y", color="#e4e4e4")
    # Drawn in memory first, so that the file is complete or missing.
    held = io.BytesIO()
    drawn.savefig(held, format="png", dpi=150)
    path = Path(folder) / FIGURE
    write_atomically(path, held.getvalue())
    return path


def commands(
    folder: str | Path, played: PlaySettings | None, arguments: Sequence[str], rollouts: int | None, opponents: bool
) -> str:
    """Return the next commands: evaluate the model, play against it, read transcripts, double its rollouts.

    Args:
        folder: Folder of the run.
        played: Play settings of the model, or None.
        arguments: Arguments of the command that started the run.
        rollouts: Rollouts of the run; None if its length is counted in updates.
        opponents: True if other players take part in the game.
    """
    name = shlex.quote(str(folder))
    lines = []
    if played is not None and played.env_id.endswith("-Meta-v0"):
        # The commands load no module that only mage.json names.
        modules = "".join(f" --import {module}" for module in played.imports)
        lines.append(f"Evaluate it:      mage eval {name}{modules}")
        if opponents:
            base = played.env_id.replace("-Meta-v0", "-v0")
            opponent = shlex.quote(f"checkpoint:{folder}")
            lines.append(f"Play against it:  mage play {base} --opponent {opponent}{modules}")
    if (Path(folder) / TRANSCRIPTS).exists():
        page = shlex.quote(str(Path(folder) / "report.html"))
        lines.append(f"Read transcripts: mage report {name} --out {page}")
    # `--max_rollouts` and `--resume` are added below with new values.
    words = [word for word in arguments if word not in ("--resume", "--resume-if-any")]
    if rollouts is not None and "--max_rollouts" in words:
        place = words.index("--max_rollouts")
        del words[place : place + 2]
    more = [] if rollouts is None else ["--max_rollouts", str(2 * rollouts)]
    lines.append(f"Train it further: mage train {shlex.join([*words, *more])} --resume")
    return "\n".join(lines) + "\n"


def summarise_run(folder: str | Path) -> list[Block]:
    """Draw the figure of a run, and return its table and its files."""
    drawn = figure(folder)
    if drawn is None:
        line = 'No figure: install matplotlib with pip install "mage-envs[report]".'
    else:
        line = f"Figure: {drawn}"
    kept = f"Metrics: {Path(folder) / METRICS}, transcripts: {Path(folder) / TRANSCRIPTS}"
    return ["", *blocks(folder), "", line, kept]
