"""Generated rooms, and the search behind them, against an independent forward search."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from mage_envs.games.sokoban.game import Sokoban
from mage_envs.games.sokoban.level import MOVES, offsets, parse_board, step
from mage_envs.games.sokoban.rooms import RetrogradeRooms
from tests.games.sokoban.forward import as_mask, board_text, distances, shortest

GOLDEN = Path(__file__).parent / "golden"


def draw(seed, boxes=2, size=6, lengths=(5, 21)):
    return RetrogradeRooms(size, boxes, lengths).draw(np.random.default_rng(seed))


@pytest.mark.parametrize(("boxes", "size", "rooms"), [(1, 6, 30), (2, 6, 40), (3, 6, 6), (2, 7, 5)])
def test_distances_equal_those_of_a_forward_search(boxes, size, rooms):
    dead = 0
    for seed in range(rooms):
        level, search = draw(seed, boxes, size)
        for (player, placed), expected in distances(level).items():
            state = as_mask(placed, size), as_mask(frozenset({player}), size)
            assert search.distance(*state) == expected, board_text(level)
            dead += expected is None
        assert search.complete
    assert dead > 0


@pytest.mark.parametrize(("boxes", "size", "rooms"), [(1, 6, 60), (2, 6, 100), (3, 6, 25), (2, 8, 6)])
def test_rooms_have_exactly_the_wanted_shortest_solution(boxes, size, rooms):
    for seed in range(rooms):
        level, search = draw(seed, boxes, size)
        needed = shortest(level, 21)
        assert needed is not None
        assert 5 <= needed == search.distance(level.boxes, level.player) <= 21
        assert (level.boxes.bit_count(), level.targets.bit_count()) == (boxes, boxes)
        assert not level.boxes & level.targets


def test_lengths_are_drawn_uniformly_and_bounds_are_exact():
    lengths = Counter()
    for seed in range(400):
        level, search = draw(seed, lengths=(5, 12))
        lengths[search.distance(level.boxes, level.player)] += 1
    assert set(lengths) == set(range(5, 13))
    assert min(lengths.values()) > 25
    level, search = draw(0, lengths=(17, 17))
    assert search.distance(level.boxes, level.player) == 17


@pytest.mark.parametrize(("boxes", "size"), [(1, 6), (2, 6), (3, 6), (4, 6), (2, 8), (4, 10)])
def test_paths_are_shortest_solutions(boxes, size):
    for seed in range(8):
        level, search = draw(seed, boxes, size)
        path = search.path(level.boxes, level.player)
        assert path is not None
        assert len(path) == search.distance(level.boxes, level.player)
        boxes_now, player = level.boxes, level.player
        for move in path:
            boxes_now, player = step(level.floor, boxes_now, player, offsets(size)[move])
        assert boxes_now == level.targets


def test_an_unfinished_search_says_so():
    level, search = draw(1, 4, 10)
    corner = level.floor & -level.floor
    stuck = level.boxes & (level.boxes - 1) | corner
    player = (level.floor & ~stuck) & -(level.floor & ~stuck)
    assert search.distance(stuck, player, limit=10) is None
    assert not search.complete


def golden_levels() -> str:
    """The rooms of seeds 0 to 4 of each variant, with the moves they need."""
    parts = []
    for options in ({}, {"boxes": 1}, {"boxes": 3}, {"size": 8}, {"size": 10, "boxes": 4}):
        for seed in range(5):
            state = Sokoban(**options).initial_state(np.random.default_rng(seed))
            moves = state.metrics()["distance_to_goal"]
            parts.append(f"{options} seed={seed}: {moves:g} moves\n{state.observation(0)}\n")
    return "\n".join(parts)


def test_levels_by_seed_are_as_recorded():
    path = GOLDEN / "levels.txt"
    assert golden_levels().encode() == path.read_bytes(), (
        "If it is meant: python -m tests.games.sokoban.test_golden --write"
    )


def test_rooms_are_the_same_in_every_process():
    script = "from tests.games.sokoban.test_rooms import golden_levels; import sys; sys.stdout.write(golden_levels())"
    for seed in ("0", "12345"):
        output = subprocess.run(
            [sys.executable, "-c", script],
            capture_output=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ".", "PATH": "", "PYTHONIOENCODING": "utf-8"},
        ).stdout
        assert output == (GOLDEN / "levels.txt").read_bytes()


def test_boards_read_back():
    for seed in range(20):
        level, search = draw(seed, 2, 6 if seed % 2 else 10)
        boxes, player = level.boxes, level.player
        for move in search.path(boxes, player) or ():
            boxes, player = step(level.floor, boxes, player, offsets(level.width)[move])
            moved_level = level._replace(boxes=boxes, player=player)
            assert parse_board(board_text(moved_level)) == moved_level
    with pytest.raises(ValueError, match="The text has no board"):
        parse_board("up, down")


def test_impossible_bounds_are_an_error():
    with pytest.raises(ValueError, match="No room of size 5 with 1 boxes and a shortest solution of 90 moves"):
        draw(0, 1, 5, (90, 90))


def test_moves_are_in_the_order_of_their_offsets():
    assert dict(zip(MOVES, offsets(7))) == {"up": -7, "down": 7, "left": -1, "right": 1}
