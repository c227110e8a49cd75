"""Opponents that learn or change, in play: in each kind of environment, and what exact values promise about them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import gymnasium as gym
import numpy as np
import pettingzoo
import pytest

import mage_envs  # noqa: F401
from mage_envs.benchmarks.evaluation.run.agents import make_agent
from mage_envs.benchmarks.evaluation.run.evaluate import evaluate
from mage_envs.core import Task, Turn, hand_results
from mage_envs.games.matching_pennies import MatchingPennies
from mage_envs.games.prisoners_dilemma import PrisonersDilemma
from mage_envs.match import play_match
from mage_envs.opponents import as_pool, list_kinds, make_opponent
from mage_envs.opponents.exact import headroom
from mage_envs.opponents.learning.hazard import Hazard
from mage_envs.registry import make_game, settings_of
from tests.packages import mark_params

PENNIES, DILEMMA = MatchingPennies(), PrisonersDilemma(rounds=3)


def play_meta(opponent: str, answers: list[str], **options: Any) -> list[str]:
    """Return the opponent's choices in a meta-episode of the dilemma, one string of c and d per episode."""
    env = gym.make(
        "mage/PrisonersDilemma-Meta-v0", opponent=opponent, memory="none", rounds=3, num_episodes=3, **options
    )
    _, info = env.reset(seed=1)
    results, terminated, answer = [], False, iter(answers)
    while not terminated:
        *_, terminated, _, info = env.step(f"<action>{next(answer)}</action>")
        results += [result.information_state for result in hand_results(info)]
    return ["".join(word[4] for word in result.split() if word.startswith("opp-")) for result in results]


@pytest.mark.parametrize(
    ("opponent", "answers", "choices"),
    [
        ("grudge", "ccc cdc ccc", ["ccc", "ccd", "ddd"]),
        ("pd/grim", "ccc cdc ccc", ["ccc", "ccd", "ccc"]),
        ("mirror", "ccd ccc ddd", ["ccc", "dcc", "cdd"]),
        ("deceiver", "cdc ccc ccc", ["ccd", "ccc", "ddd"]),
    ],
)
def test_opponents_remember_across_episodes(opponent: str, answers: str, choices: list[str]) -> None:
    assert play_meta(opponent, list(answers.replace(" ", ""))) == choices


def test_a_new_meta_episode_begins_without_memory() -> None:
    env = gym.make("mage/PrisonersDilemma-Meta-v0", opponent="grudge", memory="none", rounds=1, num_episodes=2)
    for _ in range(2):
        env.reset(seed=0)
        states = []
        for _ in range(2):
            *_, info = env.step("<action>defect</action>")
            states += [result.information_state for result in hand_results(info)]
        assert states == ["defect opp-cooperate", "defect opp-defect"]


def test_vector_environments_keep_the_memories_apart() -> None:
    envs = gym.make_vec(
        "mage/PrisonersDilemma-Meta-v0", num_envs=2, opponent="grudge", memory="none", rounds=1, num_episodes=3
    )
    envs.reset(seed=0)
    for first, second in (("defect", "cooperate"), ("cooperate", "cooperate")):
        *_, infos = envs.step([f"<action>{first}</action>", f"<action>{second}</action>"])
    states = [results[-1]["information_state"] for results in infos["hand_results"]]
    assert states == ["cooperate opp-defect", "cooperate opp-cooperate"]


def test_policies_of_pettingzoo() -> None:
    """A seat of PettingZoo is a loop over turns, in which the user calls the policy."""
    env = pettingzoo.make("aec", "mage/MatchingPennies-v0")
    policy = make_opponent("fictitious:0", PENNIES)
    policy.on_meta_episode_start()
    answers = []
    for seed in range(2):
        env.reset(seed=seed)
        policy.reset(np.random.default_rng(seed))
        for agent in env.agent_iter():
            observation, _, over, _, info = env.last()
            turn = Turn.from_info(info, observation["text"])
            if over:
                if agent == env.possible_agents[1]:
                    policy.on_hand_end(turn)
                env.step(None)
            elif agent == env.possible_agents[0]:
                env.step(env.unwrapped.action_names.index("heads"))
            else:
                answers.append(policy.act(turn))
                env.step(env.unwrapped.action_names.index(answers[-1]))
    # The second player wins if the sides differ, so it answers heads by tails, also in the first round of hand 2.
    assert answers[1:] == ["tails"] * 5


def test_matches_between_two_learners() -> None:
    game = MatchingPennies(rounds=1)
    policies = [make_opponent("fictitious:0", game), make_opponent("winstay", game)]
    returns = play_match(game, policies, np.random.default_rng(3), hands=20).returns[:, 0]
    assert set(returns) == {-1.0, 1.0}


