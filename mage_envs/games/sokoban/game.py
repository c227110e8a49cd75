"""Sokoban."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from hashlib import sha256
from itertools import product
from math import ceil
from typing import Any, Self

import numpy as np

from mage_envs.core import Game, GameSpec, IllegalAction, State
from mage_envs.drawing import Picture
from mage_envs.drawing import sokoban as drawing
from mage_envs.games.sokoban.boxoban import MAX_SOLUTION, FileRooms
from mage_envs.games.sokoban.gym_sokoban import GymSokobanRooms
from mage_envs.games.sokoban.level import MOVES, Drawing, all_cell_words, cell_words, offsets, step
from mage_envs.games.sokoban.rooms import RetrogradeRooms, Room, RoomSource
from mage_envs.settings import GameSettings, success_reward, total_reward
from mage_envs.text.plain import MAX_CHARACTERS, nearest_action
from mage_envs.text.words.spelling import ObservationWords

MOVES_PER_TURN = 3
MIN_TURNS = 7
"""Minimum limit of answers; it suffices for the longest solution under the default options."""
SLACK = 1.5
"""Factor of the moves that a level from a file allows, relative to its shortest solution."""
SIZES = range(5, 21)
BOXES = range(1, 5)
DEFAULTS = {"boxes": 2, "size": 6, "min_moves": 5, "max_moves": 21}
GENERATORS: Mapping[str, Callable[[int, int, tuple[int, int]], RoomSource]] = {
    "retrograde": RetrogradeRooms,
    "gym-sokoban": GymSokobanRooms,
}
_TURNS = {
    ", ".join(MOVES[move] for move in moves): moves
    for count in range(1, MOVES_PER_TURN + 1)
    for moves in product(range(4), repeat=count)
}
"""The 84 canonical action texts to the indices of their moves."""
_COMPACT = {text.replace(" ", ""): text for text in _TURNS}
_EXPECTED = (*MOVES, "or up to three of these, separated by commas")


class _Position:
    """One position of a room, built at its first visit and cached."""

    def __init__(self, boxes: int, player: int, placed: int, text: str) -> None:
        self.boxes = boxes
        self.player = player
        self.placed = placed
        """Boxes on targets."""
        self.text = text
        self.after: list[_Position | None] = [None, None, None, None]
        """Next position of each move, or None if it is not known yet."""


class _Positions:
    """The visited positions of a room. All states of an episode share them."""

    def __init__(self, room: Room) -> None:
        level = room.level
        self.room = room
        self.targets = level.targets.bit_count()
        """Number of targets."""
        self.category = "1 box" if self.targets == 1 else f"{self.targets} boxes"
        self._offsets = offsets(level.width)
        self._drawing = Drawing(level)
        self._seen: dict[tuple[int, int], _Position] = {}
        self.start = self.at(level.boxes, level.player)

    def at(self, boxes: int, player: int) -> _Position:
        position = self._seen.get((boxes, player))
        if position is None:
            placed = (boxes & self.room.level.targets).bit_count()
            text = self._drawing.text(boxes, player)
            if placed == self.targets:
                text += "\nThe level is solved: every box is on a target."
            position = self._seen[boxes, player] = _Position(boxes, player, placed, text)
        return position

    def follow(self, position: _Position, move: int) -> _Position:
        """Return the position after a move, and cache it in `position.after`."""
        next_position = self.at(*step(self.room.level.floor, position.boxes, position.player, self._offsets[move]))
        position.after[move] = next_position
        return next_position


class SokobanState(State):
    """A point of an episode: a position in a room and the number of executed moves."""

    def __init__(self, positions: _Positions, position: _Position, executed: int, max_turns: int | None = None) -> None:
        solved = position.placed == positions.targets
        self.executed = executed
        """Moves executed in this hand."""
        self.player: int | None = None if solved else 0
        self.legal_actions: tuple[str, ...] = () if solved else MOVES
        """The four single moves. Two or three of them, separated by commas, are legal too."""
        self.category = positions.category
        self.max_turns = max_turns
        self._positions = positions
        self._position = position

    @property
    def room(self) -> Room:
        """Return the initial level, with its oracle."""
        return self._positions.room

    @property
    def returns(self) -> tuple[float, ...]:
        """Return the summed rewards of the moves executed so far."""
        pushed = self._position.placed - self._positions.start.placed
        # In tenths: one division at the end rounds once, while a sum of 0.1 per move accumulates rounding errors.
        return ((10 * pushed + 100 * (self.player is None) - self.executed) / 10,)

    def observation(self, seat: int) -> str:
        return self._position.text

    def after(self, action: str) -> SokobanState:
        # The canonical spelling comes first, because it needs no normalization.
        moves = _TURNS.get(action) or _TURNS.get(self.canonical(action))
        if moves is None or self.player is None:
            raise IllegalAction(action, _EXPECTED)
        positions, position, executed = self._positions, self._position, self.executed
        for move in moves:
            # A board is drawn as text once per position, so a repeated move costs one lookup.
            position = position.after[move] or positions.follow(position, move)
            executed += 1
            if position.placed == positions.targets:
                break
        return SokobanState(positions, position, executed, self.max_turns)

    def after_illegal(self) -> SokobanState:
        # A move that does nothing, which costs as much as any other move.
        return SokobanState(self._positions, self._position, self.executed + 1, self.max_turns)

    def canonical(self, action: str) -> str:
        # The longest canonical action is much shorter than 100 characters. Longer texts are not worth normalizing.
        if action in _TURNS or len(action) > 100:
            return action
        return _COMPACT.get("".join(action.lower().split()) if _is_words(action) else "", action)

    def won(self, seat: int) -> bool:
        return self.player is None

    def metrics(self) -> dict[str, float]:
        """Return `distance_to_goal` (moves), `dead` (0 or 1) and `regret` (moves wasted so far).

        `regret` is the executed moves plus those still needed, minus the length of a shortest solution. If the bounded
        search does not know a metric, the metric is left out. A dead position has only `dead`.
        """
        position, start, search = self._position, self._positions.start, self.room.search
        distance = search.distance(position.boxes, position.player)
        if distance is None:
            # An unknown distance proves a dead position only if the table is complete.
            return {"dead": 1.0} if search.complete else {}
        metrics = {"distance_to_goal": float(distance), "dead": 0.0}
        shortest = search.distance(start.boxes, start.player)
        if shortest is not None:
            metrics["regret"] = float(self.executed + distance - shortest)
        return metrics

    def picture(self, seat: int) -> Picture:
        return drawing.board(self.room.level, self._position.boxes, self._position.player)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the position without the cache of visited positions."""
        return _state_at, (self.room, self._position.boxes, self._position.player, self.executed, self.max_turns)


