"""Any game of OpenSpiel as a text game.

Rules: those of the OpenSpiel game; `VOICES` holds the games with texts of their own, the others have generic ones.
Actions: OpenSpiel's texts as they are listed, in any case where that is clear.
Observation: the position as the player may see it, who they are, and whose move it is or how the hand ended.
Returns: OpenSpiel's.
Versions: v0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Self

import numpy as np

from mage_envs.core import Game, GameFacts, IllegalAction, State
from mage_envs.games.openspiel.position import Position, Positions, positions
from mage_envs.games.openspiel.texts import CHANCE
from mage_envs.games.openspiel.tree import Fall, falls
from mage_envs.randomness import SEED_BITS, Stream, fold

LONGEST = 200
"""The most answers that a hand waits for where nothing else is said."""

Chance = Callable[[Position, int], int]
"""(position of a chance event, number of chance events before it) to the outcome."""


@dataclass(frozen=True)
class Drawn:
    """Chance in play: each event has its own uniform number, by a seed and the event's number in the hand."""

    seed: int

    def __call__(self, position: Position, number: int) -> int:
        return position.drawn(Stream(fold(self.seed, number)).random())


@dataclass(frozen=True)
class Fallen:
    """Chance that has fallen before the hand."""

    outcomes: Fall

    def __call__(self, position: Position, number: int) -> int:
        return self.outcomes[number]


class SpielState(State):
    """A decision or an end of a hand, with all its chance to come: a value."""

    player: int | None
    legal_actions: tuple[str, ...]
    returns: tuple[float, ...]

    def __init__(self, game: str, position: Position, chance: Chance, number: int = 0) -> None:
        """Lets chance happen from `position` on; `number` events of it were before."""
        source = positions(game)
        while position.player == CHANCE:
            outcome = chance(position, number)
            if not source.texts.hidden:
                self.happened = (*self.happened, position.text_of(source.texts, outcome))
            position = source.after(position, outcome)
            number += 1
        self.game = game
        """OpenSpiel's game string."""
        self.position = position
        self.player = position.player
        self.legal_actions = position.legal
        self.returns = position.returns
        self._chance = chance
        self._number = number

    @property
    def _source(self) -> Positions:
        return positions(self.game)

    def observation(self, seat: int) -> str:
        return self.position.observe(self._source.texts, seat)

    def information_state(self, seat: int) -> str:
        return self.position.key(self._source.texts, seat)

    def after(self, action: str) -> SpielState:
        found = self.position.action_of(action)
        if found is None:
            raise IllegalAction(action, self.legal_actions)
        return SpielState(self.game, self._source.after(self.position, found), self._chance, self._number)

    def canonical(self, action: str) -> str:
        found = self.position.action_of(action)
        return action if found is None else self.position.text_of(self._source.texts, found)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        history = tuple(self.position.state.history())
        return _restored, (self.game, history, self._chance, self._number, self.happened)


def _restored(
    game: str, history: tuple[int, ...], chance: Chance, number: int, happened: tuple[str, ...]
) -> SpielState:
    """The state after these actions of players and chance."""
    source = positions(game)
    position = source.root
    for action in history:
        position = source.after(position, action)
    state = SpielState(game, position, chance, number)
    state.happened = happened
    return state


@lru_cache(maxsize=8)
def _first_states(game: str) -> Sequence[tuple[float, SpielState]]:
    root = positions(game).root
    return tuple((odds, SpielState(game, root, Fallen(fall))) for odds, fall in falls(game))


class OpenSpiel(Game):
    """The game that `game` names, as in `"hex(board_size=4)"`: `pyspiel.load_game` takes the same string.

    Moves that OpenSpiel has all players make at once are asked for one after the other, hidden from each other. Raises
    UnsuitableGame for a game that cannot be played so, ValueError for one that OpenSpiel does not know.
    """

    facts = GameFacts(name="OpenSpiel", rules="A game of OpenSpiel.")
    """Of the class; an instance has its game's."""

    def __init__(self, game: str = "nim(pile_sizes=1;2;3)") -> None:
        self.spiel_game = game
        """The game string."""
        source, own = positions(game), type(self).facts
        spiel, texts = source.game, source.texts
        length = min(max(spiel.max_game_length(), 6), LONGEST)
        self.facts = replace(
            own,
            rules=texts.rules(),
            players=spiel.num_players(),
            unit=texts.unit,
            min_return=spiel.min_utility(),
            max_return=spiel.max_utility(),
            perfect_information=not texts.hidden,
            max_turns=length if own is OpenSpiel.facts else own.max_turns,
            actions=texts.actions(),
            words=texts.words(),
        )

    def initial_state(self, rng: np.random.Generator) -> SpielState:
        """One number from `rng`, the seed of the hand's chance."""
        return SpielState(self.spiel_game, positions(self.spiel_game).root, Drawn(int(rng.integers(2**SEED_BITS))))

    def initial_states(self) -> Sequence[tuple[float, SpielState]]:
        """One state per way in which all chance of a hand may fall; raises `TooLarge`."""
        return _first_states(self.spiel_game)
