"""Encounters: one person in several small games, so that knowing the person helps and knowing the game does not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from mage_envs.core import GameSpec
from mage_envs.drawing import Picture
from mage_envs.game_record import GameRecord
from mage_envs.games.bargaining import Bargaining
from mage_envs.games.inspection import Inspection
from mage_envs.games.prisoners_dilemma import PrisonersDilemma
from mage_envs.games.rock_paper_scissors import RockPaperScissors
from mage_envs.games.table_game import GrownState, Origin, TableGame, TableSeries, TableState
from mage_envs.games.ultimatum import Ultimatum
from mage_envs.settings import PAID_BY_RETURN, GameSettings

CHARACTERS: Mapping[str, str] = {
    "kind": "always cooperates, accepts every offer and offers half of a pie",
    "fair": "cooperates until you defect and then repeats your last choice, accepts half of a pie and offers half",
    "greedy": "always defects, accepts every offer and offers one slice of a pie",
    "proud": "always defects, accepts half of a pie or more and offers 3 slices",
}
"""Name of a person to its habits, as a text that follows `It `."""
SOFT = "soft-"
"""Prefix of a person that makes one move in ten at random."""


class Encounter(NamedTuple):
    """A kind of encounter: a game with two players, and the learner's seat in it."""

    title: str
    make: Callable[[], TableGame]
    seat: int = 0
    name_in_rules: str = ""
    """Name of the game in its own rules, which `title` replaces; empty if they agree."""


ENCOUNTERS: Mapping[str, Encounter] = {
    "dilemma": Encounter("Prisoner's dilemma", lambda: PrisonersDilemma(rounds=3)),
    "stag": Encounter(
        "Stag hunt", lambda: PrisonersDilemma(rounds=1, payoffs=(4, 0, 2, 2)), name_in_rules="Prisoner's dilemma"
    ),
    "chicken": Encounter(
        "Chicken", lambda: PrisonersDilemma(rounds=1, payoffs=(2, 1, 4, 0)), name_in_rules="Prisoner's dilemma"
    ),
    "offer": Encounter("Ultimatum game", Ultimatum),
    "answer": Encounter("Ultimatum game", Ultimatum, seat=1),
    "bargain": Encounter("Bargaining", lambda: Bargaining(offers=2)),
    "inspect": Encounter("Inspection game", lambda: Inspection(rounds=2)),
    "throw": Encounter("Rock, paper, scissors", lambda: RockPaperScissors(rounds=3)),
}
"""Kind of encounter, which is the first word of its information states, to its game."""
GAMES = ("dilemma", "stag", "chicken", "offer", "answer")
"""Encounters by default."""


@cache
def game_of(kind: str) -> TableGame:
    """Return the shared game of a kind of encounter."""
    return ENCOUNTERS[kind].make()


def seat_in(kind: str, seat: int) -> int:
    """Return the seat in the kind's own game of a player of Encounters, or the reverse."""
    return 1 - seat if ENCOUNTERS[kind].seat else seat


class EncounterState(GrownState):
    """A point of an encounter: a state of its game, whose seats may be exchanged, with returns from 0 to 1."""

    def __init__(self, kind: str, game_state: TableState, origin: Origin) -> None:
        self.kind, self.own = kind, game_state
        self.spellings = game_state.spellings if isinstance(game_state, GrownState) else {}
        spec, over = game_of(kind).spec, game_state.player is None
        low, high = spec.min_return, spec.max_return
        paid = [(game_state.returns[seat_in(kind, seat)] - low) / (high - low) if over else 0.0 for seat in (0, 1)]
        # A word of the key must not be empty, so a key without own words is the kind alone.
        keys = [f"{kind} {game_state.information_state(seat_in(kind, seat))}".strip() for seat in (0, 1)]
        super().__init__(
            None if game_state.player is None else seat_in(kind, game_state.player),
            (paid[0], paid[1]),
            keys=(keys[0], keys[1]),
            legal_actions=game_state.legal_actions,
            origin=origin,
        )

    def follower(self, action: str) -> EncounterState:
        return EncounterState(self.kind, self.own.after(action), self.origin.then(action))

    def won(self, seat: int) -> bool:
        # Returns are quotients, so a half can be a rounding error below .5.
        return self.returns[seat] >= 0.5 - 1e-9

    def tell(self, seat: int) -> str:
        encounter = ENCOUNTERS[self.kind]
        game_seat = seat_in(self.kind, seat)
        # A player reads the rules before its first move. The first player of the game makes that one at the start.
        if len(self.origin.moves) <= game_seat:
            rules = game_of(self.kind).spec.rules
            rules = rules.replace(encounter.name_in_rules, encounter.title) if encounter.name_in_rules else rules
            lines = [f"{rules} You are the {('first', 'second')[game_seat]} player.", self.own.observation(game_seat)]
        else:
            lines = [f"{encounter.title}.", self.own.observation(game_seat)]
        if self.player is None:
            lines.append(f"Your score in this game is {self.returns[seat]:.2f} of 1.")
        return "\n\n".join(lines)

    def picture(self, seat: int) -> Picture:
        return self.own.picture(seat_in(self.kind, seat))


