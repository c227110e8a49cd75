"""Opponents of Influence: people whose attitudes are named by one letter each, in the order of their names."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from functools import partial
from typing import cast

from mage_envs.core import Game, Policy, Turn
from mage_envs.games.influence import NO_ONE, Influence, Town, answer, message, names_in
from mage_envs.opponents.learning.policy import LearningPolicy
from mage_envs.opponents.pools import register_pool
from mage_envs.opponents.registry import register_opponent
from mage_envs.opponents.splits import Split, register_split
from mage_envs.opponents.tabular import RulePolicy

ATTITUDES: Mapping[str, str] = {
    "o": "open: joins when it gets a message",
    "c": "copies friends: joins at once when a friend joins, and by a message if a friend has joined",
    "t": "tires of messages: joins when it gets a message, unless it got one in the episode before",
    "s": "stubborn: never joins",
}
"""Letter of an attitude to its meaning."""


def joins(attitude: Mapping[str, str], name: str, joined: Collection[str], town: Town, tired: Collection[str]) -> bool:
    """Return True if a person joins when it gets a message.

    Args:
        attitude: Letter of each person by name.
        name: The person.
        joined: People that have joined.
        town: The network.
        tired: People that got a message in the episode before.
    """
    letter = attitude[name]
    if letter == "c":
        return any(friend in joined for friend in town.friends_of(name))
    return letter == "o" or (letter == "t" and name not in tired)


def answer_for(attitude: Mapping[str, str], tired: Collection[str], turn: Turn) -> Mapping[str, float]:
    """Return the answer of the people to a message; in the first seat, a message to a person that will join."""
    role, circle, *moves = turn.information_state.split()
    joined = {name for action in moves[1::2] for name in names_in(action)}
    town = Town(len(attitude), 1, int(circle.removeprefix("circle-")))
    if role == "writer":
        people = [name for name in attitude if message(name) in turn.legal_actions]
        willing = [name for name in people if joins(attitude, name, joined, town, tired)]
        return {message((willing or people)[0]): 1.0}
    [name] = names_in(moves[-1])
    if not joins(attitude, name, joined, town, tired):
        return {NO_ONE: 1.0}
    copiers = [friend for friend in town.friends_of(name) if friend not in joined and attitude[friend] == "c"]
    return {answer((name, *copiers)): 1.0}


class TiringPeople(LearningPolicy):
    """People with some that tire of messages: they remember which of them got one in the episode before."""

    start: Hashable = ()

    def __init__(self, attitude: Mapping[str, str]) -> None:
        self._attitude = attitude

    def distribution_given(self, turn: Turn, memory: Hashable) -> Mapping[str, float]:
        return answer_for(self._attitude, cast("tuple[str, ...]", memory), turn)

    def step(self, memory: Hashable, turn: Turn) -> Hashable:
        moves = turn.information_state.split()[2:]
        written = {name for action in moves[::2] for name in names_in(action)}
        return tuple(name for name, letter in self._attitude.items() if letter == "t" and name in written)


@register_opponent("influence/town", games=("Influence",), needs_game=True, kind="learning")
def town(game: Game, attitudes: str = "tccss") -> Policy:
    """Return people with these attitudes, one letter each: open, copies friends, tires of messages, stubborn.

    In `influence/town:tccss` Ana tires, Ben and Cleo copy their friends, Dan and Eva never join.

    Raises:
        ValueError: If the letters do not fit.
    """
    if not isinstance(game, Influence):
        raise TypeError(f"Opponents of Influence expect Influence, got {game.spec.name}.")
    names = game.names
    if len(attitudes) != len(names) or not set(attitudes) <= ATTITUDES.keys():
        raise ValueError(
            f"Opponent 'influence/town': attitudes must be {len(names)} of the letters {', '.join(ATTITUDES)}, got "
            f"{attitudes!r}."
        )
    attitude = dict(zip(names, attitudes, strict=True))
    return TiringPeople(attitude) if "t" in attitudes else RulePolicy(partial(answer_for, attitude, ()))


_OPEN = ("occcs", "soccc", "csocc", "ccsoc", "cccso")
_TIRING = ("ctccs", "ccsct", "sctcc")
register_pool("influence/towns", {f"influence/town:{attitudes}": 1 for attitudes in (*_OPEN, *_TIRING)})
register_split(
    "influence",
    Split(
        game="Influence",
        seed=42,
        train="pool:influence/towns",
        train_about="five towns with an open person, three with one who tires of messages",
        heldout={f"influence/town:{attitudes}": 1.0 for attitudes in ("ocscc", "ccocs", "tcscc")},
        heldout_about="other places of the same attitudes",
    ),
)
