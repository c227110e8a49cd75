"""A Sokoban level as bit masks, its rules, and its text.

Cell (row, column) is bit `row * width + column`; a set of cells is one integer. Walls surround every level, so a
move by 1 or by `width` never leaves the board and never wraps around.
"""

from __future__ import annotations

from typing import NamedTuple

MOVES = ("up", "down", "left", "right")
WALL, FLOOR, TARGET, PLACED, BOX, PLAYER, STANDING = "#_O√XPS"
"""Wall, floor, target, box on a target, box, player, player on a target."""


class Level(NamedTuple):
    """A board: what never moves, then where boxes and player are."""

    width: int
    height: int
    floor: int
    """All cells that are no wall."""
    targets: int
    boxes: int
    player: int
    """The one cell of the player, as a mask."""


def offsets(width: int) -> tuple[int, int, int, int]:
    """By how many bits each of `MOVES` shifts a cell."""
    return (-width, width, -1, 1)


def shifted(cells: int, offset: int) -> int:
    """The cells, each moved by `offset`."""
    return cells << offset if offset > 0 else cells >> -offset


def step(floor: int, boxes: int, player: int, offset: int) -> tuple[int, int]:
    """Boxes and player after a move; a move against a wall or a box that cannot give way changes nothing."""
    ahead = shifted(player, offset)
    if not ahead & floor:
        return boxes, player
    if ahead & boxes:
        beyond = shifted(ahead, offset)
        if not beyond & floor or beyond & boxes:
            return boxes, player
        boxes ^= ahead | beyond
    return boxes, ahead


class Drawing:
    """Draws boards of one level quickly: only boxes, targets and the player differ from the bare walls and floor."""

    def __init__(self, level: Level) -> None:
        self._targets = level.targets
        self._symbols: list[str] = []
        self._place: dict[int, int] = {}
        """Cell to its place in the text."""
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
        """The board, one row a line, each after its number."""
        symbols, place, targets = self._symbols.copy(), self._place, self._targets
        while boxes:
            cell = boxes & -boxes
            boxes ^= cell
            symbols[place[cell]] = " √" if cell & targets else " X"
        symbols[place[player]] = " S" if player & targets else " P"
        return "".join(symbols)


def cells(mask: int) -> list[int]:
    """The single cells of a set, as masks, in reading order."""
    found = []
    while mask:
        cell = mask & -mask
        found.append(cell)
        mask ^= cell
    return found


def board_text(level: Level) -> str:
    """The level as the learner sees it."""
    return Drawing(level).text(level.boxes, level.player)


def parse_board(text: str) -> Level:
    """The level that `board_text` shows; lines that do not start with `Row` are skipped. Raises ValueError."""
    rows = [line.partition(":")[2].replace(" ", "") for line in text.splitlines() if line.startswith("Row ")]
    if not rows:
        raise ValueError("There is no board in this text: no line starts with 'Row '.")
    return level_of(rows, {WALL: "#", FLOOR: " ", TARGET: ".", PLACED: "*", BOX: "$", PLAYER: "@", STANDING: "+"})


def level_of(rows: list[str], symbols: dict[str, str]) -> Level:
    """A level from its rows, of equal length; `symbols` translates each character into one of `# .*$@+` and blank.

    Raises ValueError saying what is wrong: a character, the border, or the number of players, boxes and targets.
    """
    width = len(rows[0])
    if any(len(row) != width for row in rows):
        raise ValueError(f"the rows are not equally long: {', '.join(str(len(row)) for row in rows)}")
    sets = dict.fromkeys("# .*$@+", 0)
    for number, row in enumerate(rows):
        for column, character in enumerate(row):
            if character not in symbols:
                raise ValueError(f"row {number + 1} has the unknown character {character!r} in column {column + 1}")
            sets[symbols[character]] |= 1 << number * width + column
    border = {*range(width), *range((len(rows) - 1) * width, len(rows) * width)}
    border |= {row * width + edge for row in range(len(rows)) for edge in (0, width - 1)}
    if any(not sets["#"] >> cell & 1 for cell in border):
        raise ValueError("the border is open; surround the level with '#'")
    targets, boxes, player = sets["."] | sets["*"] | sets["+"], sets["$"] | sets["*"], sets["@"] | sets["+"]
    if player.bit_count() != 1:
        raise ValueError(f"there are {player.bit_count()} players; there must be one")
    if boxes.bit_count() != targets.bit_count() or not boxes:
        raise ValueError(
            f"there are {boxes.bit_count()} boxes and {targets.bit_count()} targets; "
            "there must be at least one box and as many targets"
        )
    floor = (1 << width * len(rows)) - 1 & ~sets["#"]
    return Level(width=width, height=len(rows), floor=floor, targets=targets, boxes=boxes, player=player)
