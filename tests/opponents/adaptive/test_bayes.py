"""Bayes-optimal adaptation: against an independent oracle, in closed cases, and played."""

from __future__ import annotations

import numpy as np
import pytest

from mage_envs import make_game
from mage_envs.benchmarks.evaluation.run.agents import make_agent
from mage_envs.benchmarks.evaluation.run.evaluate import evaluate
from mage_envs.benchmarks.evaluation.scoring.scores import summarise
from mage_envs.benchmarks.evaluation.suites.panels import panel, weights_of
from mage_envs.cli.program import main
from mage_envs.core import Policy, Turn
from mage_envs.games.kuhn_poker import KuhnPoker
from mage_envs.games.table_game import TableState
from mage_envs.opponents import OpponentPool, as_pool, make_opponent
from mage_envs.opponents.adaptive.bayes import BayesPolicy
from mage_envs.opponents.exact import (
    BayesSolution,
    Meeting,
    NotExact,
    TooManyStates,
    bayes,
    bayes_value,
    best_nonadaptive,
    best_response,
    headroom,
    nash_conv,
)
from mage_envs.registry import settings_of
from tests.opponents.dealing import dealt

KUHN = KuhnPoker()
PAPER, DEMO = as_pool("pool:kuhn/paper"), as_pool("pool:kuhn/demo")
MIXED = OpponentPool({"kuhn/nash": 0.5, "kuhn/maniac": 0.3, "kuhn/soft-scared": 0.2})


class TwoHands(KuhnPoker):
    """Two hands of Kuhn Poker as one game: a best response to a pool in it is Bayes-optimal over two hands."""

    def __init__(self, first_seat: int, reveal: str = "showdown") -> None:
        super().__init__(reveal)
        base = super().initial_states()
        self._both = tuple((chance, self._first(root, base, first_seat)) for chance, root in base)

    def initial_states(self):
        return self._both

    def _first(self, state: TableState, base, seat: int) -> TableState:
        """Hand one; at its end chance deals hand two by a player of its own, `2`."""
        if state.player is None:
            deal = make_state(2, (0.0, 0.0), ("", "", ""), ("deal", "deal", "deal"))
            deal.connect({f"deal {i}": self._second(root, state, seat) for i, (_, root) in enumerate(base)})
            return deal
        return self._copy(state, ("", ""), (0.0, 0.0), lambda child: self._first(child, base, seat), swap=seat == 1)

    def _second(self, state: TableState, first_hand: TableState, seat: int) -> TableState:
        """Hand two: the learner has the other seat now, and is still player 0."""
        observations = first_hand.observations[seat], first_hand.observations[1 - seat]
        gained = first_hand.returns[seat]
        return self._copy(
            state, observations, (gained, -gained), lambda c: self._second(c, first_hand, seat), swap=seat == 0
        )

    def _copy(self, state: TableState, observations: tuple[str, str], gained, follow, swap: bool) -> TableState:
        """`state` with the learner as player 0. Each player also knows its part of `observations`."""
        mine, theirs = (1, 0) if swap else (0, 1)
        player = None if state.player is None else (0 if state.player == mine else 1)
        keys = (f"{observations[0]}|{state.keys[mine]}", f"{theirs}|{state.keys[theirs]}#{observations[1]}", "")
        returns = (gained[0] + state.returns[mine], gained[1] + state.returns[theirs])
        copied = make_state(player, returns, (state.observations[mine], state.observations[theirs], ""), keys)
        copied.connect({action: follow(state.after(action)) for action in state.legal_actions})
        return copied


def make_state(player: int | None, returns, observations, keys) -> TableState:
    return TableState(player, returns, observations=observations, keys=keys, origin=(make_state, ()))