def test_hazard_changes_with_its_probability() -> None:
    hazard = make_opponent("hazard:pd/all-c,pd/all-d,.25", DILEMMA)
    turn = Turn(1, "", ("cooperate", "defect"), "")
    counts: Counter[tuple[bool, ...]] = Counter()
    for seed in range(4000):
        hazard.on_meta_episode_start()
        choices = []
        for episode in range(2):
            hazard.reset(np.random.default_rng([seed, episode]))
            choices.append(hazard.act(turn._replace(episode=episode)) == "defect")
        counts[tuple(choices)] += 1
    # A new draw may return the same policy: the play changes in one of eight cases.
    for choices, share in {(True, True): 7 / 16, (True, False): 1 / 16}.items():
        assert counts[choices] / 4000 == pytest.approx(share, abs=4 * (share * (1 - share) / 4000) ** 0.5)


def test_hazard_keeps_all_memories() -> None:
    hazard = make_opponent("hazard:grudge,pd/all-c,1", PrisonersDilemma(rounds=1))
    assert isinstance(hazard, Hazard)
    hazard.on_meta_episode_start()
    hazard.reset(np.random.default_rng(0))
    hazard.on_hand_end(Turn(1, "", (), "cooperate opp-defect"))
    turn = Turn(1, "", ("cooperate", "defect"), "")
    assert hazard.parts[0].distribution(turn) == {"defect": 1.0}, "also if it did not play that hand"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("hazard:pd/all-c,pd/all-d", r"must end with a probability, as in"),
        ("hazard:pd/all-c,.2", r"needs two opponents or more"),
        ("hazard:pd/all-c,pd/all-d,2", r"the hazard must be between 0 and 1, got 2\.0"),
        ("hazard:pd/all-c,counting:1,.2", r"the probabilities of Counting are not known"),
        ("level:1", r"k must be 2 or more, got 1; the first level is 'fictitious'"),
        ("smooth:0", r"the temperature must be above 0, got 0\.0"),
        ("qlearner:2", r"the probability must be between 0 and 1, got 2\.0"),
    ],
)
def test_bad_arguments(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_opponent(name, DILEMMA)


def test_learners_refuse_games_without_rounds() -> None:
    with pytest.raises(ValueError, match=r"^Opponent 'fictitious' plays MatchingPennies or "):
        make_opponent("fictitious", make_game("KuhnPoker"))


def test_kinds_are_disjoint_and_cover_all() -> None:
    kinds = list_kinds("PrisonersDilemma")
    assert {"grudge", "fictitious", "hazard:first,...,probability"} <= set(kinds["learning"])
    assert "pd/grim" in kinds["fixed"]
    assert "best-response-to:name" in kinds["searching"]
    assert {"llm:model@url", "checkpoint:folder"} == set(kinds["model"])


SETTINGS = (
    ("PrisonersDilemma", {"rounds": 3}, "pd/turning"),
    ("KuhnPoker", {}, "kuhn/learners"),
    ("RockPaperScissors", {"rounds": 2}, "rps/learners"),
    ("Ultimatum", {}, "ultimatum/moods"),
    ("MatchingPennies", {}, "pennies/learners"),
)


@pytest.mark.parametrize(("game", "options", "pool"), mark_params(SETTINGS, step=5))
def test_learners_earn_their_values_in_play(game: str, options: dict[str, Any], pool: str) -> None:
    """No luck adjustment: the means of 300 meta-episodes lie within four standard errors of the exact values."""
    values = headroom(make_game(game, **options), f"pool:{pool}", seat=settings_of(game).seat or "alternate")
    players = {
        f"bayes:{pool},3,1,sum": values.per_episode["sum"],
        f"stationary:{pool},3": values.stationary_per_episode,
        f"blind:{pool},3": values.no_memory_per_episode,
    }
    names = [str(entry) for entry in as_pool(f"pool:{pool}").entries]
    seats = (0,) if settings_of(game).seat == "first" else (0, 1)
    count = 300 // len(names) // len(seats)
    tasks = [
        Task(f"mage/{game}-Meta-v0", opponent=name, seat=seat, seed=seed)
        for name in names
        for seat in seats
        for seed in range(count)
    ]
    env_kwargs = {"memory": "none", "num_episodes": 3, **options}
    for player, exact in players.items():
        trajectories = evaluate(make_agent(f"policy:{player}"), tasks, env_kwargs)
        totals = np.array([sum(episode.value for episode in played.episodes) for played in trajectories])
        error = totals.std() / len(totals) ** 0.5
        assert abs(totals.mean() - sum(exact)) <= 4 * error + 1e-9, player
