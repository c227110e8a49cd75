"""Tables of records as Parquet files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mage_envs.files.atomic import draft_beside


def write_parquet(columns: Mapping[str, Sequence[Any]], path: Path, to: str) -> None:
    """Write a table.

    Args:
        columns: Values of each column by its name.
        path: File to write.
        to: Format that the user chose, for the message if pyarrow is missing.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError as error:
        raise ImportError(f'--to {to} needs pyarrow. Install it with: pip install "mage-envs[records]"') from error
    # Renamed at the end, so that an interrupted export leaves no truncated file.
    draft = draft_beside(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        pyarrow.parquet.write_table(pyarrow.table({**columns}), draft)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
