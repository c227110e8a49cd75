"""Oracles for the rules of worded board games: the end of a hand in the text gives the returns of OpenSpiel."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import product

import pytest

from mage_envs.games.openspiel.openspiel_game import OpenSpiel
from tests.games.openspiel.random_hands import Hand, Returns, check_returns, compare_numbers, numbers, play, win_returns


def line(board: list[str], mark: str, length: int) -> bool:
    cells = {(r, c) for r, row in enumerate(board) for c, cell in enumerate(row) if cell == mark}
    return any(
        all((r + i * dr, c + i * dc) in cells for i in range(length))
        for r, c in cells
        for dr, dc in ((0, 1), (1, 0), (1, 1), (1, -1))
    )


def by_lines(marks: str, length: int, wins: bool = True) -> Callable[[Hand], Returns]:
    """Both lines, or none, are a draw; else the player with a line wins, or loses if `wins` is False."""

    def oracle(hand: Hand) -> Returns:
        board = [row for row in str(hand.state.position.state).splitlines() if set(row) <= {*marks, "."} and row]
        lines = [line(board, mark, length) for mark in marks]
        if lines[0] == lines[1]:
            return (0.0, 0.0)
        return win_returns(int(lines[1] == wins))

    return oracle


def pentago(hand: Hand) -> Returns:
    board = ["".join(re.findall(r"[O@.]", row)) for row in hand.views[0].splitlines()]
    lines = [line([row for row in board if len(row) == 6], mark, 5) for mark in "O@"]
    return (0.0, 0.0) if lines[0] == lines[1] else win_returns(int(lines[1]))


def reachable_stones(stones: set[tuple[int, int]], start: set[tuple[int, int]]) -> set[tuple[int, int]]:
    """The stones that chains join to `start`, by the neighbors that the rules name."""
    steps = ((0, 1), (0, -1), (1, 0), (-1, 0), (1, -1), (-1, 1))
    reached, stack = set(), list(stones & start)
    while stack:
        cell = stack.pop()
        if cell not in reached:
            reached.add(cell)
            stack += [near for step in steps if (near := (cell[0] + step[0], cell[1] + step[1])) in stones]
    return reached


def hexagons(hand: Hand) -> Returns:
    board = ["".join(row.split()) for row in str(hand.state.position.state).splitlines()]
    size = len(board)
    stones = {mark: {(r, c) for r in range(size) for c in range(size) if board[r][c] == mark} for mark in "xo"}
    if any(r == size - 1 for r, _ in reachable_stones(stones["x"], {(0, c) for c in range(size)})):
        return win_returns(0)
    assert any(c == size - 1 for _, c in reachable_stones(stones["o"], {(r, 0) for r in range(size)}))
    return win_returns(1)


def y(hand: Hand) -> Returns:
    size = 5
    rows = [re.findall(r"[O@.]", row)[:size] for row in hand.views[0].splitlines()[1 : size + 1]]
    for player, mark in enumerate("O@"):
        stones = {(r, c) for r, row in enumerate(rows) for c, cell in enumerate(row) if cell == mark}
        for cell in stones:
            chain = reachable_stones(stones, {cell})
            if {0} <= {r for r, _ in chain} and {0} <= {c for _, c in chain} and size - 1 in {r + c for r, c in chain}:
                return win_returns(player)
    raise AssertionError("no chain")


def last_mover_wins(hand: Hand) -> Returns:
    return win_returns(hand.moves[-1][0])


def last_mover_loses(hand: Hand) -> Returns:
    return win_returns(1 - hand.moves[-1][0])


def othello(hand: Hand) -> Returns:
    rows = [row.split()[1:-1] for row in hand.views[0].splitlines() if row[:1].isdigit()]
    discs = Counter(cell for row in rows for cell in row)
    return compare_numbers(discs["x"], discs["o"])


def boxes(margin: bool) -> Callable[[Hand], Returns]:
    def oracle(hand: Hand) -> Returns:
        counts = Counter(re.findall(r"[12]", hand.views[0].partition("You act")[0]))
        assert sum(counts.values()) == 4
        if margin:
            return (float(counts["1"] - counts["2"]), float(counts["2"] - counts["1"]))
        return compare_numbers(counts["1"], counts["2"])

    return oracle


def mancala(hand: Hand) -> Returns:
    upper, stores, lower = (numbers(row.replace("-", " ")) for row in hand.views[0].splitlines()[:3])
    assert sum(upper) == 0 or sum(lower) == 0
    assert sum(upper + stores + lower) == 48
    return compare_numbers(sum(lower) + stores[1], sum(upper) + stores[0])


def oware(hand: Hand) -> Returns:
    second_points, first_points = (int(digits) for digits in re.findall(r"player = (\d+)", hand.views[0]))
    assert first_points + second_points == 48 or max(first_points, second_points) > 24
    return compare_numbers(first_points, second_points)


def pig(hand: Hand) -> Returns:
    scores = numbers(hand.views[0].partition(", Turn")[0])
    assert max(scores) >= 20 > min(scores)
    return compare_numbers(*scores)


def einstein(hand: Hand) -> Returns:
    cells = [row.strip("|").split("||") for row in hand.views[0].splitlines()[:5]]
    pieces_left = Counter(cell[0] for row in cells for cell in row)
    if cells[4][4][0] == "b" or not pieces_left["w"]:
        return win_returns(0)
    assert cells[0][0][0] == "w" or not pieces_left["b"]
    return win_returns(1)


def lines_of_action(hand: Hand) -> Returns:
    board = [row[1:] for row in hand.views[0].splitlines()[:8]]
    steps = [step for step in product((-1, 0, 1), repeat=2) if step != (0, 0)]
    all_connected = []
    for mark in "xo":
        cells = {(r, c) for r in range(8) for c in range(8) if board[r][c] == mark}
        reached, stack = set(), [min(cells)]
        while stack:
            cell = stack.pop()
            if cell not in reached:
                reached.add(cell)
                stack += [near for dr, dc in steps if (near := (cell[0] + dr, cell[1] + dc)) in cells]
        all_connected.append(reached == cells)
    mover = hand.moves[-1][0]
    if all_connected[mover]:
        return win_returns(mover)
    return win_returns(1 - mover) if all_connected[1 - mover] else (0.0, 0.0)


def nine_mens_morris(hand: Hand) -> Returns:
    view = hand.views[0]
    men = numbers(view.partition("Num men:")[2].splitlines()[0])
    if min(men) <= 2:
        return win_returns(int(men[0] <= 2))
    if "Turn number: 200" in view:
        return (0.0, 0.0)
    return last_mover_wins(hand)


def checkers(hand: Hand) -> Returns:
    pieces = Counter("".join(row[1:] for row in hand.views[0].splitlines()[:8]))
    # A player without a piece has no move. Other ends, such as the draw after 40 moves, are not checked here.
    if not pieces["o"] + pieces["8"]:
        return win_returns(1)
    return win_returns(0) if not pieces["+"] + pieces["*"] else hand.state.returns


ORACLES: Mapping[str, Callable[[Hand], Returns]] = {
    "tic_tac_toe": by_lines("xo", 3),
    "latent_ttt": by_lines("xo", 3),
    "phantom_ttt": by_lines("xo", 3),
    "phantom_ttt(gameversion=abrupt)": by_lines("xo", 3),
    "mnk(m=5,n=4,k=3)": by_lines("xo", 3),
    "gomoku(size=6,connect=4)": by_lines("bw", 4),
    "gomoku(size=6,connect=4,anti=True)": by_lines("bw", 4, wins=False),
    "misere(game=tic_tac_toe())": by_lines("xo", 3, wins=False),
    "pentago": pentago,
    "hex(board_size=4)": hexagons,
    "dark_hex": hexagons,
    "y(board_size=5)": y,
    "clobber": last_mover_wins,
    "amazons(board_size=6)": last_mover_wins,
    "nim": last_mover_loses,
    "nim(pile_sizes=2;3;4,is_misere=False)": last_mover_wins,
    "checkers": checkers,
    "othello": othello,
    "dots_and_boxes": boxes(margin=False),
    "dots_and_boxes(utility_margin=True)": boxes(margin=True),
    "mancala": mancala,
    "oware": oware,
    "pig(winscore=20)": pig,
    "einstein_wurfelt_nicht": einstein,
    "lines_of_action": lines_of_action,
    "nine_mens_morris": nine_mens_morris,
}
"""Game string to the function that computes the returns by the rules of the text."""


@pytest.mark.parametrize("game", ORACLES)
def test_the_rules_pay_what_openspiel_pays(game: str) -> None:
    check_returns(game, ORACLES[game])


@pytest.mark.parametrize("game", ["tic_tac_toe", "hex(board_size=4)", "nim", "go(board_size=5)", "twixt(board_size=6)"])
def test_a_text_without_draws_is_right(game: str) -> None:
    ends = {play(game, seed).state.returns for seed in range(30)}
    rules = OpenSpiel(game).spec.rules
    assert ends <= {win_returns(0), win_returns(1), (0.0, 0.0)}
    if "no draw" in rules:
        assert (0.0, 0.0) not in ends
