"""The optimal learner of SokobanControls over several rooms, by dynamic programming on the rooms of `wirings`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial

from mage_envs.games.sokoban.controls import SokobanControls
from mage_envs.games.sokoban.level import Level
from mage_envs.games.sokoban.rooms import Room
from mage_envs.games.sokoban.search import Retrograde
from mage_envs.opponents.exact.bayes import credit_weights
from mage_envs.opponents.exact.learner_hands import Floats
from mage_envs.opponents.solo.wirings import SAME, RoomPositions, canonical, choices
from mage_envs.random.streams import Streams

ROOMS = 48
"""Number of rooms over which the values of a game are means."""
MAX_OTHER_ROOMS = 256
"""Maximum number of further rooms whose values a learner keeps."""
Payoffs = tuple[float, ...]
"""Expected successes in each episode from the present one on."""


class RoomPayoffs:
    """The payoffs from all positions of a room in one episode, if the optimal learner plays on."""

    def __init__(self, learner: KeyLearner, board: RoomPositions, episode: int) -> None:
        """Prepare the payoffs.

        Args:
            learner: KeyLearner that plays the room and all later ones.
            episode: Index of the room's episode.
        """
        self.board = board
        self._later_payoffs = partial(learner.start_payoffs, episode + 1)
        tiers: list[list[float]] = [tier[episode, episode:].tolist() for tier in learner.weights]
        # A learner that does not explore compares the first tier alone, and its first best choice has fewest effects.
        self._tiers = tiers if learner.explores else tiers[:1]
        self._known: dict[tuple[int, int, int, int], Payoffs] = {}

    def of(self, boxes: int, at: int, keys_left: int, wirings: int) -> Payoffs:
        """Return the payoffs from a position. `wirings` must be canonical."""
        board = self.board
        solved = boxes == board.room.level.targets
        if solved or not keys_left or wirings.bit_count() == 1:
            return float(solved or board.solvable(boxes, at, keys_left)), *self._later_payoffs(wirings)
        key = boxes, at, keys_left, wirings
        cached_payoffs = self._known.get(key)
        if cached_payoffs is not None:
            return cached_payoffs
        next_positions, blocked = board.after(boxes, at)
        best: tuple[float, ...] = ()
        for effects in choices(wirings, blocked):
            parts = [
                (chance, self.of(*next_positions[move], keys_left - 1, next_wirings))
                for move, next_wirings, chance in effects
            ]
            payoffs = _mean(parts)
            score = self._score(payoffs)
            if score > best:
                best, self._known[key] = score, payoffs
        return self._known[key]

    def of_keys(self, position: tuple[int, int, int], wirings: int, keys: Sequence[int]) -> Payoffs:
        """Return the payoffs of pressing keys of which only the last board is shown. Arguments as in `outcomes`."""
        size = wirings.bit_count()
        parts = self.board.outcomes(position, wirings, keys)
        return _mean(
            [
                (part.bit_count() / size, self.of(*final_position, canonical(part)))
                for final_position, part in parts.items()
            ]
        )

    def of_key(self, position: tuple[int, int, int], wirings: int, key: int) -> tuple[float, ...]:
        """Return the payoff of pressing a key by the learner's objective, and by its tie-breakers."""
        return self._score(self.of_keys(position, wirings, (key,)))

    def _score(self, payoffs: Payoffs) -> tuple[float, ...]:
        return tuple([round(sum(map(float.__mul__, tier, payoffs)), SAME) for tier in self._tiers])


def _mean(parts: Sequence[tuple[float, Payoffs]]) -> Payoffs:
    """Return the mean of payoffs, weighted by their probabilities."""
    return tuple([sum([chance * part[index] for chance, part in parts]) for index in range(len(parts[0][1]))])


class KeyLearner:
    """The optimal learner for one credit over several rooms."""

    def __init__(self, boards: Sequence[tuple[RoomPositions, int]], weights: Floats, explores: bool = True) -> None:
        """Prepare the values.

        Args:
            boards: Rooms with their numbers of keys; each episode draws one of them.
            weights: Weights of the objective and its tie-breakers, (3, K, K), as in `credit_weights`.
            explores: False if a key whose effect is known is preferred among equally good ones.
        """
        self._boards, self.weights, self.explores = boards, weights, explores
        self._starts: list[dict[int, Payoffs]] = [{} for _ in range(weights.shape[1])]
        self._rooms: dict[int, list[RoomPayoffs]] = {}
        """By episode: payoffs in each of the rooms."""
        self._others: dict[tuple[Level, int], RoomPayoffs] = {}

    def start_payoffs(self, episode: int, wirings: int) -> Payoffs:
        """Return the payoffs from the start of an episode, as means over its rooms. `wirings` must be canonical."""
        if episode == len(self._starts):
            return ()
        mean_payoffs = self._starts[episode].get(wirings)
        if mean_payoffs is None:
            if episode not in self._rooms:
                self._rooms[episode] = [RoomPayoffs(self, board, episode) for board, _ in self._boards]
            rooms = []
            for payoffs, (board, keys) in zip(self._rooms[episode], self._boards, strict=True):
                level = board.room.level
                rooms.append(payoffs.of(level.boxes, level.player, keys, wirings))
            mean_payoffs = self._starts[episode][wirings] = tuple(
                sum(column) / len(rooms) for column in zip(*rooms, strict=True)
            )
        return mean_payoffs

    def in_room(self, level: Level, episode: int) -> RoomPayoffs:
        """Return the payoffs in any room in an episode, with the learner's own rooms later."""
        key = level, episode
        if key not in self._others:
            # The tables of a room are large, and few rooms are played at a time.
            if len(self._others) >= MAX_OTHER_ROOMS:
                self._others.clear()
            room = Room(level, Retrograde(level.floor, level.targets, level.width))
            self._others[key] = RoomPayoffs(self, RoomPositions(room), episode)
        return self._others[key]

    @property
    def episodes(self) -> int:
        """Number of episodes."""
        return len(self._starts)

    @property
    def states(self) -> int:
        """Number of sets of wirings before all episodes."""
        return sum(map(len, self._starts))


def boards_of(game: SokobanControls) -> list[tuple[RoomPositions, int]]:
    """Return the rooms over which the values of a game are means, with their numbers of keys."""
    return [(RoomPositions(room), game.keys(room)) for room in game.rooms(Streams(0).at(0).generator(), ROOMS)]


def best_learner(game: SokobanControls, episodes: int) -> KeyLearner:
    """Return the optimal learner for the sum of the episodes. All callers of a process share it."""
    return _best_learner(game.options, episodes, ROOMS)


@lru_cache(maxsize=8)
def _best_learner(options: tuple[int, str, int, int], episodes: int, rooms: int) -> KeyLearner:
    # `rooms` is a part of the key only.
    return KeyLearner(boards_of(SokobanControls(*options)), credit_weights("sum", episodes))
