"""Exact values against opponents that learn or change: known figures, and recursions over whole histories."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest

from mage_envs.benchmarks.play.end_table import ExactSetting
from mage_envs.core import Game, Turn
from mage_envs.games.kuhn_poker import KuhnPoker
from mage_envs.games.matching_pennies import MatchingPennies
from mage_envs.games.prisoners_dilemma import PrisonersDilemma
from mage_envs.games.rock_paper_scissors import RockPaperScissors
from mage_envs.opponents import OpponentPool, as_pool, make_opponent
from mage_envs.opponents.exact import NotExact, TooManyStates, headroom
from mage_envs.opponents.exact.bayes import build_hands
from mage_envs.opponents.exact.learner_hands import Branch
from mage_envs.opponents.exact.learner_values import Schedule, best_plan, follow_plans, learner_value
from mage_envs.opponents.learning.hazard import Hazard
from mage_envs.opponents.learning.policy import LearningPolicy
from tests.opponents.exact.histories import Problem, Type, optimum, stationary
from tests.packages import mark_params

ROWS: Mapping[str, tuple[Game, Sequence[str], str, tuple[float | None, ...]]] = {
    "dilemma": (
        PrisonersDilemma(rounds=3),
        ("pd/tit-for-tat", "grudge", "pd/grim", "pd/all-d"),
        "first",
        (2.417, 1.778, 2.472, 2.639, 2.889),
    ),
    "hazard": (
        PrisonersDilemma(rounds=3),
        ("hazard:pd/tit-for-tat,pd/all-d,pd/all-c,.2",),
        "first",
        (2.889, 2.778, 3.039, 3.044, None),
    ),
    "pennies": (
        MatchingPennies(),
        ("fictitious", "winstay", "qlearner", "level:2"),
        "first",
        (0.249, -0.245, 0.100, 0.545, 0.603),
    ),
    "rps": (
        RockPaperScissors(rounds=2),
        ("fictitious:.15", "winstay", "rps/rock:.7"),
        "first",
        (0.232, 0.051, 0.290, 0.557, 0.650),
    ),
    "kuhn": (
        KuhnPoker(),
        ("kuhn/conservative", "trapper:2", "kuhn/learns-to-call"),
        "alternate",
        (0.173, None, 0.146, 0.219, None),
    ),
}
"""Game, types, seat rule, and the means of 3 episodes of: no memory, frequencies, stationary, optimal, known.

