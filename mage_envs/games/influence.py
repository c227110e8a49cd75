"""Influence: messages to a small network of people with hidden attitudes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import combinations
from typing import NamedTuple

from mage_envs.core import GameSpec
from mage_envs.game_record import GameRecord
from mage_envs.games.table_game import GrownState, Origin, TableGame
from mage_envs.loading.options import check_choice, check_positive
from mage_envs.settings import PAID_BY_RETURN, GameSettings

PEOPLE = ("Ana", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gus")
SIZES = (3, 5, 7)
"""Possible numbers of people: primes, so that every network is one circle."""
NO_ONE = "no one joins"


class Town(NamedTuple):
    """Options of a game, and the network of a hand."""

    people: int
    rounds: int
    step: int = 1
    """Each person's friends are those so many places before and after it in the circle."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the people."""
        return PEOPLE[: self.people]

    def friends_of(self, name: str) -> tuple[str, ...]:
        """Return the friends of a person, in the order of `names`."""
        place = self.names.index(name)
        friends = {self.names[(place + step) % self.people] for step in (self.step, -self.step)}
        return tuple(friend for friend in self.names if friend in friends)


def message(name: str) -> str:
    """Return the action that writes to a person."""
    return f"write to {name}"


def answer(names: Sequence[str]) -> str:
    """Return the action in which these people join."""
    return f"{' and '.join(names)} join{'s' * (len(names) == 1)}" if names else NO_ONE


def names_in(action: str) -> tuple[str, ...]:
    """Return the people in an action: the receiver of a message, or those that join. Hyphens may join the words."""
    return tuple(word for word in action.replace("-", " ").split() if word in PEOPLE)


class InfluenceState(GrownState):
    """A point of a hand. An information state is the network and all actions: `circle-1 write-to-Ana Ana-joins`."""

    def __init__(self, town: Town, moves: tuple[str, ...], origin: Origin) -> None:
        self.town, self.said = town, moves
        # Answers have odd indices.
        self.joined = tuple(name for action in moves[1::2] for name in names_in(action))
        """People that have joined, in the order in which they did."""
        waiting = tuple(name for name in town.names if name not in self.joined)
        answered = len(moves) % 2 == 0
        over = answered and (len(moves) == 2 * town.rounds or not waiting)
        legal: tuple[str, ...] = ()
        if not over:
            legal = tuple(message(name) for name in waiting) if answered else self._answers(names_in(moves[-1])[0])
        share = len(self.joined) / town.people
        key = " ".join([f"circle-{town.step}", *(action.replace(" ", "-") for action in moves)])
        player = int(not answered)
        super().__init__(
            None if over else player,
            (share, 1 - share) if over else (0.0, 0.0),
            keys=(f"writer {key}", f"town {key}"),
            legal_actions=legal,
            origin=origin,
        )

    def _answers(self, name: str) -> tuple[str, ...]:
        """Return the possible answers to a message: the person joins with some of its friends, or no one joins."""
        friends = [friend for friend in self.town.friends_of(name) if friend not in self.joined]
        followers = [some for count in range(len(friends) + 1) for some in combinations(friends, count)]
        return (NO_ONE, *(answer((name, *some)) for some in followers))

    def follower(self, action: str) -> InfluenceState:
        return InfluenceState(self.town, (*self.said, action), self.origin.then(action))

    def won(self, seat: int) -> bool:
        # The sign of a return does not decide here, because no return is negative.
        return self.returns[seat] > 0.5

    def tell(self, seat: int) -> str:
        names = self.town.names
        pairs = [f"{name} and {other}" for name, other in combinations(names, 2) if other in self.town.friends_of(name)]
        lines = [f"Friends: {', '.join(pairs)}."]
        writes = ("the first player writes", "you write")[seat == 0]
        for number, (written, answered) in enumerate(zip(self.said[::2], self.said[1::2], strict=False), start=1):
            lines.append(f"Round {number}: {writes} to {names_in(written)[0]}: {answered}.")
        if self.player is None:
            lines.append(f"The hand is over: {len(self.joined)} of {len(names)} people joined.")
            return "\n".join(lines)
        start = f"Round {len(self.said) // 2 + 1} of {self.town.rounds}: "
        if self.player == 0:
            question = "Who gets your message?" if seat == 0 else "The first player is yet to write."
        else:
            name = names_in(self.said[-1])[0]
            question = f"{writes} to {name}. {('The people are yet to answer.', 'Who joins?')[seat]}"
        return "\n".join([*lines, start + question])