class Other:
    """An opponent of Kuhn Poker in `TwoHands`, where chance is a player too."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def reset(self, rng: np.random.Generator) -> None: ...

    def act(self, turn: Turn) -> str:
        return turn.legal_actions[0]

    def distribution(self, turn: Turn):
        if turn.player == 2:
            return dict.fromkeys(turn.legal_actions, 1 / len(turn.legal_actions))
        seat, _, key = turn.information_state.partition("|")
        # The opponent plays each hand by itself.
        return self.policy.distribution(turn._replace(player=int(seat), information_state=key.partition("#")[0]))


@pytest.mark.parametrize("reveal", ["showdown", "always"])
@pytest.mark.parametrize("pool", [PAPER, DEMO, MIXED])
@pytest.mark.parametrize("seat", [0, 1])
def test_two_hands_are_a_best_response_in_the_game_of_two_hands(pool: OpponentPool, seat: int, reveal: str) -> None:
    mixture = [(Other(make_opponent(name, KUHN)), weight) for name, weight in zip(pool.entries, pool.weights)]
    expected = best_nonadaptive(TwoHands(seat, reveal), OpponentPool(mixture), 0).value
    solved = BayesSolution(Meeting(KuhnPoker(reveal), pool, seat, episodes=2)).value
    assert solved.total == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("pool", [PAPER, DEMO, MIXED])
def test_one_hand_is_the_best_blind_policy(pool: OpponentPool) -> None:
    blind = [best_nonadaptive(KUHN, pool, seat).value for seat in (0, 1)]
    assert bayes_value(KUHN, pool, episodes=1).total == pytest.approx(sum(blind) / 2, abs=1e-12)
    wins = [best_nonadaptive(KUHN, pool, seat, "success").value for seat in (0, 1)]
    assert bayes_value(KUHN, pool, episodes=1, objective="success").total == pytest.approx(sum(wins) / 2, abs=1e-12)


def test_a_pool_of_one_is_its_best_response() -> None:
    best_value = sum(best_response(KUHN, "kuhn/soft-scared", seat).value for seat in (0, 1)) / 2
    value = bayes_value(KUHN, "kuhn/soft-scared", episodes=3, hands=2)
    assert value.per_episode == pytest.approx([2 * best_value] * 3, abs=1e-12)
    assert value.states == 2 * 6, "one belief before each hand"


@pytest.mark.parametrize(("pool", "hands"), [(PAPER, 1), (PAPER, 3), (DEMO, 1), (DEMO, 2), (MIXED, 1)])
def test_between_the_blind_and_the_informed(pool: OpponentPool, hands: int) -> None:
    game = KuhnPoker("always")
    blind = sum(best_nonadaptive(game, pool, seat).value for seat in (0, 1)) / 2
    informed_value = sum(
        weight * best_response(game, name, seat).value
        for seat in (0, 1)
        for name, weight in zip(pool.entries, pool.weights)
    )
    in_all = bayes_value(game, pool, hands=hands)
    last_value = bayes_value(game, pool, hands=hands, credit="last")
    assert 3 * hands * blind < in_all.total < 3 * hands * informed_value / 2
    assert in_all.per_episode[0] < in_all.per_episode[1] < in_all.per_episode[2] <= last_value.per_episode[2] + 1e-12
    assert last_value.per_episode[2] < hands * informed_value / 2


def test_the_archetypes_are_distinguished_at_once() -> None:
    """The paper's three, three hands an episode: by hand three all of them are known, or nearly."""
    value = bayes_value(KUHN, PAPER, hands=3)
    assert value.per_episode == pytest.approx([0.5409722222, 0.7739797668, 0.8137239305], abs=1e-9)
    assert value.per_episode[2] / 3 > 0.98 * 0.275


@pytest.mark.slow
def test_the_demos_ceiling() -> None:
    """Three hands an episode against the four soft archetypes: 3.6 million beliefs."""
    value = bayes_value(KuhnPoker("always"), DEMO, hands=3)
    assert [v / 3 for v in value.per_episode] == pytest.approx([0.1589147874, 0.2263063310, 0.2475972086], abs=1e-9)
    assert value.states == 3_613_486


@pytest.mark.more
@pytest.mark.parametrize(
    ("pool", "hands", "kwargs"), [("kuhn/demo", 1, {}), ("kuhn/demo", 2, {"reveal": "always"}), ("kuhn/paper", 1, {})]
)
def test_played_it_earns_what_it_should(pool: str, hands: int, kwargs: dict[str, str]) -> None:
    env_id, opponents = "mage/KuhnPoker-Meta-v0", as_pool(f"pool:{pool}")
    weights = {str(name): weight for name, weight in zip(opponents.entries, opponents.weights)}
    tasks = panel(env_id, tuple(weights), 60, 12)
    trajectories = evaluate(
        make_agent(f"policy:bayes:{pool},3,{hands},sum"), tasks, {"hands_per_episode": hands, **kwargs}
    )
    summary = summarise(trajectories, make_game("KuhnPoker", **kwargs), weights=weights)
    exact = bayes_value(KuhnPoker(**kwargs), opponents, hands=hands)
    for episode, value in zip(summary.overall.episodes, exact.per_episode, strict=True):
        estimate = episode.returns.estimate
        assert estimate.low is not None
        half = estimate.mean - estimate.low
        assert abs(estimate.mean - value / hands) < 2 * half, "beyond four standard errors"
        assert episode.returns.ceiling is not None
        assert value / hands < episode.returns.ceiling + 1e-9


