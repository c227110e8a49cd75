"""Players of ALFWorldHouse that know what lies where, or mistake the house: references for the worth of memory."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from mage_envs.core import Game, Policy, Turn
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

    def _initial_room(self, turn: Turn, receptacles: tuple[str, ...]) -> KnownRoom:
        contents = self._game.house(self._house(turn)).contents
        room = KnownRoom(receptacles)
        room.contents = {receptacle: set(contents.get(receptacle, ())) for receptacle in receptacles}
        room.lamps = {
            object_name: receptacle
            for receptacle in receptacles
            for object_name in room.contents[receptacle]
            if kind_of(object_name) == "desklamp"
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

    def _see(self, receptacle: str, object_names: Iterable[str]) -> None:
        observed_objects, contents = set(object_names), self._room.contents
        if receptacle not in self._inspected:
            self._inspected.add(receptacle)
            if contents.get(receptacle, set()) != observed_objects:
                for unseen_receptacle in contents.keys() - self._inspected:
                    del contents[unseen_receptacle]
        super()._see(receptacle, observed_objects)

    def _house(self, turn: Turn) -> str:
        # The first hand draws the other house, which stays the same.
        if self._other is None:
            house = house_in(turn)
            others = [name for names in FACTS.values() if house in names for name in names if name != house]
            self._other = others[int(self._drawn * len(others))]
        return self._other


class PlannedHouse(Policy):
    """A player that executes a shortest plan of each task. It needs `reveal_opponent=True`."""

    def __init__(self, game: Game) -> None:
        if not isinstance(game, ALFWorldHouse):
            raise TypeError(f"This player expects ALFWorldHouse, got {game.spec.name}.")
        self._game = game
        self._remaining_plan: list[str] | None = None

    def reset(self, rng: np.random.Generator) -> None:
        """Start a task."""
        self._remaining_plan = None

    def act(self, turn: Turn) -> str:
        if turn.player == 1:
            return turn.legal_actions[0]
        if self._remaining_plan is None:
            # The plan is reversed, so that `pop` removes its next command.
            self._remaining_plan = list(self._game.plan(f"{house_in(turn)}/{turn.task_id}"))[::-1]
        return self._remaining_plan.pop() if self._remaining_plan else "look"
