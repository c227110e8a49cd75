"""Small repeated games with opponents, made for tests: the learner acts in seat 0, the opponent in seat 1."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from mage_envs.core import Game, GameSpec, IllegalAction, State, Turn
from mage_envs.opponents import OpponentPool

Rounds = tuple[tuple[str, str], ...]
"""(the learner's action, the opponent's) of each round."""
Row = Mapping[str, float]


class Repeated(Game):
    """Some rounds of a stage game; the opponent answers without (`shown=False`) or with knowledge of the action.

    The return is the mean payoff of a round.
    """

    def __init__(self, actions: str, answers: str, pay: Callable[[str, str], float], rounds: int, shown=False) -> None:
        self.actions, self.answers = tuple(actions.split()), tuple(answers.split())
        self.pay, self.rounds, self.shown = pay, rounds, shown
        self.spec = GameSpec(name="Repeated", rules="", min_return=-9.0, max_return=9.0, max_turns=rounds)
        self._first = At(self)

    def initial_state(self, rng: np.random.Generator) -> State:
        return self._first

    def initial_states(self):
        return [(1.0, self._first)]


@dataclass(frozen=True)
class At(State):
    game: Repeated
    past: Rounds = ()
    asked: str = ""

    @property
    def player(self):
        return None if len(self.past) == self.game.rounds else int(bool(self.asked))

    @property
    def legal_actions(self):
        return () if self.player is None else (self.game.actions, self.game.answers)[self.player]

    @property
    def returns(self):
        mean = sum(self.game.pay(*one) for one in self.past) / self.game.rounds if self.player is None else 0.0
        return (mean, -mean)

    def observation(self, seat):
        asked = self.asked if seat == 0 or self.game.shown else ""
        return " ".join(f"{mine}/{other}" for mine, other in self.past) + f" {asked}"

    def after(self, action):
        if action not in self.legal_actions:
            raise IllegalAction(action, self.legal_actions)
        if not self.asked:
            return At(self.game, self.past, action)
        return At(self.game, (*self.past, (self.asked, action)))


class Ruled:
    """Answers by a rule of (the rounds so far, the learner's action where it is shown)."""

    follows_information_state = True

    def __init__(self, rule: Callable[[Rounds, str], Row]) -> None:
        self.rule = rule
        self._rng = np.random.default_rng(0)

    def reset(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def act(self, turn: Turn) -> str:
        row = self.distribution(turn)
        return str(self._rng.choice(list(row), p=list(row.values())))

    def distribution(self, turn: Turn) -> Row:
        past, _, asked = turn.information_state.rpartition(" ")
        rounds = tuple((one.split("/")[0], one.split("/")[1]) for one in past.split())
        return self.rule(rounds, asked)


def pool(*rules: Callable[[Rounds, str], Row]) -> OpponentPool:
    """Equal weights."""
    return OpponentPool([(Ruled(rule), 1.0) for rule in rules])


BEATS = {"rock": "scissors", "scissors": "paper", "paper": "rock"}
BEATEN_BY = {weak: strong for strong, weak in BEATS.items()}


def rps(rounds: int) -> Repeated:
    words = "rock paper scissors"
    return Repeated(words, words, lambda a, b: 0.0 if a == b else 1.0 if BEATS[a] == b else -1.0, rounds)


def biased(most: float) -> OpponentPool:
    """Each of the three choices with probability `most` by one opponent, the others evenly."""
    return pool(*(lambda past, _, c=c: {b: most if b == c else (1 - most) / 2 for b in BEATS} for c in BEATS))


def reactive(sure: float = 0.85) -> OpponentPool:
    """First uniform, then with probability `sure`: the learner's last, what beats it, what beats its own, its own."""

    def made(wanted: Callable[[str, str], str]) -> Callable[[Rounds, str], Row]:
        def rule(past: Rounds, _: str) -> Row:
            if not past:
                return dict.fromkeys(BEATS, 1 / 3)
            return {b: sure if b == wanted(*past[-1]) else (1 - sure) / 2 for b in BEATS}

        return rule

    return pool(
        made(lambda mine, own: mine),
        made(lambda mine, own: BEATEN_BY[mine]),
        made(lambda mine, own: BEATEN_BY[own]),
        made(lambda mine, own: own),
    )


def pennies(rounds: int) -> Repeated:
    return Repeated("heads tails", "heads tails", lambda a, b: 1.0 if a == b else -1.0, rounds)


def coins(*heads: float) -> OpponentPool:
    return pool(*(lambda past, _, p=p: {"heads": p, "tails": 1 - p} for p in heads))


def dilemma(rounds: int) -> Repeated:
    pay = {"CC": 3.0, "CD": 0.0, "DC": 5.0, "DD": 1.0}
    return Repeated("C D", "C D", lambda a, b: pay[a + b], rounds)


def dilemma_pool(noise: float = 0.0) -> OpponentPool:
    """AllC, AllD, tit-for-tat, Grim, Pavlov."""

    def made(wanted: Callable[[Rounds], bool]) -> Callable[[Rounds, str], Row]:
        def rule(past: Rounds, _: str) -> Row:
            chance = 1 - noise if wanted(past) else noise
            return {"C": chance, "D": 1 - chance}

        return rule

    return pool(
        made(lambda past: True),
        made(lambda past: False),
        made(lambda past: not past or past[-1][0] == "C"),
        made(lambda past: all(mine == "C" for mine, _ in past)),
        made(lambda past: not past or past[-1][0] == past[-1][1]),
    )


def treasure(pulls: int = 2) -> Repeated:
    """The safe arm pays .5, one of four arms 1."""
    return Repeated(
        "safe a b c d", "some none", lambda a, b: 0.5 if a == "safe" else float(b == "some"), pulls, shown=True
    )


def treasures() -> OpponentPool:
    return pool(*(lambda past, asked, c=c: {"some" if asked in (c, "safe") else "none": 1.0} for c in "abcd"))


def ultimatum(offers: int) -> Repeated:
    words = " ".join(map(str, range(11)))
    return Repeated(words, "yes no", lambda a, b: (10 - int(a)) / 10 if b == "yes" else 0.0, offers, shown=True)


def reserves(most: int = 8) -> OpponentPool:
    return pool(*(lambda past, asked, r=r: {"yes" if int(asked) >= r else "no": 1.0} for r in range(1, most + 1)))