@cache
def first_state(kind: str, number: int) -> EncounterState:
    """Return the shared first state of a kind of encounter. `number` is the index of its own first state."""
    _, game_state = game_of(kind).initial_states()[number]
    return EncounterState(kind, game_state, Origin(first_state, (kind, number)))


def _neutral(specs: Sequence[GameSpec]) -> dict[str, str]:
    """Return the neutral words of all encounters, whose titles name games."""
    titles = {encounter.title: "Game" for encounter in ENCOUNTERS.values()}
    return {phrase: word for spec in specs for phrase, word in spec.neutral.items()} | titles


def _facts(games: Sequence[str]) -> GameSpec:
    specs = [game_of(kind).spec for kind in games]
    return GameSpec(
        name="Encounters",
        rules=(
            "Encounters. You play one small game with another player. Its rules are below. Your score is the share of "
            "its best payoff, from 0 to 1; how much the other player gets does not matter."
        ),
        unit="share of the best payoff",
        min_return=0.0,
        max_return=1.0,
        max_turns=max(spec.max_turns for spec in specs),
        actions=tuple(dict.fromkeys(action for spec in specs for action in spec.actions or ())),
        neutral=_neutral(specs),
        series=True,
        stays="The other player is the same person throughout. Every episode is another game.",
    )


class Encounters(TableSeries):
    """One person in several small games. Every episode is another game, and only the person stays the same.

    Rules: an episode is one hand of one of these games: a prisoner's dilemma of 3 rounds, a stag hunt (4 points for
    both, 0 alone, 2 for whoever stays away), chicken (2 for both, 1 for yielding alone, 4 for the other, 0 for a
    crash), an ultimatum offer, and the answer to one. No game occurs twice before all have occurred. The same person
    plays the second seat of all of them.

    Actions: those of the game.

    Observation: the rules of the game and its own observation.

    Returns: the learner's payoff in the game, scaled to 0 for its worst and 1 for its best payoff.

    Success: at least half of the scale. It has no headroom; use returns.

    Versions: v0.

    Args:
        games: Kinds of encounters (default: dilemma, stag, chicken, offer, answer). Further ones are bargain, inspect
            and throw.

    Raises:
        ValueError: If a kind is unknown or repeated.
    """

    spec = _facts(GAMES)

    def __init__(self, games: Sequence[str] = GAMES) -> None:
        if not games or len(set(games)) < len(games) or not set(games) <= ENCOUNTERS.keys():
            raise ValueError(f"games={list(games)} must be different kinds of: {', '.join(ENCOUNTERS)}.")
        self.spec = _facts(games)
        super().__init__(
            {
                kind: [
                    (chance, first_state(kind, number))
                    for number, (chance, _) in enumerate(game_of(kind).initial_states())
                ]
                for kind in games
            }
        )

    def describe_opponent(self, name: str) -> str:
        person = name.partition(":")[2]
        habits = CHARACTERS.get(person.removeprefix(SOFT))
        if habits is None:
            raise ValueError(f"Opponent {name!r} is no person of Encounters; choose one of: {', '.join(CHARACTERS)}.")
        often = " In one move of ten it does anything else." if person.startswith(SOFT) else ""
        return f"The other player is {person.removeprefix(SOFT)}. It {habits}.{often}"


SETTINGS = GameSettings(
    opponent="pool:encounters/all",
    seat="first",
    rewards=PAID_BY_RETURN,
    references={
        "floor: random": "scripted:random",
        "blind": "policy:blind:encounters/all",
        "with memory": "policy:myopic:encounters/all,3",
        "known": "policy:known:encounters/all",
        "wrong memory": "policy:wrong:encounters/all",
    },
)

RECORD = GameRecord(
    name="Encounters",
    entry_point=f"{__name__}:Encounters",
    settings=SETTINGS,
    opponents={"encounters": "mage_envs.opponents.games.encounters"},
    presets={
        "encounters": (
            {"groups_per_rollout": 8, "max_completion_length": 1024, "opponents": "pool:encounters/all"},
            {},
        )
    },
)
