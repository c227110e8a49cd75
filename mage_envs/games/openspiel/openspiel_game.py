"""Any game of OpenSpiel as a text game.

Rules: those of the OpenSpiel game. `VOICES` has the games with texts of their own, `wordings/` those whose rules are
data. The rules of any other game are only its name and its settings.
Actions: OpenSpiel's texts as they are listed. The case of letters is free if the action stays unambiguous.
Observation: the position as the player may see it, the player's seat, and the player to move or the result.
Returns: OpenSpiel's returns.
Versions: v0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, Self

import numpy as np

from mage_envs.core import Game, GameSpec, IllegalAction, NotEnumerable, State, Turn
from mage_envs.games.openspiel.generic_texts import CHANCE
from mage_envs.games.openspiel.position import Position, Positions, positions
from mage_envs.random.streams import SEED_BITS, Stream, fold
from mage_envs.spiel.form import SpielForm
from mage_envs.spiel.loading import load
from mage_envs.spiel.size import SMALL, is_small

ChanceOutcomes = tuple[int, ...]
"""Outcomes of the chance events of a hand, in order."""
OutcomeProbabilities = tuple[tuple[int, float], ...]
"""Outcomes of one chance event with their probabilities."""


class TooLarge(NotEnumerable):
    """A game whose tree cannot be enumerated. The message states the reason."""


def chance_outcomes(game: str) -> Sequence[tuple[float, ChanceOutcomes]]:
    """Return every combination of chance outcomes with its probability. The result is cached (Leduc: 0.1 s).

    Raises TooLarge if the histories of the game, or its positions with chance at the root, exceed `SMALL`. An
    estimate rejects a large game at once.
    """
    result = _outcomes_or_reason(game)
    if isinstance(result, str):
        raise TooLarge(result)
    return result


# `lru_cache` does not store exceptions, so the reason is returned as a string and `chance_outcomes` raises it.
@lru_cache(maxsize=64)
def _outcomes_or_reason(game: str) -> Sequence[tuple[float, ChanceOutcomes]] | str:
    too_many = f"{game} has more than {SMALL:,} histories: no exact values, and no solver, for it."
    if not is_small(game):
        return too_many
    count = 0
    events: dict[ChanceOutcomes, OutcomeProbabilities] = {}
    # Number of positions without a chance event, by the chance outcomes so far.
    nodes: dict[ChanceOutcomes, int] = {}
    stack: list[tuple[Any, ChanceOutcomes]] = [(load(game).new_initial_state(), ())]
    while stack:
        state, outcomes = stack.pop()
        count += 1
        if count > SMALL:
            return too_many
        if not state.is_chance_node():
            nodes[outcomes] = nodes.get(outcomes, 0) + 1
            stack.extend((state.child(action), outcomes) for action in state.legal_actions())
            continue
        # The same earlier outcomes must lead to the same event, for all actions of the players.
        probabilities = tuple(state.chance_outcomes())
        if events.setdefault(outcomes, probabilities) != probabilities:
            return f"In {game} the odds of chance depend on the players' actions: no exact values for it."
        stack.extend((state.child(outcome), (*outcomes, outcome)) for outcome, chance in probabilities if chance > 0)
    # With chance at the root, each combination of outcomes repeats the positions of all its prefixes.
    combinations = tuple(_enumerate_outcomes(events, ()))
    positions = sum(
        nodes.get(combination[:length], 0) for _, combination in combinations for length in range(len(combination) + 1)
    )
    if positions > SMALL:
        return f"{game} has more than {SMALL:,} positions when all chance is drawn first: no exact values."
    return combinations


def _enumerate_outcomes(
    events: dict[ChanceOutcomes, OutcomeProbabilities], prefix: ChanceOutcomes
) -> Iterator[tuple[float, ChanceOutcomes]]:
    if prefix not in events:
        yield 1.0, prefix
        return
    for outcome, chance in events[prefix]:
        if chance > 0:
            for probability, combination in _enumerate_outcomes(events, (*prefix, outcome)):
                yield chance * probability, combination


LONGEST = 200
"""Upper bound of `max_turns` for a game that is made by its string."""

Chance = Callable[[Position, int], int]
"""Function of (position of a chance event, number of earlier chance events) that returns the outcome."""


@dataclass(frozen=True)
class SeededChance:
    """Chance during play. The seed and the event's index in the hand determine each outcome."""

    seed: int

    def __call__(self, position: Position, number: int) -> int:
        # A stream per event, so that an outcome does not depend on the draws for earlier events.
        return position.sample_outcome(Stream(fold(self.seed, number)).random())


@dataclass(frozen=True)
class FixedChance:
    """Chance whose outcomes are fixed before the hand."""

    outcomes: ChanceOutcomes

    def __call__(self, position: Position, number: int) -> int:
        return self.outcomes[number]


