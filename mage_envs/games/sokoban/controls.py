"""Sokoban with unknown keys: related tasks whose hidden fact is the wiring of four keys."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations, product
from typing import ClassVar, NamedTuple

import numpy as np

from mage_envs.core import GameSpec, IllegalAction, State
from mage_envs.drawing import Picture
from mage_envs.drawing import sokoban as drawing
from mage_envs.games.sokoban.level import MOVES, Drawing, Level, offsets, step
from mage_envs.games.sokoban.rooms import RetrogradeRooms, Room
from mage_envs.loading.options import check_choice
from mage_envs.random.streams import fold
from mage_envs.related import Related
from mage_envs.settings import GameSettings, success_reward

KEYS = ("a", "b", "c", "d")
WIRINGS = tuple("".join(wiring) for wiring in permutations("udlr"))
"""The 24 facts: the first letter of the direction of each key, in the order of `KEYS`."""
SPLITS = ("train", "eval")
KEYS_PER_TURN = 3
SIZE = 6
_TURNS = {", ".join(keys): keys for count in range(1, KEYS_PER_TURN + 1) for keys in product(KEYS, repeat=count)}
"""The 84 canonical action texts to their keys."""
_COMPACT = {text.replace(" ", ""): text for text in _TURNS}
_DIRECTIONS = {name[0]: index for index, name in enumerate(MOVES)}
_EXPECTED = (*KEYS, "or up to three of these, separated by commas")
_LONGEST = 100
"""Maximum characters of an action. A longer text is illegal."""


def directions_of(wiring: str) -> tuple[int, ...]:
    """Return the index in `MOVES` of each key's direction. Raises ValueError if the wiring is unknown."""
    if wiring not in WIRINGS:
        raise ValueError(
            f"Wiring {wiring!r} is unknown. It must have the letters u, d, l and r in the order of the keys, as in "
            "'udlr'."
        )
    return tuple(_DIRECTIONS[letter] for letter in wiring)


class ControlledRoom(NamedTuple):
    """A room under a wiring, which all states of a hand share."""

    room: Room
    wiring: str
    directions: tuple[int, ...]
    picture: Drawing


class ControlsState(State):
    """A point of a hand: a position, the keys left, and the effects of the keys so far."""

    def __init__(
        self, hand: ControlledRoom, boxes: int, at: int, keys_left: int, effects: tuple[str, ...] = ()
    ) -> None:
        self._hand, self.boxes, self.at, self.left, self._effects = hand, boxes, at, keys_left, effects
        self.solved = boxes == hand.room.level.targets
        self.player: int | None = None if self.solved or not keys_left else 0
        self.legal_actions: tuple[str, ...] = KEYS if self.player == 0 else ()
        """The four single keys. Two or three of them, separated by commas, are legal too."""

    @property
    def room(self) -> Room:
        """Return the room, with its oracle."""
        return self._hand.room

    @property
    def returns(self) -> tuple[float, ...]:
        return (float(self.solved),)

    def observation(self, seat: int) -> str:
        text = f"{self._hand.picture.text(self.boxes, self.at)}\nKeys left: {self.left}"
        if self.solved:
            return f"{text}\nThe level is solved: the box is on the target."
        return text if self.left else f"{text}\nThe level is not solved, and no key is left."

    def information_state(self, seat: int) -> str:
        return " ".join((self.observation(seat), *self._effects))

    def after(self, action: str) -> ControlsState:
        keys = _TURNS.get(self.canonical(action))
        if keys is None or self.player is None:
            raise IllegalAction(action, _EXPECTED)
        state = self
        for key in keys:
            # Keys after the one that ends the hand are not pressed.
            if state.player is not None:
                state = state._press(key)
        return state

    def _press(self, key: str) -> ControlsState:
        level = self.room.level
        move = self._hand.directions[KEYS.index(key)]
        boxes, at = step(level.floor, self.boxes, self.at, offsets(level.width)[move])
        effect = f"{key}:{'nothing' if at == self.at else MOVES[move]}"
        return ControlsState(self._hand, boxes, at, self.left - 1, effects=(*self._effects, effect))

    def canonical(self, action: str) -> str:
        if action in _TURNS or len(action) > _LONGEST:
            return action
        return _COMPACT.get("".join(action.lower().split()), action)

    def won(self, seat: int) -> bool:
        return self.solved

    def metrics(self) -> Mapping[str, float]:
        """Return `distance_to_goal` in moves, unless the level cannot be solved any more."""
        distance = self.room.search.distance(self.boxes, self.at)
        return {} if distance is None else {"distance_to_goal": float(distance)}

    def picture(self, seat: int) -> Picture:
        return drawing.board(self.room.level, self.boxes, self.at)


