"""Sokoban levels in the text forms that collections use, read into blocks of rows.

A level is a run of rows. A row has only the symbols below and at least one wall. Any other line ends the level before
it: a blank line, a title, a comment, `; N`. Rows may be run-length encoded (`3#@|5-`), and `|` may separate them.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from mage_envs.games.sokoban.level import Level, level_of

SYMBOLS = {character: character for character in "# .*$@+"} | {
    **dict.fromkeys("-_\u00a0", " "),
    "p": "@",
    "P": "+",
    "b": "$",
    "B": "*",
    "o": ".",
}
"""Characters of a row to those of `level_of`. Floor may be `-` or `_`; the letters are those of other programs."""
TAB_SIZES = (8, 4, 2, 1)
"""Distances of tab stops that are tried for a level with tabs."""
MAX_CELLS = 10_000
"""Maximum cells of a level, rows times columns. It also limits what run lengths may produce."""
MAX_ENCODED = 2_000
"""Maximum characters of a line with run lengths. It limits the memory that a hostile file can use."""
_ROW = re.compile(rf"[{re.escape(''.join(SYMBOLS))}\t0-9|()]*")
_ENCODED = re.compile(r"[0-9|()]")
_RUN = re.compile(r"(\d+)(\([^()]*\)|[^\d()|])|\(([^()]*)\)")
_HEADER = re.compile(r";\s*\d+\s*")
_COMMENT = re.compile(r"\s*comment\s*:", re.IGNORECASE), re.compile(r"\s*comment[- ]end", re.IGNORECASE)


class Block(NamedTuple):
    """The rows of one level."""

    line: int
    """Number of the line of its first row or, if it has none, of its header."""
    rows: tuple[str, ...]


def decode_text(content: bytes) -> str:
    """Return the text of a file. Raise ValueError if it is no text."""
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return content.decode("utf-16")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        # Old collections have names in Latin-1, which decodes any bytes.
        text = content.decode("latin-1")
    if "\0" in text:
        raise ValueError("it has the byte 0")
    return text


def blocks_of(text: str) -> list[Block]:
    """Return the levels of a file as rows, without tests of their content."""
    blocks: list[Block] = []
    rows: list[str] = []
    start, header, is_comment = 0, 0, False
    lines = text.splitlines()
    last_comment = max((number for number, line in enumerate(lines, start=1) if _COMMENT[1].match(line)), default=0)
    # In some collections the numbers follow their levels. Then the last number has no rows, and no level is missing.
    is_first_row = next((_is_row(line, False) for line in lines if line.startswith(";") or "#" in line), False)

    def end() -> None:
        nonlocal rows, header
        # Lines of walls and floor alone are decoration.
        is_level = re.search(r"[^#\s\-_]", "".join(rows)) if rows else header and not is_first_row
        if is_level:
            blocks.append(Block(start if rows else header, tuple(rows)))
        rows, header = [], 0

    for number, line in enumerate(lines, start=1):
        if is_comment:
            is_comment = not _COMMENT[1].match(line)
        elif _is_row(line, bool(rows)):
            start, header = start if rows else number, 0
            rows += _expand_runs(line.rstrip())
        else:
            # A header without rows is a level that was lost, unless the rows follow after blank lines or a title.
            if rows:
                end()
            if _HEADER.fullmatch(line):
                end()
                header = number
            # A comment without an end is one line.
            is_comment = number < last_comment and bool(_COMMENT[0].fullmatch(line.rstrip()))
    end()
    return blocks


def _is_row(line: str, is_inside: bool) -> bool:
    """Return True if a line is a row of a level; `is_inside` is True if the line before is one."""
    if "#" not in line:
        return False
    if _ROW.fullmatch(line):
        # "#1" is a title; a run length has a symbol behind it.
        return not re.search(r"\d\s*$", line)
    # A row with a wrong character belongs to its level, so that the level is dropped and not cut in two.
    text = line.strip()
    return is_inside and text[0] == text[-1] == "#" and len(text) > 1


def _expand_runs(line: str) -> list[str]:
    """Return the rows of a line, with run lengths replaced."""
    if len(line) > MAX_ENCODED or not _ENCODED.search(line):
        return [line]

    def repeat_group(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[3]
        return match[2].strip("()") * min(int(match[1][:6]), MAX_CELLS)

    # Inner groups first; each pass replaces at least one.
    while len(line) <= MAX_CELLS and (shorter := _RUN.sub(repeat_group, line)) != line:
        line = shorter
    return [row.rstrip() for row in line.split("|") if row.strip()]


def level_of_rows(rows: tuple[str, ...]) -> Level:
    """Return the level of a block's rows. Raise ValueError if it is malformed."""
    if not any("\t" in row for row in rows):
        return _level(list(rows))
    levels: dict[Level, None] = {}
    reason: ValueError | None = None
    for size in TAB_SIZES:
        try:
            levels[_level([row.expandtabs(size) for row in rows])] = None
        except ValueError as error:
            reason = reason or error
    if len(levels) > 1:
        raise ValueError("the tabs have several readings; replace them with blanks")
    if not levels:
        raise reason or ValueError("the level has no rows")
    return next(iter(levels))


def _level(rows: list[str]) -> Level:
    """Return the level of rows that may be ragged and indented."""
    if not rows:
        raise ValueError("the level has no rows")
    rows = [row.rstrip() for row in rows]
    indent = min(len(row) - len(row.lstrip()) for row in rows)
    rows = [row[indent:] for row in rows]
    width = max(map(len, rows))
    if width * len(rows) > MAX_CELLS:
        raise ValueError(f"the level has {width} x {len(rows)} cells, but at most {MAX_CELLS:,} are allowed")
    return level_of(_add_outer_walls([row.ljust(width) for row in rows]), SYMBOLS)


def _add_outer_walls(rows: list[str]) -> list[str]:
    """Return the rows with walls in place of the blanks that are outside of the level.

    A blank is outside if a path of blanks leads from it to the border. A closed rectangle has none.
    """
    height, width = len(rows), len(rows[0])
    waiting = [
        (row, column)
        for row in range(height)
        for column in range(width)
        if row in (0, height - 1) or column in (0, width - 1)
    ]
    outside: set[tuple[int, int]] = set()
    while waiting:
        row, column = cell = waiting.pop()
        if cell in outside or not (0 <= row < height and 0 <= column < width):
            continue
        # `level_of` reports unknown characters.
        symbol = SYMBOLS.get(rows[row][column], "#")
        if symbol == "#":
            continue
        if symbol != " ":
            raise ValueError("the border is open; surround the level with '#'")
        outside.add(cell)
        waiting += [(row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)]
    return [
        "".join("#" if (row, column) in outside else character for column, character in enumerate(line))
        for row, line in enumerate(rows)
    ]
