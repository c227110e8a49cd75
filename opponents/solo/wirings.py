"""Exact values of SokobanControls: dynamic programming over position, keys left, and the wirings that are possible.

A set of wirings is a number of 24 bits. The effect of a key splits the set: a move shows the key's direction, and if
nothing happens, the direction is one of those that are blocked. Wirings are equally likely, so a share of the set is a
probability. Sets that differ by an exchange of keys have the same value, and only one of them is solved.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache, partial
from itertools import permutations
from typing import NamedTuple

from mage_envs.games.sokoban.controls import KEYS, WIRINGS, SokobanControls, directions_of
from mage_envs.games.sokoban.level import Level, offsets, step
from mage_envs.games.sokoban.rooms import Room
from mage_envs.games.sokoban.search import Retrograde
from mage_envs.random.streams import Streams
from opponents.exact.bayes import credit_weights
from opponents.exact.learner_hands import Floats

ROOMS = 48
"""Number of rooms over which the values of a game are means."""
MAX_OTHER_ROOMS = 256
"""Maximum number of further rooms whose values a learner keeps."""
ALL = (1 << len(WIRINGS)) - 1
"""Set of all wirings."""
NOTHING = -1
"""KeyEffect of a key that changed nothing, instead of the index of a direction."""
_DIRECTIONS = [directions_of(wiring) for wiring in WIRINGS]
AGREE = [
    [sum(1 << number for number, wiring in enumerate(_DIRECTIONS) if wiring[key] == move) for move in range(4)]
    for key in range(len(KEYS))
]
"""Set of the wirings in which a key (first index) moves in a direction (second index)."""
_EXCHANGES = [
    [_DIRECTIONS.index(tuple(wiring[key] for key in keys)) for wiring in _DIRECTIONS]
    for keys in permutations(range(len(KEYS)))
]
"""For each exchange of keys: the wiring that each wiring becomes."""
_SAME = 9
"""Decimals to which two values are compared."""


def split(wirings: int, key: int, blocked: int) -> dict[int, int]:
    """Return the possible effects of a key, a direction or `NOTHING`, with the wirings that agree.

    Args:
        wirings: Set of the possible wirings.
        key: Index of the key.
        blocked: Bits of the directions in which nothing would move.
    """
    parts: dict[int, int] = {}
    for move, agree in enumerate(AGREE[key]):
        if part := wirings & agree:
            effect = NOTHING if blocked >> move & 1 else move
            parts[effect] = parts.get(effect, 0) | part
    return parts


@cache
def canonical(wirings: int) -> int:
    """Return the one of the sets that differ by an exchange of keys which stands for all of them."""
    members = [number for number in range(len(WIRINGS)) if wirings >> number & 1]
    return min(sum(1 << exchange[number] for number in members) for exchange in _EXCHANGES)


class KeyEffect(NamedTuple):
    """One possible effect of a key."""

    move: int
    """Index of a direction, or `NOTHING`."""
    wirings: int
    """Canonical set of the wirings after it."""
    chance: float


@cache
def choices(wirings: int, blocked: int) -> tuple[tuple[KeyEffect, ...], ...]:
    """Return the different choices of a key, each as its possible effects. Fewer effects come first."""
    size = wirings.bit_count()
    found = {
        tuple(
            KeyEffect(move, canonical(part), part.bit_count() / size)
            for move, part in sorted(split(wirings, key, blocked).items())
        )
        for key in range(len(KEYS))
    }
    return tuple(sorted(found, key=lambda effects: (len(effects), effects)))


class RoomPositions:
    """The positions of a room."""

    def __init__(self, room: Room) -> None:
        self.room = room
        self._offsets = offsets(room.level.width)
        self._after: dict[tuple[int, int], tuple[list[tuple[int, int]], int]] = {}

    def after(self, boxes: int, at: int) -> tuple[list[tuple[int, int]], int]:
        """Return the position after each move, and the bits of the moves that change nothing."""
        key = boxes, at
        found = self._after.get(key)
        if found is None:
            moved = [step(self.room.level.floor, boxes, at, offset) for offset in self._offsets]
            # The last entry is the position itself, at the index `NOTHING`.
            found = [*moved, key], sum(1 << move for move, position in enumerate(moved) if position == key)
            self._after[key] = found
        return found

    def solvable(self, boxes: int, at: int, left: int) -> bool:
        """Return True if the position can be solved with that many moves."""
        distance = self.room.search.distance(boxes, at)
        return distance is not None and distance <= left

    def outcomes(
        self, position: tuple[int, int, int], wirings: int, keys: Sequence[int]
    ) -> dict[tuple[int, int, int], int]:
        """Return the possible positions after some keys, with the wirings that agree.

        Args:
            position: Boxes, player's cell and keys left.
            wirings: Set of the possible wirings.
            keys: Indices of the keys. Those after the end of the hand are not pressed.
        """
        parts: dict[tuple[int, int, int], int] = {}
        for number, directions in enumerate(_DIRECTIONS):
            if wirings >> number & 1:
                boxes, at, left = position
                for key in keys:
                    if left and boxes != self.room.level.targets:
                        (boxes, at), left = self.after(boxes, at)[0][directions[key]], left - 1
                parts[boxes, at, left] = parts.get((boxes, at, left), 0) | 1 << number
        return parts


class RoomValues:
    """The probability of success in one room, by position, keys left and possible wirings."""

    def __init__(self, room: Room) -> None:
        self.board = RoomPositions(room)
        self._known: dict[tuple[int, int, int, int], float] = {}

    def value(self, boxes: int, at: int, left: int, wirings: int) -> float:
        """Return the greatest probability of success. `wirings` must be canonical."""
        if not self.board.solvable(boxes, at, left):
            return 0.0
        # A learner that knows the wiring plays a shortest solution.
        if wirings.bit_count() == 1 or boxes == self.board.room.level.targets:
            return 1.0
        key = boxes, at, left, wirings
        found = self._known.get(key)
        if found is None:
            after, blocked = self.board.after(boxes, at)
            found = self._known[key] = max(
                sum(chance * self.value(*after[move], left - 1, rest) for move, rest, chance in effects)
                for effects in choices(wirings, blocked)
            )
        return found

    def of_key(self, position: tuple[int, int, int], wirings: int, key: int) -> tuple[float, int]:
        """Return the value of pressing a key, and minus its number of possible effects.

        Args:
            position: Boxes, player's cell and keys left.
            wirings: Set of the possible wirings, which need not be canonical.
            key: Index of the key.
        """
        boxes, at, left = position
        after, blocked = self.board.after(boxes, at)
        parts = split(wirings, key, blocked)
        total = sum(
            part.bit_count() * self.value(*after[move], left - 1, canonical(part)) for move, part in parts.items()
        )
        return round(total / wirings.bit_count(), _SAME), -len(parts)


Payoffs = tuple[float, ...]
"""Expected successes in each episode from the present one on."""


class RoomPayoffs:
    """The payoffs from all positions of a room in one episode, if the optimal learner plays on."""

    def __init__(self, learner: KeyLearner, board: RoomPositions, episode: int) -> None:
        """Prepare the payoffs.

        Args:
            learner: KeyLearner that plays the room and all later ones.
            board: Positions of the room.
            episode: Index of the room's episode.
        """
        self.board = board
        self._after = partial(learner.before, episode + 1)
        tiers: list[list[float]] = [tier[episode, episode:].tolist() for tier in learner.weights]
        # A learner that does not explore compares the first tier alone, and its first best choice has fewest effects.
        self._tiers = tiers if learner.explores else tiers[:1]
        self._known: dict[tuple[int, int, int, int], Payoffs] = {}

    def of(self, boxes: int, at: int, left: int, wirings: int) -> Payoffs:
        """Return the payoffs from a position. `wirings` must be canonical."""
        board = self.board
        solved = boxes == board.room.level.targets
        if solved or not left or wirings.bit_count() == 1:
            return float(solved or board.solvable(boxes, at, left)), *self._after(wirings)
        key = boxes, at, left, wirings
        found = self._known.get(key)
        if found is not None:
            return found
        after, blocked = board.after(boxes, at)
        best: tuple[float, ...] = ()
        for effects in choices(wirings, blocked):
            parts = [(chance, self.of(*after[move], left - 1, rest)) for move, rest, chance in effects]
            payoffs = _mean(parts)
            score = self._score(payoffs)
            if score > best:
                best, self._known[key] = score, payoffs
        return self._known[key]

    def of_keys(self, position: tuple[int, int, int], wirings: int, keys: Sequence[int]) -> Payoffs:
        """Return the payoffs of pressing keys of which only the last board is shown. Arguments as in `outcomes`."""
        size = wirings.bit_count()
        parts = self.board.outcomes(position, wirings, keys)
        return _mean([(part.bit_count() / size, self.of(*shown, canonical(part))) for shown, part in parts.items()])

    def of_key(self, position: tuple[int, int, int], wirings: int, key: int) -> tuple[float, ...]:
        """Return the payoff of pressing a key by the learner's objective, and by its tie-breakers."""
        return self._score(self.of_keys(position, wirings, (key,)))

    def _score(self, payoffs: Payoffs) -> tuple[float, ...]:
        return tuple([round(sum(map(float.__mul__, tier, payoffs)), _SAME) for tier in self._tiers])


def _mean(parts: Sequence[tuple[float, Payoffs]]) -> Payoffs:
    """Return the mean of payoffs, weighted by their probabilities."""
    return tuple([sum([chance * part[place] for chance, part in parts]) for place in range(len(parts[0][1]))])


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

    def before(self, episode: int, wirings: int) -> Payoffs:
        """Return the payoffs from the start of an episode, as means over its rooms. `wirings` must be canonical."""
        if episode == len(self._starts):
            return ()
        found = self._starts[episode].get(wirings)
        if found is None:
            if episode not in self._rooms:
                self._rooms[episode] = [RoomPayoffs(self, board, episode) for board, _ in self._boards]
            rooms = []
            for payoffs, (board, keys) in zip(self._rooms[episode], self._boards, strict=True):
                level = board.room.level
                rooms.append(payoffs.of(level.boxes, level.player, keys, wirings))
            found = self._starts[episode][wirings] = tuple(
                sum(column) / len(rooms) for column in zip(*rooms, strict=True)
            )
        return found

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
