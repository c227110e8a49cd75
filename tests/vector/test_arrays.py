"""The parts that the batched environments are made of, each against the plain form of the same thing."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mage_envs.games.kuhn_poker import KuhnPoker
from mage_envs.games.sokoban import MOVES, Sokoban
from mage_envs.games.tictactoe import TicTacToe
from mage_envs.table_env import BLOCK
from mage_envs.vector.boards import DEAD, Boards
from mage_envs.vector.positions import OVER, UNKNOWN, Positions, UniformRows, cuts_of
from mage_envs.vector.text_vector import batch_infos
from opponents import OpponentPool
from tests.vector.compare import assert_same

VALUES = st.one_of(
    st.booleans(),
    st.integers(-5, 5),
    st.floats(-2, 2),
    st.text("ab", max_size=2),
    st.none(),
    st.just(("x", "y")),
    st.just(np.float32(0.5)),
)
NUMBERS = st.one_of(st.booleans(), st.integers(-5, 5), st.floats(-2, 2), st.none())


@given(
    st.lists(
        st.tuples(
            st.integers(0, 3),
            st.fixed_dictionaries(
                {},
                optional={
                    "a": NUMBERS,
                    "b": st.text("ab"),
                    "c": st.one_of(st.none(), st.just(("x", "y"))),
                    "metrics": st.fixed_dictionaries({}, optional={"d": st.floats(0, 1), "e": st.just(np.arange(3))}),
                    "final_obs": st.text("ab"),
                    "final_info": st.fixed_dictionaries({}, optional={"a": NUMBERS}),
                },
            ),
        )
    )
)
@settings(max_examples=200, deadline=None)
def test_infos_are_batched_as_gymnasium_does(told):
    """Types of first values, conversions of later ones, nesting, rows told twice."""
    plain = gym.vector.VectorEnv()
    plain.num_envs = 4
    expected: dict = {}
    error = None
    try:
        for row, info in told:
            expected = plain._add_info(expected, info, row)
    except (TypeError, ValueError) as raised:
        error = type(raised)
    if error is None:
        assert_same(batch_infos(4, told), expected)
    else:
        with pytest.raises(error):
            batch_infos(4, told)


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=9), st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_cuts_choose_as_the_pool_draws(weights, seed):
    """To the last bit: also at the cuts themselves and beside them."""
    pool = OpponentPool([(f"o{index}", weight) for index, weight in enumerate(weights)])

    def choose(draw):
        class Fixed:
            random = staticmethod(lambda: draw)

        return pool.entries.index(pool.draw(Fixed()))

    cuts = cuts_of(choose, len(weights))
    beside = [cut + step * 2.0**-53 for cut in cuts for step in (-1, 0, 1)]
    for draw in [*np.random.default_rng(seed).random(50), *(each for each in beside if 0 <= each < 1)]:
        assert np.searchsorted(cuts, draw, side="right") == choose(float(draw))


@pytest.mark.parametrize("game", [KuhnPoker(), TicTacToe()], ids=lambda game: game.name)
def test_positions_are_the_games(game):
    positions = Positions([node for _, node in game.roots()])
    assert len(positions.nodes) == {"KuhnPoker": 54, "TicTacToe": 5478}[game.name]
    for index, node in list(enumerate(positions.nodes))[:: 1 + len(positions.nodes) // 500]:
        assert positions.player[index] == (OVER if node.player is None else node.player)
        assert positions.legal[index] == node.legal
        for seat in (0, 1):
            assert positions.texts[2 * index + seat] == node.observations[seat]
            assert positions.returns[2 * index + seat] == node.returns[seat]
        for text, column in positions.columns.items():
            after = positions.after[index, column]
            assert (after == UNKNOWN) == (text not in node.accepted)
            if after != UNKNOWN:
                assert positions.nodes[after] is node.accepted[text][1]
        assert positions.after[index, positions.columns["no move"]] == UNKNOWN


def test_uniform_rows_draw_what_generators_draw():
    rows = UniformRows(3)
    for row in range(3):
        rows.seed(row, row + 10)
    expected = [gym.utils.seeding.np_random(row + 10)[0].random(3 * BLOCK) for row in range(3)]
    drawn: list[list[float]] = [[], [], []]
    rng = np.random.default_rng(0)
    while min(map(len, drawn)) < BLOCK + 3:
        chosen = np.flatnonzero(rng.random(3) < 0.6)
        for row, value in zip(chosen.tolist(), rows.draw(chosen).tolist()):
            drawn[row].append(value)
        drawn[1].append(rows.one(1))
    assert max(map(len, drawn)) > 2 * BLOCK
    for row in range(3):
        assert drawn[row] == expected[row][: len(drawn[row])].tolist()
    rows.seed(0, None)
    assert rows.one(0) == expected[0][len(drawn[0])]


@pytest.mark.parametrize("options", [{}, {"size": 8, "boxes": 3}, {"size": 11, "boxes": 1, "max_moves": 30}])
def test_boards_move_as_the_game_does(options):
    """Random walks: texts, boxes, distances and what is dead, beside the game's own."""
    count, rng = 6, np.random.default_rng(4)
    games, boards = [Sokoban(**options) for _ in range(count)], Boards(count)
    for row, game in enumerate(games):
        game.reset(rng)
        boards.load(row, game.room, game.observe(0))
    dead = 0
    for _ in range(60):
        going = [row for row, game in enumerate(games) if game.current_player() is not None and rng.random() < 0.9]
        moves = rng.integers(4, size=len(going))
        boards.move(np.array(going, dtype=np.intp), moves)
        for row, move in zip(going, moves.tolist()):
            games[row].apply(MOVES[move])
        distances = boards.distances(np.arange(count)).tolist()
        for row, (game, text) in enumerate(zip(games, boards.texts())):
            metrics = game.metrics()
            assert game.observe(0).split("\nThe level is solved")[0] == text
            assert boards.executed[row] == game.executed
            assert (boards.placed[row] == boards.boxes_in_all[row]) == (game.current_player() is None)
            assert distances[row] == metrics.get("distance_to_goal", DEAD)
            dead += distances[row] == DEAD
    assert dead