def test_the_states_that_are_worked_on_at_a_time_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Games of many branches are worked on in few states at a time, so that memory stays small."""
    value = bayes_value(KUHN, PAPER).per_episode
    monkeypatch.setattr(bayes, "CELLS", 1)
    assert bayes_value(KUHN, PAPER).per_episode == pytest.approx(value, abs=1e-15)


@pytest.mark.more
@pytest.mark.parametrize(
    ("env_id", "pool", "rows"),
    [("mage/KuhnPoker-Meta-v0", "kuhn/demo", 25), ("mage/Ultimatum-Meta-v0", "ultimatum/soft-reserves", 25)],
)
@pytest.mark.parametrize("learner", ["myopic", "blind"])
def test_the_learners_of_headroom_earn_what_it_says(env_id: str, pool: str, rows: int, learner: str) -> None:
    name = env_id.removeprefix("mage/").removesuffix("-Meta-v0")
    weights = weights_of(f"pool:{pool}")
    agent = f"policy:blind:{pool}" if learner == "blind" else f"policy:myopic:{pool},3,1"
    meta_episodes = evaluate(make_agent(agent), panel(env_id, tuple(weights), rows, 14))
    exact = headroom(make_game(name), f"pool:{pool}", seat=settings_of(name).seat or "alternate")
    values = (exact.blind,) * 3 if learner == "blind" else exact.per_episode["myopic"]
    summary = summarise(meta_episodes, make_game(name), weights=weights)
    for episode, value in zip(summary.overall.episodes, values, strict=True):
        estimate = episode.returns.estimate
        assert estimate.low is not None
        assert abs(estimate.mean - value) < 2 * (estimate.mean - estimate.low), "beyond four standard errors"


def test_evidence_from_outside_of_the_pool_restarts_it() -> None:
    policy = BayesPolicy(KUHN, OpponentPool({"kuhn/conservative": 0.5, "kuhn/aggressive": 0.5}))
    trajectories = evaluate(
        make_agent("policy:bayes:kuhn/paper,3,1"), panel("mage/KuhnPoker-Meta-v0", ("kuhn/passive", "uniform"), 40, 3)
    )
    assert all(t.failure is None and not any(s.invalid_reason for s in t.steps) for t in trajectories)
    rng = np.random.default_rng(0)
    for _ in range(3):  # a hand that neither can have played: checked with a king, then shown
        policy.reset(rng)
        hand = dealt(KUHN)
        hand.state = next(state for _, state in KUHN.initial_states() if state.keys == ("K", "Q"))
        hand.play("check")
        policy.act(hand.turn(1))
        hand.play("check")
        policy.on_hand_end(hand.turn(1))
        assert (policy._hand, policy._state) == (0, 0)


def test_what_cannot_be_solved_says_why() -> None:
    with pytest.raises(NotExact, match="'mcts:10' has no distribution"):
        bayes_value(make_game("TicTacToe"), "mcts:10")
    with pytest.raises(TooManyStates, match="more than 100 states of belief within 3 hands"):
        bayes_value(KUHN, DEMO, limit=100)
    with pytest.raises(TooManyStates, match="more than 50,000 decisions in a hand"):
        bayes_value(make_game("TicTacToe"), {"uniform": 0.5, "minimax": 0.5})
    with pytest.raises(ValueError, match="seats 0 to 1, got seat=2"):
        Meeting(KUHN, DEMO, 2)


def test_mage_bench_ceilings(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["headroom", "--ceilings", "KuhnPoker", "--opponents", "pool:kuhn/paper"]) == 0
    lines = {line.split("  ")[0]: line.split()[-8:] for line in capsys.readouterr().out.splitlines() if line}
    assert lines["kuhn/conservative"][-6:-1] == ["0.167", "0.333", "0.250", "0.667", "0.667"]
    assert lines["kuhn/rock (= kuhn/conservative)"][-6:] == lines["kuhn/conservative"][-6:]
    assert float(lines["uniform"][-1]) == pytest.approx(nash_conv(KUHN, ["uniform", "uniform"]), abs=5e-4)
    assert lines["pool:kuhn/paper"][0:6] == ["0.125", "0.125", "0.189", "0.231", "0.236", "56"]
    assert main(["headroom", "--ceilings", "KuhnPoker", "--opponents", "pool:kuhn/demo"]) == 0
    out = capsys.readouterr().out.splitlines()
    [demo] = [line.split()[1:7] for line in out if line.startswith("pool:kuhn/demo")]
    assert demo == ["0.121", "0.117", "0.168", "0.191", "0.200", "482"]
    refused = [line for line in out if line.startswith("n/a: ")]
    assert [line.split()[2] for line in refused] == ["'ismcts'", "'kuhn/learns-to-call'"]
    assert main(["headroom", "--ceilings", "Sokoban"]) == 2
    assert capsys.readouterr().err == ("mage: Sokoban has no enumerable tree, so its exact ceilings are n/a.\n")
    for option, message in (("{", "must have the form NAME=VALUE"), ("revael=1", "KuhnPoker does not take these")):
        assert main(["headroom", "--ceilings", "KuhnPoker", "--game-option", option]) == 2
        assert message in capsys.readouterr().err
    assert main(["headroom", "--ceilings", "KuhnPoker", "--opponents", "pool:tictactoe/balanced"]) == 2
    assert "not KuhnPoker" in capsys.readouterr().err
