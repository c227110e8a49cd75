"""A Sokoban level as bit masks, its rules and its text.

Cell (row, column) is bit `row * width + column`, and a set of cells is one integer. Walls surround every level, so a
move by 1 or by `width` never leaves the board and never wraps around.
"""

from __future__ import annotations

from typing import NamedTuple

MOVES = ("up", "down", "left", "right")
WALL, FLOOR, TARGET, PLACED, BOX, PLAYER, STANDING = "#_O√XPS"
"""Symbols of wall, floor, target, box on a target, box, player, player on a target."""


class Level(NamedTuple):
    """A board: the fixed cells, then the positions of the boxes and the player."""

    width: int
    height: int
    floor: int
    """Mask of the cells that are not walls."""
    targets: int
    boxes: int
    player: int
    """Mask of the player's cell."""


def offsets(width: int) -> tuple[int, int, int, int]:
    """Return the shift in bits of each of `MOVES`."""
    return (-width, width, -1, 1)


def shift(cells: int, offset: int) -> int:
    """Return the cells, each moved by `offset`."""
    return cells << offset if offset > 0 else cells >> -offset


def step(floor: int, boxes: int, player: int, offset: int) -> tuple[int, int]:
    """Return (boxes, player) after a move.

    A move against a wall, or against a box that cannot move, changes nothing.

    Args:
        floor: Mask of the cells that are not walls.
        player: Mask of the player's cell.
        offset: Shift in bits, from `offsets`.
    """
    ahead = shift(player, offset)
    if not ahead & floor:
        return boxes, player
    if ahead & boxes:
        beyond = shift(ahead, offset)
        if not beyond & floor or beyond & boxes:
            return boxes, player
        boxes ^= ahead | beyond
    return boxes, ahead


class Drawing:
    """The text of one level for any position. Walls, floor and targets are prepared once."""

    def __init__(self, level: Level) -> None:
        self._targets = level.targets
        self._symbols: list[str] = []
        self._place: dict[int, int] = {}
        """Cell to the index of its symbol."""
        # Row numbers have equal widths, so that the columns are aligned.
        digits = len(str(level.height))
        for row in range(level.height):
            self._symbols += ["\n"] * (row > 0) + [f"Row {row + 1:>{digits}}:"]
            for column in range(level.width):
                cell = 1 << row * level.width + column
                self._place[cell] = len(self._symbols)
                self._symbols.append(f" {FLOOR if cell & level.floor else WALL}")
        for cell in cells(level.targets):
            self._symbols[self._place[cell]] = f" {TARGET}"

    def text(self, boxes: int, player: int) -> str:
        """Return the board as text. Each line has the number of its row and the cells."""
        symbols, symbol_index, targets = self._symbols.copy(), self._place, self._targets
        for cell in cells(boxes):
            symbols[symbol_index[cell]] = " √" if cell & targets else " X"
        symbols[symbol_index[player]] = " S" if player & targets else " P"
        return "".join(symbols)


def cells(mask: int) -> list[int]:
    """Return the single cells of a set as masks, in reading order."""
    singles = []
    while mask:
        # The lowest set bit: `x & -x` isolates it.
        cell = mask & -mask
        singles.append(cell)
        mask ^= cell
    return singles


def parse_board(text: str) -> Level:
    """Return the level of a board's text, from the lines that start with `Row`. Raise ValueError if it is malformed."""
    rows = [line.partition(":")[2].replace(" ", "") for line in text.splitlines() if line.startswith("Row ")]
    if not rows:
        raise ValueError("The text has no board: no line starts with 'Row '.")
    return level_of(rows, {WALL: "#", FLOOR: " ", TARGET: ".", PLACED: "*", BOX: "$", PLAYER: "@", STANDING: "+"})


def level_of(rows: list[str], symbols: dict[str, str]) -> Level:
    """Return a level from its rows. `symbols` translates each character into one of `# .*$@+` or a blank.

    Raises ValueError if a character, the border, or the number of players, boxes or targets is wrong.
    """
    width = len(rows[0])
    if any(len(row) != width for row in rows):
        raise ValueError(f"the rows must be equally long, got {', '.join(str(len(row)) for row in rows)}")
    sets = dict.fromkeys("# .*$@+", 0)
    for number, row in enumerate(rows):
        for column, character in enumerate(row):
            if character not in symbols:
                raise ValueError(f"row {number + 1} has the unknown character {character!r} in column {column + 1}")
            sets[symbols[character]] |= 1 << number * width + column
    # The bit arithmetic has no bounds checks, so an open border would let a move wrap around.
    border = {*range(width), *range((len(rows) - 1) * width, len(rows) * width)}
    border |= {row * width + edge for row in range(len(rows)) for edge in (0, width - 1)}
    if any(not sets["#"] >> cell & 1 for cell in border):
        raise ValueError("the border is open; surround the level with '#'")
    targets, boxes, player = sets["."] | sets["*"] | sets["+"], sets["$"] | sets["*"], sets["@"] | sets["+"]
    if player.bit_count() != 1:
        raise ValueError(f"expected 1 player, got {player.bit_count()}")
    if boxes.bit_count() != targets.bit_count() or not boxes:
        raise ValueError(
            "expected at least one box and as many targets, "
            f"got {boxes.bit_count()} boxes and {targets.bit_count()} targets"
        )
    floor = (1 << width * len(rows)) - 1 & ~sets["#"]
    return Level(width=width, height=len(rows), floor=floor, targets=targets, boxes=boxes, player=player)


def cell_words(observation: str, seat: int) -> tuple[str, ...]:
    """Return a word such as `X@3.2` (a box in row 3, column 2) for each cell inside the walls around the board."""
    rows = [line.partition(":")[2].split() for line in observation.splitlines() if line.startswith("Row ")]
    return tuple(
        f"{symbol}@{row}.{column}"
        for row, symbols in enumerate(rows[1:-1], start=1)
        for column, symbol in enumerate(symbols[1:-1], start=1)
    )


def all_cell_words(height: int, width: int) -> tuple[str, ...]:
    """Return every word of `cell_words` on boards of at most this size."""
    cells = [f"{row}.{column}" for row in range(1, height - 1) for column in range(1, width - 1)]
    symbols = (WALL, FLOOR, TARGET, PLACED, BOX, PLAYER, STANDING)
    return tuple(f"{symbol}@{cell}" for symbol in symbols for cell in cells)
