"""Tables. This file is the only one that draws them: rich on a terminal, aligned plain text everywhere else."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mage_envs.text.visible import visible

LEAST_NAME = 12
"""Minimum width of a column of text on a narrow terminal, in characters. Longer text is wrapped."""
GAP = 2
"""Blanks between two columns."""


@dataclass(frozen=True)
class TextTable:
    """A table. `str` returns it as plain text, with whole cells and a rule below the titles of the columns."""

    columns: Sequence[str]
    """Titles of the columns. A table whose titles are all empty is drawn without them."""
    rows: Sequence[Sequence[str] | str]
    """Cells of each row. A row that is a string is a heading of the rows below it."""
    text: Sequence[int] = (0,)
    """Places of the columns with text, which is aligned to the left. All others are aligned to the right."""

    @property
    def cells(self) -> list[list[str]]:
        """Return the titles and the rows as visible text of one line each, without the headings."""
        rows = [self.columns, *(row for row in self.rows if not isinstance(row, str))]
        return [[visible(cell).replace("\n", " ") for cell in row] for row in rows]

    def widths(self) -> list[int]:
        """Return the width of the longest cell of each column."""
        return [max(map(len, column)) for column in zip(*self.cells, strict=True)]

    def __str__(self) -> str:
        widths = self.widths()
        head, *body = [
            (" " * GAP)
            .join(
                cell.ljust(width) if column in self.text else cell.rjust(width)
                for column, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            .rstrip()
            for row in self.cells
        ]
        aligned = iter(body)
        lines = [visible(row) if isinstance(row, str) else next(aligned) for row in self.rows]
        return "\n".join([head, "-" * max(map(len, (head, *body))), *lines] if any(self.columns) else lines)


Block = str | TextTable
"""Part of a report: a line of text, or a table."""


def as_text(blocks: Iterable[Block]) -> str:
    """Return the parts of a report as plain text that ends with a line break."""
    return "".join(f"{block}\n" for block in blocks)


def print_report(blocks: Iterable[Block]) -> None:
    """Print the parts of a report. On a terminal rich draws them in its width, with all columns in parts that fit."""
    if not sys.stdout.isatty():
        sys.stdout.write(as_text(blocks))
        return
    # Imported here, because rich takes longer than a short command, and pipes do not need it.
    from rich.console import Console
    from rich.text import Text

    console = Console(file=sys.stdout, highlight=False)
    for block in blocks:
        for part in (visible(block),) if isinstance(block, str) else _parts(block, console.width):
            console.print(Text(part) if isinstance(part, str) else _build_rich_table(part))


def _parts(table: TextTable, width: int) -> Iterator[TextTable]:
    """Yield the table in parts of at most `width` characters. Each has the first column and as many others as fit."""
    natural = table.widths()
    widths = [min(size, LEAST_NAME) if column in table.text else size for column, size in enumerate(natural)]
    remaining = list(range(1, len(widths)))
    while True:
        count = 1
        while (
            count < len(remaining)
            and widths[0] + sum(GAP + widths[column] for column in remaining[: count + 1]) <= width
        ):
            count += 1
        shown_columns, remaining = [0, *remaining[:count]], remaining[count:]
        yield replace(
            table,
            columns=[table.columns[column] for column in shown_columns],
            rows=[row if isinstance(row, str) else [row[column] for column in shown_columns] for row in table.rows],
            text=[index for index, column in enumerate(shown_columns) if column in table.text],
        )
        if not remaining:
            return


def _build_rich_table(table: TextTable) -> Any:
    """Return the table as one of rich's."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    titled = any(table.columns)
    # The box puts a blank between two columns of its own.
    padding = (0, GAP - 1 if titled else GAP, 0, 0)
    rich_table = Table(box=box.SIMPLE_HEAD if titled else None, show_edge=False, show_header=titled, padding=padding)
    head, *body = table.cells
    for column, title in enumerate(head):
        rich_table.add_column(Text(title), justify="left" if column in table.text else "right", overflow="fold")
    cells = iter(body)
    for row in table.rows:
        rich_table.add_row(*map(Text, [visible(row)] if isinstance(row, str) else next(cells)))
    return rich_table
