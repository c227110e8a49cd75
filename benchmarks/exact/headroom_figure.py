"""A picture of a game's headroom: what each learner earns by episode."""

from __future__ import annotations

from pathlib import Path

from opponents.exact import Headroom

_STYLES = {
    "myopic": ("#3b6ea8", "o"),
    "sum": ("#8a5fb0", "s"),
    "mage": ("#c05a2b", "^"),
    "last": ("#3f8f5f", "D"),
    "own": ("#777777", "x"),
}


def draw(path: Path, found: Headroom, title: str, unit: str) -> None:
    """Writes a PNG: the curves of the learners between the lines of the blind and of the informed.

    Raises ImportError with the remedy where matplotlib is missing.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise ImportError('The figure needs matplotlib. Install it with: pip install "mage-envs[cli]"') from error
    figure = Figure(figsize=(6.4, 4.0), layout="constrained", dpi=150)
    FigureCanvasAgg(figure)
    axis = figure.subplots()
    axis.axhline(found.known, color="#222222", linestyle="--", linewidth=1.3, label="known")
    axis.axhline(found.blind, color="#222222", linestyle=":", linewidth=1.3, label="blind")
    for name, values in found.per_episode.items():
        colour, marker = _STYLES[name]
        label = f"mage, gt {found.gt:g}" if name == "mage" else name
        axis.plot(range(1, len(values) + 1), values, color=colour, marker=marker, markersize=5, label=label)
        axis.set_xticks(range(1, len(values) + 1))
    axis.set_xlabel("episode")
    axis.set_ylabel(f"{unit} per hand")
    axis.set_title(title, fontsize=8)
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(axis="y", color="#e4e4e4", linewidth=0.8)
    figure.legend(loc="outside lower center", fontsize=8, frameon=False, ncols=4)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
