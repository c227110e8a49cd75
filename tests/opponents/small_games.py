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
    """Some rounds of a stage game. The opponent sees the action before its answer if `show_question`.

    The return is the mean payoff of a round.
    """

    def __init__(
        self, actions: str, answers: str, pay: Callable[[str, str], float], rounds: int, show_question=False
    ) -> None:
        self.actions, self.answers = tuple(actions.split()), tuple(answers.split())
        self.pay, self.rounds, self.show_question = pay, rounds, show_question
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
    question: str = ""

    @property
    def player(self):
        return None if len(self.past) == self.game.rounds else int(bool(self.question))

    @property
    def legal_actions(self):
        return () if self.player is None else (self.game.actions, self.game.answers)[self.player]

    @property
    def returns(self):
        mean = sum(self.game.pay(*moves) for moves in self.past) / self.game.rounds if self.player is None else 0.0
        return (mean, -mean)

    def observation(self, seat):
        question = self.question if seat == 0 or self.game.show_question else ""
        return " ".join(f"{mine}/{answer}" for mine, answer in self.past) + f" {question}"

    def after(self, action):
        if action not in self.legal_actions:
            raise IllegalAction(action, self.legal_actions)
        if not self.question:
            return At(self.game, self.past, action)
        return At(self.game, (*self.past, (self.question, action)))


class Ruled:
    """Answers by a rule of (the rounds so far, the learner's action if it is public)."""

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
        past, _, question = turn.information_state.rpartition(" ")
        rounds = tuple((pair.split("/")[0], pair.split("/")[1]) for pair in past.split())
        return self.rule(rounds, question)


def pool(*rules: Callable[[Rounds, str], Row]) -> OpponentPool:
    """Equal weights."""
    return OpponentPool([(Ruled(rule), 1.0) for rule in rules])


BEATS = {"rock": "scissors", "scissors": "paper", "paper": "rock"}
BEATEN_BY = {weak: strong for strong, weak in BEATS.items()}


def rps(rounds: int) -> Repeated:
    words = "rock paper scissors"
    return Repeated(words, words, lambda a, b: 0.0 if a == b else 1.0 if BEATS[a] == b else -1.0, rounds)


def make_biased_pool(probability: float) -> OpponentPool:
    """Return a pool in which one opponent per choice plays it with `probability` and the others evenly."""
    return pool(
        *(lambda past, _, c=c: {b: probability if b == c else (1 - probability) / 2 for b in BEATS} for c in BEATS)
    )


def reactive(sure: float = 0.85) -> OpponentPool:
    """First uniform, then with probability `sure`: the learner's last, what beats it, what beats its own, its own."""

    def make_rule(choose: Callable[[str, str], str]) -> Callable[[Rounds, str], Row]:
        def rule(past: Rounds, _: str) -> Row:
            if not past:
                return dict.fromkeys(BEATS, 1 / 3)
            return {b: sure if b == choose(*past[-1]) else (1 - sure) / 2 for b in BEATS}

        return rule

    return pool(
        make_rule(lambda mine, answer: mine),
        make_rule(lambda mine, answer: BEATEN_BY[mine]),
        make_rule(lambda mine, answer: BEATEN_BY[answer]),
        make_rule(lambda mine, answer: answer),
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

    def make_rule(choose: Callable[[Rounds], bool]) -> Callable[[Rounds, str], Row]:
        def rule(past: Rounds, _: str) -> Row:
            chance = 1 - noise if choose(past) else noise
            return {"C": chance, "D": 1 - chance}

        return rule

    return pool(
        make_rule(lambda past: True),
        make_rule(lambda past: False),
        make_rule(lambda past: not past or past[-1][0] == "C"),
        make_rule(lambda past: all(mine == "C" for mine, _ in past)),
        make_rule(lambda past: not past or past[-1][0] == past[-1][1]),
    )


def treasure(pulls: int = 2) -> Repeated:
    """The safe arm pays .5, one of four arms 1."""
    return Repeated(
        "safe a b c d", "some none", lambda a, b: 0.5 if a == "safe" else float(b == "some"), pulls, show_question=True
    )


def treasures() -> OpponentPool:
    return pool(*(lambda past, question, c=c: {"some" if question in (c, "safe") else "none": 1.0} for c in "abcd"))


def ultimatum(offers: int) -> Repeated:
    words = " ".join(map(str, range(11)))
    return Repeated(words, "yes no", lambda a, b: (10 - int(a)) / 10 if b == "yes" else 0.0, offers, show_question=True)


def reserves(max_reserve: int = 8) -> OpponentPool:
    return pool(
        *(lambda past, question, r=r: {"yes" if int(question) >= r else "no": 1.0} for r in range(1, max_reserve + 1))
    )
