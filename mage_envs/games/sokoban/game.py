"""Sokoban.

Rules: the player walks up, down, left and right on floor, and pushes a box by walking against it where the cell
behind the box is free. The level is solved when every box is on a target. A move against a wall, or against a box
that cannot give way, is legal and changes nothing.
Actions: one to three of `up`, `down`, `left`, `right`, comma separated, in any case. What follows the move that
solves the level is not executed.
Observation: the board, a numbered row a line: `#` wall, `_` floor, `O` target, `√` box on a target, `X` box,
`P` player, `S` player on a target; at the end a line that says so.
Returns: gym-sokoban's rewards, summed over the executed moves: -0.1 a move, +1 for a box pushed onto a target, -1
for one pushed off, +10 when solved. A level that starts with boxes on targets pays nothing for those.
Versions: v0.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from hashlib import sha256
from itertools import product
from typing import Any, Self

import numpy as np

from mage_envs.core import Game, GameFacts, IllegalAction, State
from mage_envs.drawing import Picture
from mage_envs.drawing import sokoban as drawing
from mage_envs.games.sokoban.boxoban import FileRooms
from mage_envs.games.sokoban.gym_sokoban import GymSokobanRooms
from mage_envs.games.sokoban.level import MOVES, Drawing, offsets, step
from mage_envs.games.sokoban.rooms import RetrogradeRooms, Room, RoomSource
from mage_envs.settings import GameSettings, success_reward, total_reward

MOVES_PER_TURN = 3
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
"""The 84 action texts, canonically spelt, with the moves' indices."""
_COMPACT = {text.replace(" ", ""): text for text in _TURNS}
_EXPECTED = (*MOVES, "or up to three of these, separated by commas")


class _Position:
    """One position of a room; made when first seen, then kept."""

    def __init__(self, boxes: int, player: int, placed: int, text: str) -> None:
        self.boxes = boxes
        self.player = player
        self.placed = placed
        """Boxes on targets."""
        self.text = text
        self.after: list[_Position | None] = [None, None, None, None]
        """Where each move leads, once it is known."""


class _Positions:
    """The positions of a room that were seen so far; all states of an episode share them."""

    def __init__(self, room: Room) -> None:
        level = room.level
        self.room = room
        self.targets = level.targets.bit_count()
        """How many."""
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
        """Where a move leads; remembered in `position.after`."""
        after = self.at(*step(self.room.level.floor, position.boxes, position.player, self._offsets[move]))
        position.after[move] = after
        return after


