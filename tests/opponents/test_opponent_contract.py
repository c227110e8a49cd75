"""Rules that every registered opponent must follow."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Mapping
from functools import cache
from itertools import combinations

import numpy as np
import pytest

from mage_envs.core import Policy, State, Turn, has_distribution, is_state_policy
from mage_envs.games.kuhn_poker import KuhnPoker
from mage_envs.opponents import LanguageModelPolicy, list_opponents, make_opponent, opponent_info
from mage_envs.opponents.exact.modes import end_turn
from mage_envs.opponents.learning.policy import LearningPolicy
from mage_envs.text.generation import Prompt
from mage_envs.text.plain import Plain
from mage_envs.tree import tree_of
from mage_envs.wrappers.rollout.scripted import ScriptedGenerator
from tests.contract import enumerable_games, games_with_opponents, opponents_of, short_game
from tests.opponents.dealing import check_copies, decisions, play
from tests.packages import mark_params

GAMES = {name: short_game(name) for name in enumerable_games()}
CASES = [(game, name) for game in GAMES for name in list_opponents(game)]
REVEALED = (
    *(f"controls/{name}" for name in ("known", "wrong")),
    *(f"customer/{name}" for name in ("known", "wrong")),
    *(f"house/{name}" for name in ("known", "wrong", "plan")),
)
"""Players that read `Turn.opponent`, which only an environment with `reveal_opponent=True` sets."""
SEATED = [
    *((game, name) for game in games_with_opponents() for name in opponents_of(game) if name not in REVEALED),
    ("KuhnPoker", "bayes:kuhn/demo,3,1"),
    ("KuhnPoker", "best-response-to:uniform"),
]


@cache
def turns(game: str) -> tuple[Turn, ...]:
    """About 150 turns of the tree, or all of a smaller one."""
    all_turns = decisions(GAMES[game])
    # An odd step meets both seats if they alternate in the tree.
    return tuple(all_turns[:: len(all_turns) // 150 | 1])


@pytest.mark.parametrize(("game", "name"), CASES)
def test_hands_are_legal_and_a_function_of_the_generator(game: str, name: str) -> None:
    rules = GAMES[game]
    first_policy, second_policy = make_opponent(name, rules), make_opponent(name, rules)
    for seed in range(12):
        for seat in (0, 1):
            uniform = make_opponent("uniform", rules)
            hand = play(rules, (first_policy, uniform) if seat == 0 else (uniform, first_policy), seed)
            assert hand == play(rules, (second_policy, uniform) if seat == 0 else (uniform, second_policy), seed)


@pytest.mark.parametrize(("game", "name"), CASES)
def test_samples_follow_the_right_distributions(game: str, name: str) -> None:
    policy = make_opponent(name, GAMES[game])
    if not has_distribution(policy):
        assert name in ("mcts", "ismcts", "counting")
        return
    policy.reset(np.random.default_rng(11))
    draws = 4000 if game == "KuhnPoker" else 1000
    for turn in turns(game):
        row = policy.distribution(turn)
        assert set(row) <= set(turn.legal_actions)
        assert all(probability >= 0 for probability in row.values())
        assert sum(row.values()) == pytest.approx(1, abs=1e-9)
    # Of up to 25 turns, which is every turn of Kuhn Poker.
    for turn in turns(game)[:: 1 + len(turns(game)) // 25]:
        row = policy.distribution(turn)
        counts = Counter(policy.act(turn) for _ in range(draws))
        for action in turn.legal_actions:
            chance = row.get(action, 0.0)
            assert abs(counts[action] / draws - chance) <= 4.5 * (chance * (1 - chance) / draws) ** 0.5 + 1e-9


@pytest.mark.parametrize(("game", "name"), CASES)
def test_what_follows_from_the_information_state_is_declared_and_drawn_sparingly(game: str, name: str) -> None:
    policy = make_opponent(name, GAMES[game])
    # The play of a learner follows from the information state and its memory, which stays as it is in this test.
    is_fixed = has_distribution(policy) and not isinstance(policy, LearningPolicy)
    assert is_state_policy(policy) == is_fixed == policy.follows_information_state
    if not has_distribution(policy):
        return
    rng, twin = np.random.default_rng(5), np.random.default_rng(5)
    policy.reset(rng)
    for turn in turns(game):
        row = policy.distribution(turn)
        assert row == policy.distribution(turn._replace(observation="", episode=3, history=("x",)))
        policy.act(turn)
        twin.random(int(max(row.values()) < 1))
    assert rng.random() == twin.random(), "one number per decision, none where one action is certain"


@pytest.mark.parametrize(("game", "name"), mark_params(SEATED, step=3))
def test_copies_in_the_middle_of_a_hand_continue_alike(game: str, name: str) -> None:
    rules = short_game(game)
    check_copies(rules, make_opponent(name, rules))


def last_or_nonsense(prompt: Prompt) -> str:
    return "<action>x</action>" if prompt.seed[0] % 2 else f"<action>{prompt.legal_actions[-1]}</action>"


def test_copies_of_a_language_model_share_the_model() -> None:
    model = ScriptedGenerator(last_or_nonsense)
    policy = LanguageModelPolicy(model, KuhnPoker.spec, Plain())
    check_copies(KuhnPoker(), policy)
    assert copy.deepcopy(policy).generator is model


@pytest.mark.parametrize(("game", "name"), CASES)
def test_policies_keep_no_state_of_the_game(game: str, name: str) -> None:
    policy, rules = make_opponent(name, GAMES[game]), GAMES[game]
    play(rules, (policy, make_opponent("uniform", rules)), 3)
    assert not any(isinstance(value, State) for value in vars(policy).values())


def experienced_tables(game: str, policy: Policy) -> list[list[Mapping[str, float]]]:
    """Return the policy's play before and after some hands, the same for all policies."""
    tables = [[policy.distribution(turn) for turn in turns(game)]]
    if isinstance(policy, LearningPolicy):
        ends = [node for node in tree_of(GAMES[game]).order if node.player is None]
        for node in ends[:: len(ends) // 7 | 1]:
            policy.on_hand_end(end_turn(node, 1, 0))
            tables.append([policy.distribution(turn) for turn in turns(game)])
    return tables


@pytest.mark.parametrize("game", GAMES)
def test_no_two_opponents_are_the_same_policy(game: str) -> None:
    tables = {}
    for name in list_opponents(game):
        policy = make_opponent(name, GAMES[game])
        if has_distribution(policy):
            tables[name] = experienced_tables(game, policy)
    for first_name, second_name in combinations(tables, 2):
        alias = opponent_info(first_name).alias_of == second_name or opponent_info(second_name).alias_of == first_name
        same = len(tables[first_name]) == len(tables[second_name]) and all(
            abs(a.get(action, 0) - b.get(action, 0)) < 1e-12
            for first_rows, second_rows in zip(tables[first_name], tables[second_name])
            for a, b in zip(first_rows, second_rows)
            for action in {*a, *b}
        )
        assert same == alias, (first_name, second_name)
