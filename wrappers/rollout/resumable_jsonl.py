"""`ResumableJsonl`: a file of JSON lines that a run appends to and truncates when it resumes. No torch here."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from mage_envs.files.atomic import drafts_of, open_to_append, write_atomically
from mage_envs.files.bounded import lines_inside, parse_json
from mage_envs.secrets import scrub

Line = Mapping[str, Any]
"""A JSON object. Its key `step` holds the optimiser steps before it."""


class ResumableJsonl:
    """A JSON-lines file with a single writer.

    Each call writes its lines in one piece, which is on the disk when the call returns. The file exists once it has a
    line. Secrets are replaced.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def rows(self) -> list[dict[str, Any]]:
        """Return all lines except a torn last one.

        Raises ValueError if a line is not a JSON object. The folder may come from a stranger (`bounded_files`).
        """
        if not self.path.exists():
            return []
        rows = []
        for number, line in enumerate(lines_inside(self.path.parent, self.path.name), start=1):
            if not line.endswith(b"\n"):
                break
            try:
                row = parse_json(line)
            except ValueError as error:
                raise ValueError(f"{self.path}, line {number}, cannot be read as JSON ({error}).") from error
            if not isinstance(row, dict):
                raise ValueError(f"{self.path}, line {number}, must be a JSON object.")
            rows.append(row)
        return rows

    def resume(self, step: int, end_key: str, repeats_end: bool = False) -> int:
        """Remove a torn last line and the lines that the resumed run writes again; return the number of lines left.

        Args:
            step: Optimiser steps that are done.
            end_key: Key whose value "eval" marks the lines that end their step.
            repeats_end: True if the end of `step` is repeated, too.
        """
        # Drafts of a run that was killed in this method.
        for draft in drafts_of(self.path.parent, self.path.name):
            draft.unlink()
        if not self.path.exists():
            return 0
        last_row = None if repeats_end else (step, "eval")
        rows = [row for row in self.rows() if row["step"] < step or (row["step"], row.get(end_key)) == last_row]
        if rows:
            write_atomically(self.path, "".join(map(_line, rows)))
        else:
            self.path.unlink()
        return len(rows)

    def append(self, rows: Iterable[Line]) -> None:
        """Append lines. If the disk is full, none of them is written."""
        unwritten = "".join(map(_line, rows)).encode()
        if not unwritten:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # Unbuffered, so that a failed write leaves nothing but the bytes that `os.write` counted.
        file = open_to_append(self.path)
        try:
            start_offset = os.lseek(file, 0, os.SEEK_END)
            try:
                # `os.write` writes only a part if the disk has room for no more.
                while unwritten:
                    unwritten = unwritten[os.write(file, unwritten) :]
            except OSError as error:
                # Removes the part that was written, so that no torn line stays.
                os.ftruncate(file, start_offset)
                error.filename = str(self.path)
                raise
            os.fsync(file)
        finally:
            os.close(file)


def _line(row: Line) -> str:
    return json.dumps(scrub(row)) + "\n"