class SokobanState(State):
    """Where boxes and player are in a room, and how many moves it took."""

    def __init__(self, positions: _Positions, position: _Position, executed: int) -> None:
        solved = position.placed == positions.targets
        self.executed = executed
        """Moves executed in this hand."""
        self.player: int | None = None if solved else 0
        self.legal_actions: tuple[str, ...] = () if solved else MOVES
        """The four single moves; up to three, comma separated, are legal too."""
        self.category = positions.category
        self._positions = positions
        self._position = position

    @property
    def room(self) -> Room:
        """The level as it began, with its oracle."""
        return self._positions.room

    @property
    def returns(self) -> tuple[float, ...]:
        """The rewards of the moves executed so far, summed."""
        pushed = self._position.placed - self._positions.start.placed
        return ((10 * pushed + 100 * (self.player is None) - self.executed) / 10,)

    def observation(self, seat: int) -> str:
        return self._position.text

    def after(self, action: str) -> SokobanState:
        moves = _TURNS.get(action) or _TURNS.get(self.canonical(action))
        if moves is None or self.player is None:
            raise IllegalAction(action, _EXPECTED)
        positions, position, executed = self._positions, self._position, self.executed
        for move in moves:
            position = position.after[move] or positions.follow(position, move)
            executed += 1
            if position.placed == positions.targets:
                break
        return SokobanState(positions, position, executed)

    def canonical(self, action: str) -> str:
        if action in _TURNS or len(action) > 100:
            return action
        return _COMPACT.get("".join(action.lower().split()) if _is_words(action) else "", action)

    def won(self, seat: int) -> bool:
        return self.player is None

    def metrics(self) -> dict[str, float]:
        """`distance_to_goal` in moves, `dead` (0 or 1) and `regret`: the moves that were wasted so far, executed ones
        plus those still needed less a shortest solution. What a search of bounded size cannot tell is left out, as is
        the regret of a dead position."""
        position, start, search = self._position, self._positions.start, self.room.search
        distance = search.distance(position.boxes, position.player)
        if distance is None:
            return {"dead": 1.0} if search.complete else {}
        told = {"distance_to_goal": float(distance), "dead": 0.0}
        shortest = search.distance(start.boxes, start.player)
        if shortest is not None:
            told["regret"] = float(self.executed + distance - shortest)
        return told

    def picture(self, seat: int) -> Picture:
        return drawing.board(self.room.level, self._position.boxes, self._position.player)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Without the positions seen, which are made again."""
        return _state_at, (self.room, self._position.boxes, self._position.player, self.executed)


def _state_at(room: Room, boxes: int, player: int, executed: int) -> SokobanState:
    positions = _Positions(room)
    return SokobanState(positions, positions.at(boxes, player), executed)


class Sokoban(Game):
    """Sokoban; see the module's text for rules, actions, observation and returns.

    `generator`: `"retrograde"` (default), `"gym-sokoban"`, or the path of a level file in Boxoban's format or of a
    folder of them. The generators make square rooms of `size` cells a side, walls included (6), with `boxes` boxes
    (2), whose shortest solution has `min_moves` (5) to `max_moves` (21) moves; level files take none of these.
    """

    facts = GameFacts(
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
        min_return=-2.1,
        max_return=14.0,
        max_turns=7,
        pays_on_the_way=True,
        has_pictures=True,
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
        given = {"boxes": boxes, "size": size, "min_moves": min_moves, "max_moves": max_moves}
        chosen = {name: value for name, value in given.items() if value is not None}
        self._rooms = _room_source(generator, chosen)
        self._resolved = [str(generator), *{**DEFAULTS, **chosen}.values()]

    def initial_state(self, rng: np.random.Generator) -> SokobanState:
        positions = _Positions(self._rooms.draw(rng))
        return SokobanState(positions, positions.start, 0)

    def data_hash(self) -> str:
        """Of the level files' content, or of what the generator makes."""
        told = self._rooms.levels if isinstance(self._rooms, FileRooms) else self._resolved
        return sha256(repr(told).encode()).hexdigest()[:12]


def _is_words(action: str) -> bool:
    """Whether blanks stand only beside words, so that leaving them out joins no letters."""
    return all(" " not in part.strip() and len(part.split()) == 1 for part in action.split(","))


def _room_source(generator: str | os.PathLike[str], given: Mapping[str, int]) -> RoomSource:
    make = GENERATORS.get(generator) if isinstance(generator, str) else None
    if make is None:
        if not os.path.exists(generator):
            raise ValueError(
                f"generator={str(generator)!r} is unknown; choose one of: {', '.join(map(repr, GENERATORS))}, "
                "or give the path of a level file."
            )
        if given:
            raise ValueError(f"A level file fixes its levels: leave {', '.join(given)} out.")
        return FileRooms(generator)
    chosen = {**DEFAULTS, **given}
    for name, allowed in (("boxes", BOXES), ("size", SIZES)):
        if chosen[name] not in allowed:
            raise ValueError(f"{name}={chosen[name]!r} must be a whole number from {allowed[0]} to {allowed[-1]}.")
    low, high = chosen["min_moves"], chosen["max_moves"]
    if not 1 <= low <= high:
        raise ValueError(f"min_moves={low!r} and max_moves={high!r} must be whole numbers with 1 <= min <= max.")
    return make(chosen["size"], chosen["boxes"], (low, high))


SETTINGS = GameSettings(length_penalty=1.0, rewards={"task": success_reward, "released": total_reward})
