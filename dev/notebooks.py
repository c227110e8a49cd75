"""Execute the notebooks and store them with their outputs: `python -m dev.notebooks [NAME ...]`, in minutes.

The cell that installs the package is skipped.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent.parent / "examples" / "notebooks"
_CURSOR = re.compile(r"\x1b\[\d*[A-KST]|\r(?!\n)")
_STYLE = re.compile(r"\x1b\[[\d;?]*[a-zA-Z]|\r(?=\n)")
TIMEOUT_S = 1200
"""Timeout of a cell in seconds."""


def store_outputs(path: Path) -> None:
    """Execute a notebook in an empty folder, and write it with its outputs."""
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    with TemporaryDirectory() as folder:
        NotebookClient(
            notebook,
            timeout=TIMEOUT_S,
            kernel_name="python3",
            skip_cells_with_tag="install",
            # Times of cells would differ at each execution.
            record_timing=False,
            resources={"metadata": {"path": folder}},
        ).execute()
    join_streams(notebook)
    nbformat.write(notebook, path)  # type: ignore[no-untyped-call]


def join_streams(notebook: nbformat.NotebookNode) -> None:
    """Join the printed texts of each cell, as a terminal shows them at the end: without lines that were redrawn."""
    for cell in notebook.cells:
        outputs = cell.get("outputs", [])
        printed = [output for output in outputs if output.output_type == "stream"]
        if not printed:
            continue
        # Moves of the cursor begin a line anew, as \r does.
        text = _CURSOR.sub("\r", "".join(output.text for output in printed))
        lines = [line.rpartition("\r")[2].rstrip() for line in _STYLE.sub("", text).split("\n")]
        joined = nbformat.v4.new_output("stream", name="stdout", text="\n".join(lines))
        cell.outputs = [joined, *(output for output in outputs if output.output_type != "stream")]


def main(names: list[str]) -> None:
    """Store the outputs of these notebooks, or of all."""
    # The program `mage` of this environment.
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for path in sorted(FOLDER.glob("*.ipynb")):
        if not names or path.stem in names:
            store_outputs(path)


if __name__ == "__main__":
    main(sys.argv[1:])