def _state_at(room: Room, boxes: int, player: int, executed: int, max_turns: int | None) -> SokobanState:
    positions = _Positions(room)
    return SokobanState(positions, positions.at(boxes, player), executed, max_turns)


def turns_for(moves: float) -> int:
    """Return a limit of answers that suffices for that many moves."""
    return max(MIN_TURNS, ceil(moves / MOVES_PER_TURN))


def nearest_moves(answer: str, legal_actions: Sequence[str]) -> str:
    """Return the moves that an answer names, in the form of an action, or else the nearest single move."""
    moves = re.findall("|".join(MOVES), answer[:MAX_CHARACTERS].lower())
    return ", ".join(moves[:MOVES_PER_TURN]) or nearest_action(answer, legal_actions)


class Sokoban(Game):
    """Sokoban rooms with an exact length of the solution, or the levels of a file.

    Rules: the player moves up, down, left and right on floor. It pushes a box by a move against it if the cell behind
    the box is free. The level is solved when every box is on a target. A move against a wall, or against a box that
    cannot move, is legal and changes nothing.

    Actions: one to three of `up`, `down`, `left`, `right`, separated by commas, in any case. Moves after the one that
    solves the level are not executed.

    Observation: the board, one numbered row per line. `#` is a wall, `_` floor, `O` a target, `√` a box on a target,
    `X` a box, `P` the player and `S` the player on a target. If the level is solved, a last line says so.

    Returns: gym-sokoban's rewards, summed over the executed moves. A move costs 0.1. A box pays +1 when it is pushed
    onto a target and -1 when it is pushed off. The solution pays +10. Boxes that start on targets pay nothing. An
    illegal answer counts as a move that does nothing.

    Success: the level is solved.

    Limit: every level can be solved within its limit of answers. The default is 7, or as many as `max_moves` requires.
    A level from a file allows half as many moves again as its shortest solution.

    Versions: v0.

    Args:
        generator: `"retrograde"` (default), `"gym-sokoban"`, or the path of a level file or of a folder of such files,
            in the text forms of Boxoban and of other collections (XSB). Level files allow none of the other options.
        boxes: Number of boxes, 1 to 4 (default: 2).
        size: Cells per side of the square room, walls included, 5 to 20 (default: 6).
        min_moves: Minimum moves of the shortest solution (default: 5).
        max_moves: Maximum moves of the shortest solution (default: 21).

    Raises:
        ValueError: If an option is out of range, or if a level file is used with one of the options.
        FileNotFoundError: If the folder has no level file.
        ImportError: If gym-sokoban is required and not installed.
    """

    spec = GameSpec(
        name="Sokoban",
        rules=(
            "Sokoban. Push every box onto a target. You walk up, down, left or right on the board; walking against a "
            "box pushes it one cell further, if the cell behind it is free. You cannot pull a box, nor push two at "
            "once, nor walk through walls; a move that is blocked changes nothing. The board is shown row by row: # is "
            "a wall, _ is floor, O is a target, X is a box, √ is a box on a target, P is you, S is you on a target. An "
            "action is one to three of the moves up, down, left, right, separated by commas, as in: up, up, left. They "
            "are carried out in order, and the episode ends as soon as every box is on a target."
        ),
        players=1,
        # 21 moves at -0.1; at most four boxes at +1 and the solution at +10, if no box starts on a target.
        min_return=-2.1,
        max_return=14.0,
        # 7 turns of 3 moves are 21 moves, the default `max_moves`.
        max_turns=MIN_TURNS,
        has_intermediate_rewards=True,
        has_pictures=True,
        legal_note="one to three of these moves, separated by commas",
        lists_actions_in_paper=False,
        nearest=nearest_moves,
    )

    def __init__(
        self,
        generator: str | os.PathLike[str] = "retrograde",
        *,
        boxes: int | None = None,
        size: int | None = None,
        min_moves: int | None = None,
        max_moves: int | None = None,
    ) -> None:
        options = {"boxes": boxes, "size": size, "min_moves": min_moves, "max_moves": max_moves}
        given_options = {name: value for name, value in options.items() if value is not None}
        self._rooms = _room_source(generator, given_options)
        self._resolved = [str(generator), *{**DEFAULTS, **given_options}.values()]
        self._size: int = {**DEFAULTS, **given_options}["size"]
        self._is_file = isinstance(self._rooms, FileRooms)
        # A level of a file has a limit of its own, and the spec has the largest.
        turns = turns_for(SLACK * MAX_SOLUTION if self._is_file else {**DEFAULTS, **given_options}["max_moves"])
        self.spec = self._spec_for(turns)

    def _spec_for(self, turns: int) -> GameSpec:
        """Return the facts for a limit of answers, with returns that no play within it exceeds."""
        placed, unplaced = 0, BOXES[-1]
        height = width = self._size
        if isinstance(self._rooms, FileRooms):
            height, width = (max(sizes) for sizes in zip(*((room.height, room.width) for room in self._rooms.levels)))
            counts = [((level.boxes & level.targets).bit_count(), level.boxes) for level in self._rooms.levels]
            placed = max(count for count, _ in counts)
            unplaced = max(boxes.bit_count() - count for count, boxes in counts)
        worst = -MOVES_PER_TURN * turns / 10 - placed
        words = ObservationWords(cell_words, (*all_cell_words(height, width), *MOVES))
        return replace(
            type(self).spec, max_turns=turns, min_return=worst, max_return=10.0 + unplaced, observation_words=words
        )

    def with_limit(self, max_turns: int) -> Self:
        if max_turns <= self.spec.max_turns:
            return self
        # More moves may cost more than the spec's least return.
        game = copy(self)
        game.spec = replace(self._spec_for(max_turns), max_turns=self.spec.max_turns)
        return game

    def initial_state(self, rng: np.random.Generator) -> SokobanState:
        room = self._rooms.draw(rng)
        positions, limit = _Positions(room), None
        if self._is_file:
            shortest = room.search.distance(room.level.boxes, room.level.player)
            assert shortest is not None, "levels without a solution are not drawn"
            limit = turns_for(SLACK * shortest)
        return SokobanState(positions, positions.start, 0, limit)

    def data_hash(self) -> str:
        """Return a hash of the level files' content, or of the generator's options."""
        rooms = self._rooms.levels if isinstance(self._rooms, FileRooms) else self._resolved
        return sha256(repr(rooms).encode()).hexdigest()[:12]