class SpielState(State):
    """A decision or the end of a hand, with its future chance; an immutable value."""

    player: int | None
    legal_actions: tuple[str, ...]
    returns: tuple[float, ...]

    def __init__(self, game: str, position: Position, chance: Chance, number: int = 0) -> None:
        """Apply chance events until a player decides or the hand ends.

        Args:
            game: Game string of OpenSpiel.
            chance: Outcomes of the chance events.
            number: Number of chance events before `position`.
        """
        source = positions(game)
        while position.player == CHANCE:
            outcome = chance(position, number)
            # With hidden information a chance event may be private, so `chance_events` stays empty.
            if not source.texts.hidden:
                self.chance_events = (*self.chance_events, position.text_of(source.texts, outcome))
            position = source.after(position, outcome)
            number += 1
        self.game = game
        """Game string of OpenSpiel."""
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
        move = self.position.action_of(action)
        if move is None:
            raise IllegalAction(action, self.legal_actions)
        return SpielState(self.game, self._source.after(self.position, move), self._chance, self._number)

    def canonical(self, action: str) -> str:
        move = self.position.action_of(action)
        return action if move is None else self.position.text_of(self._source.texts, move)

    # A state never changes, so a copy is the state itself.

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # The history replaces the pyspiel state, so that an unpickled state uses the shared positions of its process.
        history = tuple(self.position.state.history())
        return _restore, (self.game, history, self._chance, self._number, self.chance_events)


def _restore(game: str, history: tuple[int, ...], chance: Chance, number: int, happened: tuple[str, ...]) -> SpielState:
    """Return the state after these actions of players and chance."""
    source = positions(game)
    position = source.root
    for action in history:
        position = source.after(position, action)
    state = SpielState(game, position, chance, number)
    # The constructor records only chance events that it applies itself, and the history contains these already.
    state.chance_events = happened
    return state


# `Game.initial_states` promises the same objects at each call.
@lru_cache(maxsize=8)
def _first_states(game: str) -> Sequence[tuple[float, SpielState]]:
    root = positions(game).root
    return tuple((chance, SpielState(game, root, FixedChance(outcomes))) for chance, outcomes in chance_outcomes(game))


class OpenSpiel(Game):
    """Any game of OpenSpiel by its string, such as `"hex(board_size=4)"`.

    Simultaneous moves are made one after the other, hidden from the other players.

    Success: the game's return is positive.

    Args:
        game: Game string, in the form that `pyspiel.load_game` accepts.

    Raises:
        UnsuitableGame: If the game cannot be played as a turn-based text game.
        ValueError: If OpenSpiel does not know the game or rejects its parameters.
    """

    spec = GameSpec(name="OpenSpiel", rules="A game of OpenSpiel.")
    """Facts of the class. An instance replaces them with those of its game."""

    def __init__(self, game: str = "nim(pile_sizes=1;2;3)") -> None:
        self.spiel_game = game
        """Game string of OpenSpiel."""
        source, class_spec = positions(game), type(self).spec
        spiel, texts = source.game, source.texts
        length = min(max(spiel.max_game_length(), 6), LONGEST)
        self.spec = replace(
            class_spec,
            rules=texts.introduction(),
            players=spiel.num_players(),
            unit=texts.unit,
            min_return=spiel.min_utility(),
            max_return=spiel.max_utility(),
            perfect_information=not texts.hidden,
            general_sum=not texts.zero_sum,
            # A subclass states its own limit; a game by its string has only OpenSpiel's maximum length.
            max_turns=length if class_spec is OpenSpiel.spec else class_spec.max_turns,
            actions=texts.actions(),
            words=texts.words(),
            neutral=texts.neutral(),
        )

    @property
    def spiel_form(self) -> SpielForm:
        """Return the form for OpenSpiel's searches and solvers."""
        return _form_by_texts(self.spiel_game)

    @property
    def title(self) -> str:
        return self.spiel_game if self.spec.name == OpenSpiel.spec.name else self.spec.name

    def initial_state(self, rng: np.random.Generator) -> SpielState:
        """Return the first state. Draws one number from `rng`, the seed of all chance in the hand."""
        return SpielState(
            self.spiel_game, positions(self.spiel_game).root, SeededChance(int(rng.integers(2**SEED_BITS)))
        )

    def initial_states(self) -> Sequence[tuple[float, SpielState]]:
        """Return (probability, state) for every combination of chance outcomes. Raises `TooLarge`."""
        return _first_states(self.spiel_game)


@lru_cache(maxsize=64)
def _form_by_texts(game: str) -> SpielForm:
    return SpielForm(game, partial(_action_by_text, game), _own_state, partial(_key_by_text, game))


def _action_by_text(game: str, state: Any, text: str) -> int:
    """Return the OpenSpiel action that the game's own texts name so."""
    player, actions = state.current_player(), state.legal_actions()
    return int(actions[positions(game).texts.unique(state, player, actions).index(text)])


def _own_state(turn: Turn) -> str:
    return turn.information_state


def _key_by_text(game: str, state: Any, player: int) -> str:
    return positions(game).texts.key(state, player)
