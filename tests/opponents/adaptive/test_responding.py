"""Opponents that respond: the exact best response to a name, the counting learner, and the fixed places."""

from __future__ import annotations

import copy
from itertools import combinations

import gymnasium as gym
import numpy as np
import pytest

import mage_envs  # noqa: F401  (registers the ids)
from mage_envs.core import NotEnumerable, Policy, Turn, has_memory
from mage_envs.games.kuhn_poker import KuhnPoker
from mage_envs.games.openspiel.openspiel_game import OpenSpiel
from mage_envs.games.openspiel.registered import ConnectFour, LeducPoker
from mage_envs.games.tictactoe import TicTacToe
from mage_envs.match import play_match
from mage_envs.opponents import list_opponents, make_opponent, opponent_info
from mage_envs.opponents.adaptive.counting import Counting
from mage_envs.opponents.exact import NotExact, best_response, nash_conv, policy_value
from mage_envs.tree import roots_of
from tests.opponents.dealing import dealt, decisions

KUHN = KuhnPoker()


@pytest.mark.parametrize(
    ("game", "name"),
    [
        (KUHN, "kuhn/aggressive"),
        (KUHN, "kuhn/nash:0.2"),
        (KUHN, "switch:kuhn/rock,kuhn/maniac,1"),
        (LeducPoker(), "uniform"),
        (LeducPoker(), "cfr:20"),
        (TicTacToe(), "tictactoe/pattern-3"),
        (OpenSpiel(), "last"),
    ],
)
def test_the_best_response_reaches_its_value_in_both_seats(game: KuhnPoker, name: str) -> None:
    response = f"best-response-to:{name}"
    for seat in (0, 1):
        table = [response, name] if seat == 0 else [name, response]
        assert policy_value(game, table)[seat] == pytest.approx(best_response(game, name, seat).value, abs=1e-12)


def test_responding_needs_probabilities_and_a_tree() -> None:
    with pytest.raises(NotExact, match="Opponent 'mcts:10' has no distribution"):
        make_opponent("best-response-to:mcts:10", TicTacToe())
    with pytest.raises(NotEnumerable, match="connect_four.* has more than 1,000,000 histories"):
        make_opponent("best-response-to:uniform", ConnectFour())
    with pytest.raises(ValueError, match="best-response-to"):
        make_opponent("best-response-to", KUHN)
    assert "best-response-to" not in list_opponents("KuhnPoker")


def match_returns(learner: Policy, opponent: str, seat: int, hands: int) -> np.ndarray:
    """The learner's returns; it sees how each hand ends."""
    table = [learner, make_opponent(opponent, KUHN)] if seat == 0 else [make_opponent(opponent, KUHN), learner]
    return play_match(KUHN, table, np.random.default_rng(5), hands).returns[:, seat]


class Untold:
    """A policy that does not see how hands end."""

    def __init__(self, policy: Policy) -> None:
        self.reset, self.act = policy.reset, policy.act


@pytest.mark.parametrize("seat", [0, 1])
@pytest.mark.parametrize("opponent", ["kuhn/maniac", "kuhn/passive", "kuhn/soft-scared", "kuhn/soft-station"])
def test_counting_learns_to_beat_any_opponent(opponent: str, seat: int) -> None:
    """After 300 hands its response earns nearly the value of the best response, and never more."""
    learner = make_opponent("counting", KUHN)
    assert isinstance(learner, Counting)
    assert has_memory(learner)
    match_returns(learner, opponent, seat, 300)
    learner.reset(np.random.default_rng(0))
    response = best_response(KUHN, learner._model, seat).policy
    table = [response, opponent] if seat == 0 else [opponent, response]
    value, best = policy_value(KUHN, table)[seat], best_response(KUHN, opponent, seat).value
    assert best - 0.06 < value <= best + 1e-12
    equilibrium = policy_value(KUHN, ["kuhn/nash", opponent] if seat == 0 else [opponent, "kuhn/nash"])[seat]
    assert value > equilibrium, "an equilibrium does not exploit"


def test_counting_earns_what_the_best_response_earns_in_the_long_run() -> None:
    learner = make_opponent("counting", KUHN)
    assert isinstance(learner, Counting)
    returns = match_returns(learner, "kuhn/maniac", 0, 1500)[200:]
    error = returns.std() / len(returns) ** 0.5
    assert abs(returns.mean() - best_response(KUHN, "kuhn/maniac", 0).value) < 4 * error