def _is_words(action: str) -> bool:
    """Return True if blanks are only next to commas or at the ends. Then their removal joins no letters."""
    return all(" " not in part.strip() and len(part.split()) == 1 for part in action.split(","))


def _room_source(generator: str | os.PathLike[str], options: Mapping[str, int]) -> RoomSource:
    make = GENERATORS.get(generator) if isinstance(generator, str) else None
    # A path is checked for existence first, so that a misspelt generator is not reported as a missing file.
    if make is None:
        if not os.path.exists(generator):
            raise ValueError(
                f"generator={str(generator)!r} is unknown; choose one of: {', '.join(map(repr, GENERATORS))}, "
                "or pass the path of a level file."
            )
        if options:
            raise ValueError(f"A level file fixes its levels. Remove the options {', '.join(options)}.")
        return FileRooms(generator)
    settings = {**DEFAULTS, **options}
    for name, allowed in (("boxes", BOXES), ("size", SIZES)):
        if settings[name] not in allowed:
            raise ValueError(f"{name}={settings[name]!r} must be a whole number from {allowed[0]} to {allowed[-1]}.")
    low, high = settings["min_moves"], settings["max_moves"]
    if not 1 <= low <= high:
        raise ValueError(f"min_moves={low!r} and max_moves={high!r} must be whole numbers with 1 <= min <= max.")
    return make(settings["size"], settings["boxes"], (low, high))


SETTINGS = GameSettings(
    length_penalty=1.0,
    rewards={"task": success_reward, "released": total_reward},
    references={"floor: random": "scripted:random", "expert, who needs no memory": "policy:sokoban/expert"},
)