def _spec(slack: int, max_keys: int) -> GameSpec:
    return GameSpec(
        name="SokobanControls",
        rules=(
            "Sokoban with unknown keys. Push the box onto the target. There are four keys, a, b, c and d. Each of them "
            "moves you in another one of the directions up, down, left and right, and nobody has said which. Moving "
            "against a box pushes it one cell further, if the cell behind it is free. You cannot pull a box or walk "
            "through walls; a key that would move you against something that cannot move changes nothing. The board is "
            "shown row by row: # is a wall, _ is floor, O is the target, X is the box, √ is the box on the target, P "
            "is you, S is you on the target. An action is one to three keys, separated by commas, as in: a, a, c. They "
            "are pressed in order, and you see the board after the last one. The episode ends when the box is on the "
            f"target, which is a success, or when no key is left. You have {slack} more than the fewest that solve the "
            "room."
        ),
        players=2,
        neutral={"Sokoban": "Puzzle", "box": "block"},
        unit="rooms",
        min_return=0.0,
        max_return=1.0,
        # One key per answer, and two answers more for texts that are no key.
        max_turns=max_keys + slack + 2,
        has_pictures=True,
        series=True,
        stays="Which key moves where stays the same throughout. Every episode is another room.",
    )


class SokobanControls(Related):
    """Sokoban rooms with one box, in which four keys move in directions that the learner does not know.

    Rules: those of Sokoban. The hidden fact says which key moves where. A hand ends when the box is on the target, or
    after `slack` keys more than the fewest that solve the room. A key that moves against a wall, or against a box that
    cannot move, counts too.

    Actions: one to three of `a`, `b`, `c`, `d`, separated by commas. Keys after the one that ends the hand are not
    pressed. The board is shown after the last one.

    Observation: Sokoban's board, and the number of keys left.

    Returns: 1 if the level is solved, else 0.

    Success: the level is solved.

    Versions: v0.

    Args:
        slack: Keys more than the fewest that solve a room, at least 0 (default: 2). With 0, each wrong key costs the
            room, and exploration must be paid. From 4 on, a learner finds the wiring on the way.
        split: `train` (default) or `eval`: two disjoint halves of all rooms.
        min_moves: Minimum moves of the shortest solution (default: 5).
        max_moves: Maximum moves of the shortest solution (default: 9).

    Raises:
        ValueError: If an option is out of range.
    """

    spec = _spec(2, 9)
    kinds_of_fact = WIRINGS
    solver: ClassVar[str] = "mage_envs.opponents.solo.key_values:solve_controls"

    def __init__(self, slack: int = 2, split: str = "train", min_moves: int = 5, max_moves: int = 9) -> None:
        if slack < 0 or not 1 <= min_moves <= max_moves:
            raise ValueError(
                f"{slack=}, {min_moves=}, {max_moves=} must be at least 0, and 1 <= min_moves <= max_moves."
            )
        check_choice("split", split, SPLITS)
        self.options = (slack, split, min_moves, max_moves)
        """Arguments that make an equal game."""
        self.slack = slack
        self.spec = _spec(slack, max_moves)
        self._part = SPLITS.index(split)
        self._rooms = RetrogradeRooms(SIZE, 1, (min_moves, max_moves))

    def rooms(self, rng: np.random.Generator, count: int) -> list[Room]:
        """Return different rooms of the split, in the order in which they are drawn."""
        rooms: dict[Level, Room] = {}
        while len(rooms) < count:
            room = self._rooms.draw(rng)
            level = room.level
            # The content of a room decides its split, so no room belongs to both.
            if fold(level.floor, level.targets, level.boxes, level.player) % len(SPLITS) == self._part:
                rooms.setdefault(level, room)
        return list(rooms.values())

    def errand(self, rng: np.random.Generator, number: int) -> Room:
        return self.rooms(rng, number + 1)[number]

    def keys(self, room: Room) -> int:
        """Return the number of keys that may be pressed in a room."""
        shortest = room.search.distance(room.level.boxes, room.level.player)
        assert shortest is not None, "every drawn room has a solution"
        return shortest + self.slack

    def begin(self, errand: Room, fact: str) -> ControlsState:
        hand = ControlledRoom(errand, fact, directions_of(fact), Drawing(errand.level))
        return ControlsState(hand, errand.level.boxes, errand.level.player, self.keys(errand))

    def describe(self, fact: str) -> str:
        moves = [f"key {key} moves {MOVES[move]}" for key, move in zip(KEYS, directions_of(fact), strict=True)]
        return f"In all rooms, {', '.join(moves[:-1])} and {moves[-1]}."


SETTINGS = GameSettings(
    opponent="pool:controls/all",
    seat="first",
    rewards={"task": success_reward, "released": success_reward},
    references={
        "floor: random": "scripted:random",
        "blind": "policy:controls/blind",
        "with memory": "policy:controls/memory",
        "explores first": "policy:controls/explorer",
        "optimal for the sum": "policy:controls/bayes",
        "known": "policy:controls/known",
        "wrong memory": "policy:controls/wrong",
    },
)
