"""Persons of Encounters: each plays every kind of encounter with a shipped opponent of its game."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from mage_envs.core import Game, Policy, Turn
from mage_envs.games.encounters import CHARACTERS, ENCOUNTERS, SOFT, game_of, seat_in
from mage_envs.opponents.pools import register_pool
from mage_envs.opponents.registry import make_opponent
from mage_envs.opponents.related import register_facts
from mage_envs.opponents.tabular import RulePolicy

RANDOM = 0.1
"""Probability of a random move of a soft person."""
_COOPERATES = dict.fromkeys(("dilemma", "stag", "chicken"), "pd/all-c")
_REPEATS = dict.fromkeys(("dilemma", "stag", "chicken"), "pd/tit-for-tat")
_DEFECTS = dict.fromkeys(("dilemma", "stag", "chicken"), "pd/all-d")
HABITS: Mapping[str, Mapping[str, str]] = {
    "kind": {
        **_COOPERATES,
        "offer": "ultimatum/reserve:1",
        "answer": "ultimatum/reserve:5",
        "bargain": "bargain/conceder",
        "inspect": "inspect/repeat:garden",
        "throw": "rps/copy",
    },
    "fair": {
        **_REPEATS,
        "offer": "ultimatum/reserve:5",
        "answer": "ultimatum/reserve:5",
        "bargain": "bargain/fair",
        "inspect": "inspect/random",
        "throw": "rps/stay",
    },
    "greedy": {
        **_DEFECTS,
        "offer": "ultimatum/reserve:1",
        "answer": "ultimatum/reserve:1",
        "bargain": "bargain/greedy",
        "inspect": "inspect/greedy",
        "throw": "rps/beat",
    },
    "proud": {
        **_DEFECTS,
        "offer": "ultimatum/reserve:5",
        "answer": "ultimatum/reserve:3",
        "bargain": "bargain/firm",
        "inspect": "inspect/avoid-last",
        "throw": "rps/cycle",
    },
}
"""Person to the opponent that it is in each kind of encounter."""


def person_distribution(players: Mapping[str, Policy], random: float, turn: Turn) -> Mapping[str, float]:
    """Return the move of a person.

    Args:
        players: Kind of encounter to the policy in its game.
        random: Probability of a random move.
    """
    kind, _, game_state = turn.information_state.partition(" ")
    row = players[kind].distribution(turn._replace(information_state=game_state, player=seat_in(kind, turn.player)))
    if not random:
        return row
    even = random / len(turn.legal_actions)
    return {action: (1 - random) * row.get(action, 0.0) + even for action in turn.legal_actions}


def make_person(game: Game, name: str) -> RulePolicy:
    """Return a person: `encounters:kind`, or `encounters:soft-kind`, which makes one move in ten at random."""
    habits = HABITS.get(name.removeprefix(SOFT))
    if habits is None:
        raise ValueError(
            f"Person {name!r} is unknown; choose one of: {', '.join(HABITS)}, or soft-{next(iter(HABITS))}."
        )
    players = {kind: make_opponent(habits[kind], game_of(kind)) for kind in ENCOUNTERS}
    return RulePolicy(partial(person_distribution, players, RANDOM if name.startswith(SOFT) else 0.0))


register_facts(
    "Encounters",
    "encounters",
    dict.fromkeys(CHARACTERS, 1.0),
    policy=make_person,
    about="one person in three of five small games",
)
register_pool("encounters/soft", {f"encounters:{SOFT}{name}": 1.0 for name in CHARACTERS})
