"""Tic-Tac-Toe.

Rules: two players mark the cells of a 3x3 board in turn, X first; three of one's marks in a row, column or
diagonal win; a full board without a line is a draw.
Actions: `(row, column)`, 1-based, e.g. `(2, 2)`; the parentheses and the comma may be left out.
Observation: the board, one row a line (`.` empty, `X`, `O`), one's mark, and at the end the result.
Returns: 1 win, 0 draw, -1 loss.
Versions: v0.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from mage_envs.drawing import Picture
from mage_envs.drawing import tictactoe as drawing
from mage_envs.games.table import TableGame, TableNode

LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))
ACTIONS = tuple(f"({row}, {column})" for row in (1, 2, 3) for column in (1, 2, 3))
_SPELLINGS = {
    action: tuple(form.format(action[1], action[4]) for form in ("({},{})", "{},{}", "{}, {}", "{} {}"))
    for action in ACTIONS
}
_MARKS = "XO"


def winning_line(board: str) -> tuple[int, int, int] | None:
    """The cells of a line of equal marks on a board of nine characters, None without one."""
    for line in LINES:
        a, b, c = line
        if board[a] != "." and board[a] == board[b] == board[c]:
            return line
    return None


def winner(board: str) -> int | None:
    """The player (0 for X, 1 for O) with a line on a board of nine characters, None without one."""
    line = winning_line(board)
    return None if line is None else _MARKS.index(board[line[0]])


def _node(board: str) -> TableNode:
    won = winner(board)
    over = won is not None or "." not in board
    mover = board.count("X") - board.count("O")
    grid = f"{board[:3]}\n{board[3:6]}\n{board[6:]}"
    returns = (0.0, 0.0) if won is None else (1.0, -1.0) if won == 0 else (-1.0, 1.0)
    observations = []
    for player in (0, 1):
        if not over:
            last = "Your move." if mover == player else "The opponent is to move."
        else:
            last = "The game is over: " + ("a draw." if won is None else "you won." if won == player else "you lost.")
        observations.append(f"{grid}\nYou are {_MARKS[player]}. {last}")
    return TableNode(None if over else mover, (observations[0], observations[1]), (board, board), returns)


@cache
def root() -> TableNode:
    """The empty board; the 5,478 positions below it are built once (about 0.1 s) and shared by all games."""
    nodes: dict[str, TableNode] = {}

    def build(board: str) -> TableNode:
        node = nodes.get(board)
        if node is None:
            node = nodes[board] = _node(board)
            if node.player is not None:
                mark = _MARKS[node.player]
                empty = [cell for cell in range(9) if board[cell] == "."]
                node.connect(
                    {ACTIONS[cell]: build(board[:cell] + mark + board[cell + 1 :]) for cell in empty}, _SPELLINGS
                )
        return node

    return build("." * 9)


class TicTacToe(TableGame):
    """Tic-Tac-Toe; see the module's text for rules, actions, observation and returns."""

    name = "TicTacToe"
    rules = (
        "Tic-Tac-Toe on a 3x3 board. X moves first, then the players take turns. A move puts your mark on an empty "
        "cell. Whoever first has three marks in a row, column or diagonal wins; a full board without such a line is "
        "a draw. The board is shown row by row: '.' is an empty cell. A move is written (row, column), both from 1 "
        "to 3, counted from the top left; (2, 2) is the centre."
    )
    perfect_information = True
    max_turns = 8
    length_penalty = 2.0
    default_opponent = "pool:tictactoe/balanced"

    def roots(self) -> Sequence[tuple[float, TableNode]]:
        return ((1.0, root()),)

    def actions(self) -> tuple[str, ...]:
        return ACTIONS

    def picture(self, player: int) -> Picture:
        node, board = self.node, self.node.keys[player]
        if node.player is None:
            verdict = {1.0: "You won", 0.0: "A draw", -1.0: "You lost"}[node.returns[player]]
        else:
            verdict = "Your move" if node.player == player else "Opponent's move"
        return drawing.board(board, winning_line(board) or (), f"You are {_MARKS[player]}. {verdict}")
