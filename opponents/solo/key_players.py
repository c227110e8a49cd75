"""Players of SokobanControls in the learner's seat. They press one key per answer and differ in what they expect."""

from __future__ import annotations

import numpy as np

from mage_envs.core import Policy, Turn
from mage_envs.games.sokoban.controls import KEYS, WIRINGS, SokobanControls
from mage_envs.games.sokoban.level import Level, parse_board
from mage_envs.games.sokoban.rooms import Room
from mage_envs.games.sokoban.search import Retrograde
from mage_envs.opponents.exact.bayes import check_lengths
from mage_envs.opponents.solo.key_learner import RoomPayoffs, best_learner
from mage_envs.opponents.solo.wirings import ALL, NOTHING, RoomValues, partition_wirings

Values = RoomValues | RoomPayoffs
"""Values of the keys in a room."""


class MemoryPlayer(Policy):
    """The best player of each room by itself, given all that every earlier room has shown.

    Among equally good keys it presses one whose effect it knows, so it does not explore once a room is lost.
    """

    def __init__(self) -> None:
        self._values: Values | None = None
        """Values of the current room."""
        self._pressed: tuple[tuple[int, int], int] | None = None
        """Position and index of the last key, if its effect is not known yet."""
        self.on_meta_episode_start()

    def on_meta_episode_start(self) -> None:
        """Forget all effects of keys."""
        self._memory = self._shown = ALL

    def reset(self, rng: np.random.Generator) -> None:
        """Start a hand. `_shown` is the set of the wirings that agree with the effects in this hand alone."""
        self._values = self._pressed = None
        self._shown = ALL

    def act(self, turn: Turn) -> str:
        if turn.player == 1:
            return turn.legal_actions[0]
        level = parse_board(turn.observation)
        if self._values is None:
            self._values = self._solve(level, turn.episode)
        values = self._values
        self._observe(values, level)
        keys_left = int(turn.observation.rpartition("Keys left: ")[2])
        # A wrong expectation is dropped as soon as this room contradicts it.
        possible = self._candidate_wirings(turn) & self._shown or self._shown
        key = self._choose(turn, values, (level.boxes, level.player, keys_left), possible)
        self._pressed = (level.boxes, level.player), key
        return KEYS[key]

    def on_hand_end(self, turn: Turn) -> None:
        """Observe the effect of the last key."""
        if self._values is not None:
            self._observe(self._values, parse_board(turn.observation))

    def _solve(self, level: Level, episode: int) -> Values:
        """Return the values of a room by which the player chooses its keys."""
        return RoomValues(Room(level, Retrograde(level.floor, level.targets, level.width)))

    def _candidate_wirings(self, turn: Turn) -> int:
        """Return the set of the wirings that the player expects in this hand."""
        return self._memory

    def _choose(self, turn: Turn, values: Values, position: tuple[int, int, int], possible: int) -> int:
        """Return the index of the key to press.

        Args:
            position: Boxes, player's cell and keys left.
            possible: Set of the possible wirings.
        """
        return max(range(len(KEYS)), key=lambda key: values.of_key(position, possible, key))

    def _observe(self, values: Values, level: Level) -> None:
        """Update both sets by the effect of the last key."""
        if self._pressed is not None:
            last_position, key = self._pressed
            next_positions, blocked = values.board.after(*last_position)
            position = level.boxes, level.player
            effect = NOTHING if position == last_position else next_positions.index(position)
            self._shown = partition_wirings(self._shown, key, blocked).get(effect, 0)
            # A second player that changes its fact contradicts the memory.
            self._memory = self._memory & self._shown or self._shown
            self._pressed = None


class Bayes(MemoryPlayer):
    """The optimal player for the sum of the episodes, for all that every room so far has shown.

    It values the later rooms as `mage headroom` does: as means over the same rooms, drawn independently.
    """

    def __init__(self, game: SokobanControls, episodes: int = 3) -> None:
        """Initialize the player; the values are computed at the first turn.

        Args:
            episodes: Episodes of the meta-episode. The player counts every later one as the last.
        """
        check_lengths(episodes, 1)
        super().__init__()
        self._game, self._episodes = game, episodes

    def _solve(self, level: Level, episode: int) -> Values:
        return best_learner(self._game, self._episodes).in_room(level, min(episode, self._episodes - 1))


class Blind(MemoryPlayer):
    """The best player that remembers nothing of earlier rooms."""

    def _candidate_wirings(self, turn: Turn) -> int:
        return ALL


class Explorer(MemoryPlayer):
    """A player that spends the first room on finding the wiring, and then plays like `MemoryPlayer`."""

    def _choose(self, turn: Turn, values: Values, position: tuple[int, int, int], possible: int) -> int:
        if turn.episode or possible.bit_count() == 1:
            return super()._choose(turn, values, position, possible)
        _, blocked = values.board.after(*position[:2])
        # The sum of squares is the expected number of wirings that stay possible, times their number now.
        sizes = [
            sum(part.bit_count() ** 2 for part in partition_wirings(possible, key, blocked).values())
            for key in range(len(KEYS))
        ]
        return sizes.index(min(sizes))


class Known(MemoryPlayer):
    """A player that knows the wiring. It needs `reveal_opponent=True`."""

    def _candidate_wirings(self, turn: Turn) -> int:
        return 1 << self._wiring(turn)

    def _wiring(self, turn: Turn) -> int:
        """Return the index of the wiring that the environment reveals."""
        wiring = (turn.opponent or "").partition(":")[2]
        if wiring not in WIRINGS:
            raise ValueError(
                f"This player reads the wiring from Turn.opponent, got {turn.opponent!r}. Use reveal_opponent=True and "
                "opponents such as controls:udlr."
            )
        return WIRINGS.index(wiring)


class Wrong(Known):
    """A player with the memory of another meta-episode: it expects one other wiring until a room contradicts it."""

    def on_meta_episode_start(self) -> None:
        super().on_meta_episode_start()
        self._other: int | None = None

    def reset(self, rng: np.random.Generator) -> None:
        super().reset(rng)
        self._drawn = int(rng.integers(1, len(WIRINGS)))

    def _candidate_wirings(self, turn: Turn) -> int:
        # The first hand draws the other wiring, which stays the same.
        if self._other is None:
            self._other = (self._wiring(turn) + self._drawn) % len(WIRINGS)
        return 1 << self._other
