"""Figures of matplotlib, which is loaded when one is drawn, as PNG files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def blank(width: float, height: float, dpi: int = 150, *, what: str = "The figure", constrained: bool = True) -> Figure:
    """A figure of so many inches. Raises ImportError, with the remedy, without matplotlib, which `what` needs."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise ImportError(f'{what} needs matplotlib. Install it with: pip install "mage-envs[cli]"') from error
    figure = Figure(figsize=(width, height), layout="constrained" if constrained else None, dpi=dpi)
    FigureCanvasAgg(figure)
    return figure


def save(figure: Figure, path: Path) -> None:
    """Writes it, with the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
