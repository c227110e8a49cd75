"""Tic-Tac-Toe."""

from __future__ import annotations

from functools import cache

from mage_envs.core import GameSpec
from mage_envs.drawing import Picture
from mage_envs.game_record import GameRecord
from mage_envs.games.table_game import TableGame, TableState
from mage_envs.settings import GameSettings
from mage_envs.text.words.spelling import move_word

LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))
ACTIONS = tuple(f"({row}, {column})" for row in (1, 2, 3) for column in (1, 2, 3))
_SPELLINGS = {
    action: tuple(form.format(action[1], action[4]) for form in ("({},{})", "{},{}", "{}, {}", "{} {}"))
    for action in ACTIONS
}
_MARKS = "XO"


def winning_line(board: str) -> tuple[int, int, int] | None:
    """Return the three cells of a winning line on a board of nine characters, or None."""
    for line in LINES:
        a, b, c = line
        if board[a] != "." and board[a] == board[b] == board[c]:
            return line
    return None


def winner(board: str) -> int | None:
    """Return the player (0 for X, 1 for O) that has a line on a board of nine characters, or None."""
    line = winning_line(board)
    return None if line is None else _MARKS.index(board[line[0]])


def _words(cells: str, seat: int) -> tuple[str, ...]:
    """Return the marks as words by cell: `2-2`, or `opp-2-2` for the opponent's."""
    return tuple(move_word(ACTIONS[cell], mark == _MARKS[seat]) for cell, mark in enumerate(cells) if mark != ".")


class Board(TableState):
    """One of the 5,478 boards. `cells` has nine characters and is the information state too."""

    def __init__(self, cells: str) -> None:
        self.cells = cells
        won = winner(cells)
        over = won is not None or "." not in cells
        # X moves first, so X has one more mark exactly if O is to move.
        mover = cells.count("X") - cells.count("O")
        grid = f"{cells[:3]}\n{cells[3:6]}\n{cells[6:]}"
        observations = []
        for seat in (0, 1):
            if won is None:
                verdict = "a draw."
            else:
                verdict = "you won." if won == seat else "you lost."
            if over:
                status = "The game is over: " + verdict
            else:
                status = "Your move." if mover == seat else "The opponent is to move."
            observations.append(f"{grid}\nYou are {_MARKS[seat]}. {status}")
        super().__init__(
            None if over else mover,
            {None: (0.0, 0.0), 0: (1.0, -1.0), 1: (-1.0, 1.0)}[won],
            observations=tuple(observations),
            keys=(cells, cells),
            origin=(board, (cells,)),
        )

    def picture(self, seat: int) -> Picture:
        # Imported here, because most hands are played without pictures.
        from mage_envs.drawing import tictactoe as drawing

        if self.player is None:
            verdict = {1.0: "You won", 0.0: "A draw", -1.0: "You lost"}[self.returns[seat]]
        else:
            verdict = "Your move" if self.player == seat else "Opponent's move"
        return drawing.board(self.cells, winning_line(self.cells) or (), f"You are {_MARKS[seat]}. {verdict}")


@cache
def boards() -> dict[str, Board]:
    """Return all boards by their cells, the empty one first. Built once (about 0.1 s) and shared by all games."""
    by_cells: dict[str, Board] = {}

    def build(cells: str) -> Board:
        # Different orders of moves lead to the same board, which is built once.
        child = by_cells.get(cells)
        if child is None:
            child = by_cells[cells] = Board(cells)
            if child.player is not None:
                mark = _MARKS[child.player]
                empty = [cell for cell in range(9) if cells[cell] == "."]
                children = {ACTIONS[cell]: build(cells[:cell] + mark + cells[cell + 1 :]) for cell in empty}
                child.connect(children, _SPELLINGS)
        return child

    build("." * 9)
    return by_cells


def board(cells: str) -> Board:
    """Return the shared board with these nine cells."""
    return boards()[cells]


class TicTacToe(TableGame):
    """Tic-Tac-Toe, returns 1 / 0 / -1.

    All 5,478 boards are in one table.

    Rules: two players mark the cells of a 3x3 board in turn, X first. Three marks of one player in a row, column or
    diagonal win. A full board without a line is a draw.

    Actions: `(row, column)`, 1-based, such as `(2, 2)`. The parentheses and the comma are optional.

    Observation: the board, one row per line (`.` empty, `X`, `O`), the player's own mark, and at the end the result.

    Returns: 1 for a win, 0 for a draw, -1 for a loss.

    Success: a win.

    Versions: v0.
    """

    spec = GameSpec(
        name="TicTacToe",
        rules=(
            "Tic-Tac-Toe on a 3x3 board. X moves first, then the players take turns. A move puts your mark on an empty "
            "cell. Whoever first has three marks in a row, column or diagonal wins; a full board without such a line "
            "is a draw. The board is shown row by row: '.' is an empty cell. A move is written (row, column), both "
            "from 1 to 3, counted from the top left; (2, 2) is the centre."
        ),
        perfect_information=True,
        # X needs at most five moves. An illegal action also uses a turn, so the limit is higher.
        max_turns=8,
        actions=ACTIONS,
        words=_words,
        lists_actions_in_paper=False,
        has_pictures=True,
    )

    def __init__(self) -> None:
        super().__init__(((1.0, board("." * 9)),))


SETTINGS = GameSettings(opponent="pool:tictactoe/balanced", length_penalty=2.0)

RECORD = GameRecord(
    name="TicTacToe",
    entry_point=f"{__name__}:TicTacToe",
    settings=SETTINGS,
    opponents={"tictactoe": "mage_envs.opponents.games.tictactoe"},
    presets={
        "tictactoe": (
            {"opponents": "pool:tictactoe/balanced", "max_completion_length": 3072, "beta": 0.1},
            {"max_turns": 8},
        )
    },
    small_models={
        "tictactoe": {
            "opponents": "pool:tictactoe/patterns",
            "imitate": ["policy:bayes:tictactoe/patterns,3,1"],
            "imitate_steps": 600,
            # No play beats the imitated one, so that reinforcement has nothing to add.
            "max_rollouts": 1,
            "learning_rate": 1e-5,
            "advantage": "exact",
            "statistics": "pooled",
        }
    },
    panels={
        "tictactoe-paper": {
            "opponents": "pool:tictactoe/balanced",
            "seats": (0, 1),
            "seed": 5,
            "about": "the paper's balanced opponents, weighted as trained",
        },
        "tictactoe-skewed": {
            "opponents": "pool:tictactoe/skewed",
            "seats": (0, 1),
            "seed": 50,
            "about": "the paper's skewed opponents, weighted as trained",
        },
        "tictactoe-paper-unseen": {
            "opponents": {"mcts:1000": 1.0},
            "seats": (0, 1),
            "seed": 6,
            "about": "a search ten times as deep, from both seats",
        },
        "tictactoe-heldout": {
            "opponents": {"minimax": 1.0, "mcts:10": 1.0},
            "seats": (0, 1),
            "seed": 52,
            "about": "two that no preset trains on",
        },
    },
)