The figures come from another program.
"""


@pytest.mark.parametrize("name", mark_params(["dilemma", "hazard", "kuhn", "rps", "pennies"]))
def test_known_figures(name: str) -> None:
    game, opponents, seat, (blind, counts, believes, optimal, known) = ROWS[name]
    pool = dict.fromkeys(opponents, 1.0)
    values = headroom(game, pool, seat=seat)
    means = [
        sum(row) / 3 for row in (values.blind_per_episode, values.stationary_per_episode, values.per_episode["sum"])
    ]
    assert means == pytest.approx([blind, believes, optimal], abs=5.01e-4)
    assert values.second_order == pytest.approx(means[2] - means[1], abs=1e-12)
    if known is not None:
        assert sum(values.known_per_episode) / 3 == pytest.approx(known, abs=5.01e-4)
    if counts is not None:
        learner = make_opponent("frequencies", game)
        assert isinstance(learner, LearningPolicy)
        schedule = Schedule.of(2, 0, 3, 1, alternate=False)
        per_episode = learner_value(build_hands(game, pool), game, schedule, learner)
        assert sum(per_episode) / 3 == pytest.approx(counts, abs=5.01e-4)


class Controller(LearningPolicy):
    """A policy from a random `Type`; it parses the rounds itself."""

    def __init__(self, kind: Type) -> None:
        self.kind, self.start = kind, kind.start

    def _memory_in_hand(self, turn: Turn, memory: Hashable) -> Hashable:
        words = turn.information_state.split()
        for own, other in zip(words[::2], words[1::2], strict=True):
            memory = self.kind.after(memory, own, other.removeprefix("opp-"))
        return memory

    def distribution_given(self, turn: Turn, memory: Hashable) -> Mapping[str, float]:
        return self.kind.play(self._memory_in_hand(turn, memory))

    def step(self, memory: Hashable, turn: Turn) -> Hashable:
        return self.kind.at_end(self._memory_in_hand(turn, memory))


def random_type(rng: np.random.Generator, choices: Sequence[str]) -> Type:
    """Return a type with up to 4 memories, whose play is random, partly certain, or without some choice."""
    size = int(rng.integers(2, 5))
    rows = rng.dirichlet(np.ones(len(choices)), size)
    rows[rng.random(rows.shape) < 0.25] = 0
    rows[rows.sum(axis=1) == 0, 0] = 1
    rows /= rows.sum(axis=1, keepdims=True)
    moves = rng.integers(0, size, (size, len(choices), len(choices)))
    ends = rng.integers(0, size, size) if rng.random() < 0.5 else np.arange(size)
    return Type(
        start=0,
        play=lambda memory: {choice: float(p) for choice, p in zip(choices, rows[memory], strict=True) if p > 0},
        after=lambda memory, own, other: int(moves[memory, choices.index(own), choices.index(other)]),
        at_end=lambda memory: int(ends[memory]),
    )


def random_problem(seed: int) -> tuple[Game, OpponentPool, Problem]:
    """Return one of three games with a random pool, with 2 or 3 episodes and with or without a hazard."""
    rng = np.random.default_rng(seed)
    rounds = 1 if seed % 3 == 2 else 2
    game: Any = (PrisonersDilemma, MatchingPennies, RockPaperScissors)[seed % 3](rounds=rounds)
    choices = game.stage.choices[0]
    payoffs = {}
    for mine in choices:
        for theirs in choices:
            [first_state] = [state for _, state in type(game)(rounds=1).initial_states()]
            payoffs[mine, theirs] = first_state.after(mine).after(theirs).returns[0]
    types = [random_type(rng, choices) for _ in range(int(rng.integers(2, 4)))]
    hazard = float(rng.choice([0.0, 0.1, 0.5]))
    problem = Problem(payoffs, choices, rounds=rounds, episodes=2 + seed // 3 % 2, types=types, hazard=hazard)
    controllers = [Controller(kind) for kind in types]
    if hazard:
        return game, OpponentPool([(Hazard(controllers, hazard), 1.0)]), problem
    return game, OpponentPool([(controller, 1.0) for controller in controllers]), problem


@pytest.mark.parametrize("seed", mark_params(range(60), step=10))
def test_random_pools_against_whole_histories(seed: int) -> None:
    game, pool, problem = random_problem(seed)
    values = headroom(game, pool, episodes=problem.episodes, seat="first")
    assert sum(values.per_episode["sum"]) / problem.episodes == pytest.approx(optimum(problem), abs=1e-9)
    assert sum(values.stationary_per_episode) / problem.episodes == pytest.approx(stationary(problem), abs=1e-9)


def plans_below(branch: Branch) -> Iterator[dict[str, str]]:
    """Yield every plan of a hand, one after the other."""
    choices = [
        [{state: action, **plan} for action, child in options.items() for plan in plans_below(child)]
        for state, options in branch.decisions.items()
    ]
    for combination in product(*choices):
        yield {state: action for plan in combination for state, action in plan.items()}


@pytest.mark.parametrize(
    ("game", "pool", "alternate"),
    [
        *((*random_problem(seed)[:2], seed % 2 == 1) for seed in (0, 1, 2, 3, 4, 5, 10, 11)),
        (PrisonersDilemma(rounds=2), dict.fromkeys(("pd/tit-for-tat", "grudge", "deceiver", "pd/all-d"), 1.0), False),
        (PrisonersDilemma(rounds=1), dict.fromkeys(("grudge", "mirror", "pd/all-c"), 1.0), True),
        (MatchingPennies(rounds=2), dict.fromkeys(("winstay", "pennies/heads", "hazard:winstay,level:2,.3"), 1), False),
    ],
)
def test_the_best_plan_is_the_best_of_all_plans(game: Game, pool: Any, alternate: bool) -> None:
    hands = build_hands(game, as_pool(pool))
    schedule = Schedule.of(2, 0, 3, 1, alternate=alternate)
    seats = sorted(set(schedule.seats))
    values = [
        sum(follow_plans(hands, schedule, dict(zip(seats, plans, strict=True))))
        for plans in product(*(plans_below(hands.whole(seat).root) for seat in seats))
    ]
    assert len(values) >= 3
    best = best_plan(hands, schedule)
    assert sum(best.per_episode) == pytest.approx(max(values), abs=1e-9)
    assert sum(follow_plans(hands, schedule, best.plans)) == pytest.approx(max(values), abs=1e-9)


def test_memory_of_a_hidden_card_is_refused() -> None:
    class Spy(LearningPolicy):
        """Remembers its own card."""

        def distribution_given(self, turn: Turn, memory: Hashable) -> Mapping[str, float]:
            return {turn.legal_actions[0]: 1.0}

        def step(self, memory: Hashable, turn: Turn) -> Hashable:
            return turn.information_state[0]

    with pytest.raises(
        NotExact, match=r"^The memory of opponent 2 of the pool depends on what only that opponent sees"
    ):
        headroom(KuhnPoker(), OpponentPool([("kuhn/rock", 1), (Spy(), 1)]))


@pytest.mark.parametrize("memory", [None, [1]])
def test_memory_must_be_hashable(memory: object) -> None:
    class Unhashable(LearningPolicy):
        def distribution_given(self, turn: Turn, memory: Hashable) -> Mapping[str, float]:
            return {"heads": 1.0}

        def step(self, memory_before: Hashable, turn: Turn) -> Any:
            return memory

    with pytest.raises(TypeError, match=r"^Unhashable.step must return a hashable memory that is not None"):
        headroom(MatchingPennies(), Unhashable())


def test_too_many_memories_are_refused_before_they_are_computed() -> None:
    with pytest.raises(TooManyStates, match=r"^The opponents have more memories after 1 of 3 hands than can be"):
        headroom(MatchingPennies(rounds=5), "pool:pennies/learners", seat="first")


def test_too_many_plans_leave_the_other_values() -> None:
    values = headroom(RockPaperScissors(rounds=3), dict.fromkeys(("winstay", "level:2"), 1.0), seat="first", episodes=2)
    assert (values.blind, values.no_memory, values.adaptation) == (None, None, None)
    assert "plans or more with different effects, too many to compare all of them" in values.unsolved
    assert values.second_order is not None


def test_a_dilemma_of_five_rounds() -> None:
    values = headroom(PrisonersDilemma(rounds=5), "pool:pd/forgiving", seat="first")
    # It cooperates throughout: what a betrayal gains in an episode, it costs in the later ones.
    assert values.no_memory_per_episode == pytest.approx([3, 3, 3])
    # It betrays in the last round of the first episode, which half of the pool never forgives.
    assert values.stationary_per_episode == pytest.approx([3.4, 1.8, 1.8])
    assert values.second_order == pytest.approx(0.8)


def test_end_table_of_play() -> None:
    setting = ExactSetting(PrisonersDilemma(rounds=3), {"pd/grim": 0.5, "grudge": 0.5})
    lines = setting.references(((0,), (0,), (0,)))
    assert lines.no_memory == pytest.approx([3, 3, 3])
    assert lines.best_learner == pytest.approx([3, 3, 11 / 3])
    assert lines.knows_opponent == pytest.approx([10 / 3, 10 / 3, 11 / 3])
