"""A table game and its tabulated opponents as NumPy arrays: positions are integers, a move is an index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import cast

import numpy as np
from gymnasium.utils import seeding
from numpy.typing import NDArray

from mage_envs.core import StatePolicy
from mage_envs.games.table import TableNode
from mage_envs.table_env import BLOCK

OVER = -1
"""In `Positions.player`: nobody is to move."""
UNKNOWN = -1
"""An illegal move in `Positions.after`, a reply not yet asked for in `ReplyArrays`."""
_STEPS = 2**53
"""`Generator.random` draws multiples of 1 / _STEPS."""
_ABOVE_ALL_DRAWS = 2.0


class Columns(dict[str, int]):
    """Action text to its column in `Positions.after`; a text that no position accepts has the last column."""

    def __missing__(self, text: str) -> int:
        return self.illegal

    illegal = 0


class Positions:
    """All positions of a game. N positions, C columns of moves."""

    def __init__(self, roots: Sequence[TableNode]) -> None:
        self.nodes = list(roots)
        self.number = {node: index for index, node in enumerate(self.nodes)}
        """Position to its number; the roots come first."""
        for node in self.nodes:  # grows while it is walked
            for child in node.children.values():
                if child not in self.number:
                    self.number[child] = len(self.nodes)
                    self.nodes.append(child)
        self.player = np.array([OVER if node.player is None else node.player for node in self.nodes])
        """(N,) who is to move, or OVER."""
        self.texts = objects([text for node in self.nodes for text in node.observations])
        """(2 N,) observation of `player` at `2 * position + player`."""
        self.legal = objects([node.legal for node in self.nodes])
        self.returns = np.array([value for node in self.nodes for value in node.returns])
        """(2 N,) in the order of `texts`."""
        self.columns, self.after = self._moves()
        """`after`: (N, C + 1) the position after each move, UNKNOWN where it is illegal."""

    def _moves(self) -> tuple[Columns, NDArray[np.int32]]:
        spellings = sorted({text for node in self.nodes for text in node.accepted})
        after = np.full((len(self.nodes), len(spellings) + 1), UNKNOWN, dtype=np.int32)
        place = {text: column for column, text in enumerate(spellings)}
        for index, node in enumerate(self.nodes):
            for text, (_, child) in node.accepted.items():
                after[index, place[text]] = self.number[child]
        # Spellings of the same move share a column, so that the table stays in the cache.
        distinct, column_of = np.unique(after, axis=1, return_inverse=True)
        shared = column_of.ravel().tolist()
        columns = Columns(zip(spellings, shared))
        columns.illegal = shared[-1]
        return columns, np.ascontiguousarray(distinct)


@lru_cache(maxsize=8)
def positions_of(roots: tuple[TableNode, ...]) -> Positions:
    """The positions below these roots, shared by all who play them."""
    return Positions(roots)


class ReplyArrays:
    """Replies of tabulated opponents. Row `opponent * N + position`; asked of the policies when first needed."""

    def __init__(self, positions: Positions, policies: Sequence[StatePolicy]) -> None:
        self._positions = positions
        self._policies = policies
        self.draws = np.array([not policy.deterministic for policy in policies])
        """(opponents,) whether each takes a uniform draw per reply."""
        self.some_draw = bool(self.draws.any())
        rows, most = len(policies) * len(positions.nodes), max(len(node.children) for node in positions.nodes)
        self._after = np.full((rows, most), UNKNOWN, dtype=np.int32)
        self._cuts = np.full((rows, most - 1), _ABOVE_ALL_DRAWS)
        """Thresholds in rising order; the reply is the one after as many as the draw reaches."""

    def reply(
        self,
        opponents: NDArray[np.int64],
        positions: NDArray[np.int64],
        drawing: NDArray[np.bool_],
        draws: NDArray[np.float64] | None,
    ) -> NDArray[np.int32]:
        """The positions after one reply each; `draws` are those of the rows `drawing`, None where nobody draws."""
        keys = opponents * len(self._positions.nodes) + positions
        after = self._after[keys, 0]
        if after.min() == UNKNOWN:
            for key in np.unique(keys[after == UNKNOWN]).tolist():
                self._learn(key)
            after = self._after[keys, 0]
        if draws is not None:
            keys = keys[drawing]
            after[drawing] = self._after[keys, (draws[:, None] >= self._cuts[keys]).sum(axis=1)]
        return cast("NDArray[np.int32]", after)

    def _learn(self, key: int) -> None:
        opponent, position = divmod(key, len(self._positions.nodes))
        node = self._positions.nodes[position]
        policy = self._policies[opponent]
        cuts, last = policy.cuts(node.turn())
        if policy.deterministic:
            cuts = ()
        for place, (threshold, action) in enumerate(cuts):
            self._cuts[key, place] = threshold
            self._after[key, place] = self._positions.number[node.children[action]]
        self._after[key, len(cuts)] = self._positions.number[node.children[last]]


class UniformRows:
    """One stream of uniform draws per row, in blocks: the numbers that `TableEnv` draws from the same seeds."""

    def __init__(self, rows: int) -> None:
        self.generators: list[np.random.Generator | None] = [None] * rows
        self._values = np.empty((rows, BLOCK))
        self._used = np.full(rows, BLOCK)
        """Values of the row's block that were handed out."""

    def seed(self, row: int, seed: int | None) -> None:
        """Starts the row's stream again; with None only where it has none yet."""
        if seed is not None or self.generators[row] is None:
            self.generators[row] = seeding.np_random(seed)[0]
            self._used[row] = BLOCK

    def draw(self, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """One number for each of `rows`, which are distinct."""
        used = self._used[rows]
        spent = used == BLOCK
        if spent.any():
            for row in rows[spent].tolist():
                self._refill(row)
            used[spent] = 0
        self._used[rows] = used + 1
        return cast("NDArray[np.float64]", self._values[rows, used])

    def one(self, row: int) -> float:
        """The row's next number."""
        if self._used[row] == BLOCK:
            self._refill(row)
            self._used[row] = 0
        self._used[row] += 1
        return float(self._values[row, self._used[row] - 1])

    def _refill(self, row: int) -> None:
        generator = self.generators[row]
        assert generator is not None
        generator.random(out=self._values[row])


def cuts_of(choose: Callable[[float], int], count: int) -> NDArray[np.float64]:
    """(count - 1,) the least draws at which `choose` gives 1, 2, ... or more; it must not fall as the draw rises.

    `np.searchsorted(cuts, draw, side="right")` is then `choose(draw)`, to the last bit.
    """
    cuts = []
    for wanted in range(1, count):
        low, high = 0, _STEPS
        while low < high:
            middle = (low + high) // 2
            if choose(middle / _STEPS) >= wanted:
                high = middle
            else:
                low = middle + 1
        cuts.append(low / _STEPS)
    return np.array(cuts)


def objects(values: Sequence[object]) -> NDArray[np.object_]:
    """A one-dimensional array of objects, tuples and strings alike."""
    return np.fromiter(values, dtype=np.object_, count=len(values))