@cache
def first_state(town: Town) -> InfluenceState:
    """Return the shared first state of hands with this network."""
    return InfluenceState(town, (), Origin(first_state, (town,)))


NEUTRAL = {
    "Influence": "Game",
    "message": "mark",
    "messages": "marks",
    "write to": "mark",
    "writes to": "marks",
    "people": "items",
    "person": "item",
    "friend": "neighbour",
    "friends": "neighbours",
    "joins": "lights up",
    "join": "light up",
    "joined": "lit up",
    **{name: f"item {number}" for number, name in enumerate(PEOPLE, start=1)},
}
"""Words for the style `neutral`."""


def _all_answers(people: int) -> tuple[str, ...]:
    """Return every answer that occurs in some network."""
    answers = dict.fromkeys([NO_ONE])
    for step in range(1, people // 2 + 1):
        town = Town(people, 1, step)
        for action in first_state(town).legal_actions:
            answers |= dict.fromkeys(first_state(town).after(action).legal_actions)
    return tuple(answers)


def _facts(people: int, rounds: int) -> GameSpec:
    return GameSpec(
        name="Influence",
        rules=(
            f"Influence. {people} people are to be won for a plan: {', '.join(PEOPLE[:people])}. Each has two friends, "
            f"who may change from episode to episode. In each of {rounds} rounds the first player writes a message to "
            "one person who has not joined. That person joins or does not; if it does, its friends may join, too. What "
            "moves a person is hidden and stays the same: some join when they get a message, some only with a friend, "
            "some never, and some tire of messages. The second player answers for all of them. As the first player, "
            "get as many people to join as you can; as the second player, as few."
        ),
        unit="share of the people",
        general_sum=True,
        min_return=0.0,
        max_return=1.0,
        # A hand needs one action per round. An illegal action also uses a turn, so the limit is twice that.
        max_turns=2 * rounds,
        actions=(*(message(name) for name in PEOPLE[:people]), *_all_answers(people)),
        neutral=NEUTRAL,
    )


class Influence(TableGame):
    """Social influence: the learner writes to five people with hidden attitudes, whose friends change.

    Rules: in each of 3 rounds the first player writes to one of the people that have not joined. The second player
    answers for the people: the person joins or not, and if it does, any of its friends may join at once. Each person
    has two friends. Chance draws for each hand if these are its neighbours in the circle Ana, Ben, Cleo, Dan, Eva, or
    the next but one. Both players see the network and all answers. Only the attitudes are hidden: the opponents of the
    pools answer by the attitude of each person.

    Actions: `write to Ana`, and for the second player `Ana joins`, `Ana and Ben join`, `no one joins`.

    Observation: the pairs of friends, and the finished rounds. The learner writes (first seat) by default.

    Returns: the share of the people that joined; for the second player, of the others.

    Success: more than half of the people; for the second player, more than half of them have not joined.

    Versions: v0.

    Args:
        rounds: Rounds in a hand, with one message each (default: 3, at most 6).
        people: Number of people (default: 5), 3, 5 or 7.
        changes: True if the network is drawn for each hand, False if everybody's friends are the neighbours (default:
            true).

    Raises:
        ValueError: If an option is out of range.
    """

    spec = _facts(people=5, rounds=3)

    def __init__(self, rounds: int = 3, people: int = 5, changes: bool = True) -> None:
        check_positive("rounds", rounds, 6)
        check_choice("people", people, SIZES)
        check_choice("changes", changes, (True, False))
        self.spec = _facts(people, rounds)
        self.names = PEOPLE[:people]
        steps = range(1, people // 2 + 1) if changes else (1,)
        super().__init__([(1 / len(steps), first_state(Town(people, rounds, step))) for step in steps])


SETTINGS = GameSettings(opponent="pool:influence/towns", seat="first", rewards=PAID_BY_RETURN)

RECORD = GameRecord(
    name="Influence",
    entry_point=f"{__name__}:Influence",
    settings=SETTINGS,
    opponents={"influence": "mage_envs.opponents.learning.influence"},
)
