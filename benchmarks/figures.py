"""Creation and saving of matplotlib figures. Matplotlib is imported only if a figure is drawn."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mage_envs.files.atomic import output_path, write_atomically
from mage_envs.loading.extras import requires

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = (".png", ".pdf", ".svg")
"""Suffixes of files that a figure can be saved to."""


def figure_path(text: str) -> Path:
    """Return the file of `--plot`. Raises ValueError if no figure could be saved there, before anything is computed."""
    path = output_path(text)
    if path.suffix.lower() not in FORMATS:
        raise ValueError(f"--plot {text} must end with {', '.join(FORMATS)}, such as --plot figure.png.")
    path.parent.mkdir(parents=True, exist_ok=True)
    blank(1, 1)
    return path


def blank(
    width: float, height: float, dpi: int = 150, *, subject: str = "The figure", constrained: bool = True
) -> Figure:
    """Return an empty figure that renders without a display.

    Args:
        dpi: Resolution of the PNG in dots per inch.
        subject: Subject of the error message if matplotlib is missing.
        constrained: True to use matplotlib's constrained layout.

    Raises:
        ImportError: If matplotlib is not installed.
    """
    with requires(subject, "report", "matplotlib"):
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    figure = Figure(figsize=(width, height), layout="constrained" if constrained else None, dpi=dpi)
    # Attach the canvas directly: pyplot would keep every figure in global state and may require a display.
    FigureCanvasAgg(figure)
    return figure


def finish(figure: Figure, axis: Any, grid: str, columns: int) -> None:
    """Draw the frame, a grid of lines across `x`, `y` or `both`, and the legend below with so many columns."""
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(axis=grid, color="#e4e4e4", linewidth=0.8)
    figure.legend(loc="outside lower center", fontsize=8, frameon=False, ncols=columns)


def save(figure: Figure, path: Path) -> None:
    """Write the figure atomically, in the format of the path's suffix, and create the folders above it."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format=path.suffix[1:].lower() or "png")
    write_atomically(path, buffer.getvalue())