def test_counting_without_results_learns_what_its_turns_show() -> None:
    """Moves that end the hand are then never seen; the opening bets are."""
    learner = make_opponent("counting", KUHN)
    assert isinstance(learner, Counting)
    play_match(KUHN, [make_opponent("kuhn/maniac", KUHN), Untold(learner)], np.random.default_rng(0), 400)
    learner.reset(np.random.default_rng(0))
    for _, root in roots_of(KUHN):
        assert learner._model.distribution(root.turn())["bet"] > 0.95


def test_counting_infers_hidden_cards_from_what_it_can_see() -> None:
    """Against a rock, which bets K alone: a bet comes to speak for K."""
    learner = make_opponent("counting", KUHN)
    assert isinstance(learner, Counting)
    match_returns(learner, "kuhn/rock", 1, 600)
    learner.reset(np.random.default_rng(0))
    turns = [root.turn() for _, root in roots_of(KUHN)]
    bets = {turn.information_state: learner._model.distribution(turn)["bet"] for turn in turns}
    assert bets["K"] > 0.7
    assert max(bets["J"], bets["Q"]) < 0.35


def test_counting_forgets_between_meta_episodes_and_repeats() -> None:
    learner = make_opponent("counting", LeducPoker())
    first_match = play_match(LeducPoker(), [learner, make_opponent("first", LeducPoker())], np.random.default_rng(3), 8)
    second_match = play_match(
        LeducPoker(), [learner, make_opponent("first", LeducPoker())], np.random.default_rng(3), 8
    )
    assert first_match.returns.tolist() == second_match.returns.tolist()
    learner.on_meta_episode_start()  # type: ignore[attr-defined]
    assert not learner._counts  # type: ignore[attr-defined]
    copied = copy.deepcopy(learner)
    copied.reset(np.random.default_rng(0))


def test_counting_starts_as_the_best_response_to_uniform_play() -> None:
    learner, fixed = make_opponent("counting", KUHN), make_opponent("best-response-to:uniform", KUHN)
    for seed in range(12):
        turn = dealt(KUHN, seed).turn(0)
        learner.reset(np.random.default_rng(0))
        fixed.reset(np.random.default_rng(0))
        learner.on_meta_episode_start()  # type: ignore[attr-defined]
        assert learner.act(turn) == fixed.act(turn)


def test_counting_sits_in_a_meta_episode() -> None:
    env = gym.make("mage/KuhnPoker-Meta-v0", opponent="counting", num_episodes=4, memory="none")
    for _ in range(2):
        observation, info = env.reset(seed=11)
        terminated = False
        while not terminated:
            _, _, terminated, _, info = env.step(
                "<action>bet</action>"
                if "bet" in info["legal_actions"]
                else f"<action>{info['legal_actions'][-1]}</action>"
            )
        assert info["episode_index"] == 3
    assert observation
    with pytest.raises(ValueError, match=r"^Opponent 'counting': prior must be above 0, got 0\.0\.$"):
        make_opponent("counting:0", KUHN)


def test_first_and_last() -> None:
    turn = Turn(0, "", ("fold", "call", "raise"), "x")
    for name, action in (("first", "fold"), ("last", "raise")):
        policy = make_opponent(name, LeducPoker())
        policy.reset(np.random.default_rng(0))
        assert policy.act(turn) == action
        assert policy.distribution(turn) == {action: 1.0}
    assert nash_conv(LeducPoker(), ["first", "last"]) > 0
    with pytest.raises(ValueError, match="Opponent 'first' plays .*, not KuhnPoker"):
        make_opponent("first", KUHN)


@pytest.mark.parametrize("game", [LeducPoker(), OpenSpiel()], ids=["leduc", "nim"])
def test_no_two_opponents_are_the_same_policy(game: OpenSpiel) -> None:
    turns = decisions(game)
    turns = turns[:: max(len(turns) // 400, 1)]
    tables = {}
    for name in list_opponents(game.spec.name):
        if name in ("mcts", "ismcts", "counting"):
            continue
        policy = make_opponent(f"{name}:30" if name.startswith("cfr") else name, game)
        tables[name] = [policy.distribution(turn) for turn in turns]
    for first_name, second_name in combinations(tables, 2):
        alias = opponent_info(first_name).alias_of == second_name or opponent_info(second_name).alias_of == first_name
        same = all(
            abs(a.get(action, 0) - b.get(action, 0)) < 1e-9
            for a, b in zip(tables[first_name], tables[second_name], strict=True)
            for action in {*a, *b}
        )
        assert same == alias, (first_name, second_name)
