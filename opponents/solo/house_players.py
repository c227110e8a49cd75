"""Players of ALFWorldHouse that know what lies where, or mistake the house: references for the worth of memory."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from mage_envs.core import Game, Turn
from mage_envs.games.alfworld.houses import FACTS
from mage_envs.games.alfworld_house import ALFWorldHouse
from mage_envs.opponents.solo.alfworld import ALFWorldExpert, KnownRoom, kind_of


def house_in(turn: Turn) -> str:
    """Return the name of the house that the environment reveals. Raises ValueError if it reveals none."""
    house = (turn.opponent or "").partition(":")[2]
    if not any(house in names for names in FACTS.values()):
        raise ValueError(
            f"This player reads the house from Turn.opponent, got {turn.opponent!r}. Use reveal_opponent=True and "
            "opponents such as house:train0."
        )
    return house


class KnownHouse(ALFWorldExpert):
    """The expert, which knows what lies where in the house. It needs `reveal_opponent=True`."""

    def __init__(self, game: Game) -> None:
        super().__init__()
        if not isinstance(game, ALFWorldHouse):
            raise TypeError(f"This player expects ALFWorldHouse, got {game.spec.name}.")
        self._game = game

    def act(self, turn: Turn) -> str:
        # In the second seat, where every game's opponents are checked, it states a house.
        return turn.legal_actions[0] if turn.player == 1 else super().act(turn)

    def _house(self, turn: Turn) -> str:
        """Return the house that the player expects."""
        return house_in(turn)

    def _expected(self, turn: Turn, listed: tuple[str, ...]) -> KnownRoom:
        contents = self._game.house(self._house(turn)).contents
        room = KnownRoom(listed)
        room.contents = {place: set(contents.get(place, ())) for place in listed}
        room.lamps = {
            thing: place for place in listed for thing in room.contents[place] if kind_of(thing) == "desklamp"
        }
        return room


class WrongHouse(KnownHouse):
    """A player with the memory of another meta-episode: it expects the contents of one other house.

    It drops this expectation as soon as a receptacle contradicts it.
    """

    def on_meta_episode_start(self) -> None:
        """Forget the other house."""
        self._other: str | None = None

    def reset(self, rng: np.random.Generator) -> None:
        super().reset(rng)
        self._drawn = float(rng.random())
        self._inspected: set[str] = set()
        """Receptacles that were seen in this hand."""

    def _see(self, place: str, things: Iterable[str]) -> None:
        seen, contents = set(things), self._room.contents
        if place not in self._inspected:
            self._inspected.add(place)
            if contents.get(place, set()) != seen:
                for other in contents.keys() - self._inspected:
                    del contents[other]
        super()._see(place, seen)

    def _house(self, turn: Turn) -> str:
        # The first hand draws the other house, which stays the same.
        if self._other is None:
            house = house_in(turn)
            others = [name for names in FACTS.values() if house in names for name in names if name != house]
            self._other = others[int(self._drawn * len(others))]
        return self._other


class PlannedHouse:
    """A player that executes a shortest plan of each task. It needs `reveal_opponent=True`."""

    def __init__(self, game: Game) -> None:
        if not isinstance(game, ALFWorldHouse):
            raise TypeError(f"This player expects ALFWorldHouse, got {game.spec.name}.")
        self._game = game
        self._left: list[str] | None = None

    def reset(self, rng: np.random.Generator) -> None:
        """Start a task."""
        self._left = None

    def act(self, turn: Turn) -> str:
        if turn.player == 1:
            return turn.legal_actions[0]
        if self._left is None:
            # The plan is reversed, so that `pop` removes its next command.
            self._left = list(self._game.plan(f"{house_in(turn)}/{turn.task_id}"))[::-1]
        return self._left.pop() if self._left else "look"
