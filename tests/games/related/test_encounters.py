"""Encounters: exact values against the figures of independent draws, rules, persons, transfer, series."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from mage_envs.benchmarks.evaluation.run.agents import make_agent
from mage_envs.benchmarks.evaluation.run.evaluate import evaluate
from mage_envs.benchmarks.evaluation.scoring.scores import summarise
from mage_envs.benchmarks.evaluation.suites.panels import named_panel
from mage_envs.benchmarks.evaluation.suites.setting import Setting
from mage_envs.benchmarks.exact.transfer_table import transfer
from mage_envs.cli.program import main
from mage_envs.core import Turn
from mage_envs.games.encounters import CHARACTERS, ENCOUNTERS, GAMES, Encounters, game_of, seat_in
from mage_envs.games.table_game import TableGame
from mage_envs.opponents import make_opponent
from mage_envs.opponents.exact import TooManyStates, bayes_value, best_response, headroom, policy_value
from mage_envs.opponents.exact.rest import Rest
from mage_envs.random.streams import Streams
from tests.contract import check_id

POOL = "pool:encounters/all"


def round_all(values) -> list[float]:
    return [round(value, 3) for value in values]


@pytest.fixture(scope="module")
def solution():
    return headroom(Encounters(), POOL, seat="first")


def test_independent_draws_have_the_published_values() -> None:
    """With independent draws, which a series never makes, the solver for hands gives these values."""
    game = TableGame(Encounters().initial_states())
    game.spec = Encounters.spec
    values = headroom(game, POOL, seat="first")
    assert round_all((values.blind, values.known)) == [0.467, 0.592]
    assert round_all(values.per_episode["myopic"]) == [0.467, 0.537, 0.557]
    assert round_all(values.per_episode["last"]) == [0.457, 0.540, 0.571]


def test_the_values_without_repetition(solution) -> None:
    assert round_all((solution.blind, solution.known)) == [0.467, 0.592]
    assert solution.blind_per_episode == (solution.blind,) * 3
    assert round_all(solution.per_episode["myopic"]) == [0.467, 0.533, 0.562]
    assert round_all(solution.per_episode["last"]) == [0.457, 0.531, 0.567]
    # After all other games, the person is known.
    assert headroom(Encounters(), POOL, seat="first", episodes=5).per_episode["last"][4] == pytest.approx(
        solution.known
    )
    many = headroom(Encounters(), POOL, seat="first", episodes=6)
    assert not many.per_episode
    assert "too many orders" in many.unsolved
    with pytest.raises(TooManyStates, match="one hand each"):
        bayes_value(Encounters(), POOL, hands=2, seat="first")
    with pytest.raises(TooManyStates, match="one hand each"):
        Rest(Encounters(), POOL, episodes=3, hands=2)


def test_the_value_of_a_policy_is_that_of_play(solution) -> None:
    """The optimal learner plays its exact value: every person, every order of three of the five games."""
    env = gym.make("mage/Encounters-Meta-v0", memory="none", num_episodes=3)
    game, earned_by_draw = Encounters(), {}
    learner = make_opponent("bayes:encounters/all,3,1,last", game)
    for seed in range(1500):
        # The same person and order would only be played alike again.
        rng = Streams(seed).at(0).generator
        draw = seed % 4, tuple(game.series_state(rng(), number).kind for number in range(3))
        if draw in earned_by_draw:
            continue
        _, info = env.reset(seed=seed, options={"opponent": f"encounters:{list(CHARACTERS)[seed % 4]}"})
        learner.on_meta_episode_start()
        kinds, terminated, earned, at = [], False, [], -1
        while not terminated:
            if info["episode_index"] != at:
                at = info["episode_index"]
                learner.reset(np.random.default_rng(0))
                kinds.append(info["information_state"].split()[0])
            action = learner.act(Turn.from_info(info, info["anchor"]))
            *_, terminated, _, info = env.step(f"<action>{action}</action>")
            for hand in info.get("hand_results", ()):
                earned.append(hand["value"])
                learner.on_hand_end(
                    Turn(
                        player=0,
                        observation=hand["observation"],
                        legal_actions=(),
                        information_state=hand["information_state"],
                    )
                )
        assert draw[1] == tuple(kinds)
        assert len(set(kinds)) == 3
        earned_by_draw[draw] = earned
    # Persons and policies are deterministic, so one play of each pair is its exact value.
    assert len(earned_by_draw) == 4 * 60
    totals = np.mean(list(earned_by_draw.values()), axis=0)
    assert totals == pytest.approx(solution.per_episode["last"], abs=1e-9)


def test_no_game_comes_twice_and_an_episode_alone_is_that_of_the_series() -> None:
    game = Encounters()
    for seed in range(10_000):
        states = [game.series_state(np.random.default_rng(seed), number).kind for number in range(5)]
        assert len(set(states)) == 5
    env = gym.make("mage/Encounters-v0", opponent="encounters:fair")
    meta = gym.make("mage/Encounters-Meta-v0", opponent="encounters:fair", memory="none", on_invalid="forfeit")
    for seed in range(50):
        _, info = meta.reset(seed=seed)
        for episode in range(3):
            env.reset(seed=seed, options={"episode": episode})
            assert info["information_state"] == env.unwrapped.hand.state.information_state(0)
            *_, info = meta.step("<action>nothing</action>")
    # All games come once before any comes again, with or without more episodes.
    assert {game.series_state(np.random.default_rng(1), number).kind for number in range(5, 10)} == set(GAMES)


def test_prompts_do_not_name_the_person() -> None:
    """The first text depends on the person only if the person moves first."""
    envs = [gym.make("mage/Encounters-Meta-v0", opponent=f"encounters:{name}") for name in CHARACTERS]
    for seed in range(60):
        prompts = {env.reset(seed=seed)[0] for env in envs}
        first_kind = envs[0].unwrapped.hand.state.kind
        assert len(prompts) == 1 or first_kind == "answer", first_kind
        assert not any(name in prompt for prompt in prompts for name in CHARACTERS)
        assert "The other player is the same person throughout. Every episode is another game." in prompts.pop()


@pytest.mark.parametrize("kind", GAMES)
def test_returns_are_scaled_payoffs_against_shipped_opponents(kind: str) -> None:
    from mage_envs.opponents.games.encounters import HABITS

    game, spec = Encounters([kind]), game_of(kind).spec
    for name, habits in HABITS.items():
        seat = seat_in(kind, 0)
        own_value = best_response(game_of(kind), habits[kind], seat).value
        scaled = (own_value - spec.min_return) / (spec.max_return - spec.min_return)
        assert best_response(game, f"encounters:{name}", 0).value == pytest.approx(scaled, abs=1e-12)


def test_soft_persons_make_one_move_in_ten_at_random() -> None:
    game = Encounters()
    state = next(state for _, state in game.initial_states() if state.kind == "stag").after("cooperate")
    turn = Turn(1, state.observation(1), state.legal_actions, state.information_state(1))
    assert make_opponent("encounters:soft-kind", game).distribution(turn) == pytest.approx(
        {"cooperate": 0.95, "defect": 0.05}
    )
    assert make_opponent("encounters:kind", game).distribution(turn) == {"cooperate": 1.0}
    assert game.describe_opponent("encounters:soft-proud") == (
        "The other player is proud. It always defects, accepts half of a pie or more and offers 3 slices. "
        "In one move of ten it does anything else."
    )
    soft = headroom(game, "pool:encounters/soft", seat="first")
    assert 0 < soft.reachable < soft.adaptation < 0.125
    for wrong in ("encounters:rude", "encounters:soft-rude"):
        with pytest.raises(ValueError, match="'.*rude' is unknown"):
            make_opponent(wrong, game)
    with pytest.raises(ValueError, match="is no person"):
        game.describe_opponent("uniform")


@pytest.mark.parametrize("games", [[], ["chess"], ["stag", "stag"]])
def test_bad_games(games) -> None:
    with pytest.raises(ValueError, match="must be different kinds of: dilemma, stag"):
        Encounters(games)


def test_further_games() -> None:
    game = Encounters(list(ENCOUNTERS))
    assert {game.series_state(np.random.default_rng(0), number).kind for number in range(8)} == set(ENCOUNTERS)
    for name in CHARACTERS:
        assert 0 <= min(policy_value(game, ("uniform", f"encounters:{name}"))) <= 1
    check_id("mage/Encounters-v0", games=["bargain", "inspect", "throw"], opponent="encounters:proud")


def test_transfer(capsys) -> None:
    gains = dict(zip(GAMES, np.round(transfer(Encounters(), POOL), 9), strict=True))
    assert gains["dilemma"].tolist() == [0.05, 0.25, 0.125, 0.1, 0.0]
    # The value of two games in this order equals the output of the command.
    assert main(["headroom", "--transfer", "Encounters"]) == 0
    (row,) = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("dilemma")]
    assert row[1:] == ["0.050", "0.250", "0.125", "0.100", "0.000"]
    assert main(["headroom", "--transfer", "KuhnPoker"]) == 2
    assert "is not a series of tasks from a table" in capsys.readouterr().err


def test_references(solution) -> None:
    """Known and blind play their exact values; the memory of another person costs."""
    panel = named_panel("encounters-related-128")
    setting = Setting(panel, "x", {"reveal_opponent": True, "memory": "none"})
    rows = {}
    for name in ("blind", "known", "wrong"):
        trajectories = evaluate(make_agent(f"policy:{name}:encounters/all"), setting.tasks, setting.options)
        overall = summarise(trajectories, Encounters(), weights=panel.weights()).overall
        rows[name] = [episode.returns.estimate for episode in overall.episodes]
        assert not overall.failures
        # The same games in every episode, and nothing remembered.
        assert overall.gain.mean == pytest.approx(0, abs=1e-12)
    for name in ("blind", "known"):
        assert rows[name][0].low <= getattr(solution, name) <= rows[name][0].high
    assert rows["wrong"][2].mean < rows["blind"][2].mean
    with pytest.raises(RuntimeError, match="reveal_opponent=True"):
        evaluate(make_agent("policy:known:encounters/all"), setting.tasks[:1], {})
