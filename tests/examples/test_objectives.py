"""The study of credits: its optima, its exact evaluation, its runs in small."""

from __future__ import annotations

import json
import os

os.environ["HF_HUB_OFFLINE"] = "1"

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch

from examples.objectives import study
from examples.objectives.__main__ import complete, keep, load_result, main, rows_of
from examples.objectives.exact_play import ExactPlay
from examples.objectives.figure import COLOURS, draw
from examples.objectives.learning import Learning, config_of
from examples.objectives.report import LearnedRow, build_row, contrasts, table
from examples.objectives.study import ABLATIONS, GAMES, LEARNERS, StudyRun, gigpo_weights
from examples.objectives.welch import difference
from mage_envs import make_game
from mage_envs.benchmarks.evaluation.scoring.paired import holm
from mage_envs.core import Task
from mage_envs.opponents.exact import bayes_value, headroom
from mage_envs.text.words.vocabulary import vocabulary
from mage_envs.trainer import MAGEConfig
from mage_envs.trainer.backends.cached import CachedGenerator
from mage_envs.trainer.backends.local_model import Sampling
from mage_envs.trainer.backends.tiny import tiny_model, tiny_tokenizer
from mage_envs.trainer.backends.tokens import ChatTokenizer
from mage_envs.trainer.method.advantages import CreditConfig, compute_advantages
from mage_envs.trainer.trl.setup import env_maker, pool_weights
from mage_envs.wrappers.rollout.loop import RolloutSpec, collect
from mage_envs.wrappers.rollout.trajectory import EpisodeResult, Step, Trajectory

ULTIMATUM, DILEMMA = GAMES
SMALL = replace(DILEMMA, options={"rounds": 1}, decisions=1, training={"groups_per_rollout": 2})
"""Of one round, so that a meta-episode has three decisions."""
RESULTS = Path(study.__file__).parents[2] / "benchmarks" / "results"
BY_NAME = {learner.name: learner for learner in LEARNERS}


def small_run(seed: int, learner: str = "differential, gt .6") -> StudyRun:
    return StudyRun(game=SMALL, learner=BY_NAME[learner], seed=seed, rollouts=2)


@pytest.fixture
def threads() -> Iterator[None]:
    threads_before = torch.get_num_threads()
    yield
    torch.set_num_threads(threads_before)


@pytest.mark.parametrize(
    ("game", "learner", "episodes"),
    [
        (ULTIMATUM, "single episode", (0.3125, 0.3875, 0.4125)),
        (ULTIMATUM, "cumulative, gt .6", (0.3, 0.4125, 0.4375)),
        (ULTIMATUM, "differential, gt .6", (0.3, 0.3625, 0.4875)),
        (ULTIMATUM, "final episode", (0.3, 0.3, 0.5)),
        (DILEMMA, "single episode", (46 / 15, 47 / 15, 47 / 15)),
        (DILEMMA, "differential, gt .6", (43 / 15, 3.4, 3.4)),
        (DILEMMA, "differential, GRPO", (46 / 15, 43 / 15, 3.4)),
        (DILEMMA, "differential, GiGPO", (46 / 15, 47 / 15, 47 / 15)),
    ],
)
def test_the_optimum_is_the_exact_value(game, learner, episodes):
    assert game.optimum(BY_NAME[learner].credit) == pytest.approx(episodes, abs=1e-12)


def test_the_optima_are_those_of_headroom():
    for game in GAMES:
        weights = BY_NAME["cumulative, gt .6"].weights
        exact = headroom(make_game(game.game, **game.options), _pool(game), seat="first", weights=weights)
        for name, row in {
            "single episode": "myopic",
            "cumulative, gt .6": "own",
            "cumulative, gt 1": "sum",
            "differential, gt .6": "mage",
            "final episode": "last",
        }.items():
            assert game.optimum(BY_NAME[name].credit) == pytest.approx(exact.per_episode[row], abs=1e-12)


def _pool(game):
    return {"ultimatum": "pool:ultimatum/reserves", "dilemma": "pool:pd/classic"}[game.name]


def test_weights_by_the_episode_of_the_decision():
    """A row that pays the present episode alone is the myopic learner, equal rows are one weight for each episode."""
    game, pool = make_game("PrisonersDilemma", rounds=2, noise=0.1), "pool:pd/classic"

    def value(credit: Any) -> tuple[float, ...]:
        return bayes_value(game, pool, credit=credit, seat="first").per_episode

    assert value(np.eye(3)) == value("myopic")
    assert value(np.tile((0.2, 0.3, 0.5), (3, 1))) == value((0.2, 0.3, 0.5))
    with pytest.raises(ValueError, match=r"which sum to \[1\. +0\.5 +1\. *\]"):
        value(((1, 0, 0), (0, 0.5, 0), (0, 0, 1)))


def make_trajectory(rewards: tuple[float, ...], member: int) -> Trajectory:
    steps = tuple(
        Step(episode=k, phase="play", turn=0, hand=0, anchor="the same", action="x", reward=r, hand_end=True)
        for k, r in enumerate(rewards)
    )
    episodes = tuple(
        EpisodeResult(reward=reward, value=reward, hands=1, success=True, timeout=False, seats=(0,))
        for reward in rewards
    )
    return Trajectory(
        task=Task("test"),
        opponent="x",
        group=0,
        member=member,
        steps=steps,
        episodes=episodes,
        num_episodes=len(rewards),
    )


def group(rewards: np.ndarray) -> list[Trajectory]:
    return [make_trajectory(tuple(map(float, row)), member) for member, row in enumerate(rewards)]


@pytest.mark.parametrize("step_weight", [1.0, 4.0])
@pytest.mark.parametrize("returns", ["differential", "cumulative"])
def test_what_gigpo_makes_larger(step_weight, returns):
    """By how much a member's advantage at a decision grows with its returns from there on, up to a factor."""
    config = CreditConfig(returns=returns, advantage="gigpo", gamma_step=1.0, step_weight=step_weight)
    rewards = np.random.default_rng(0).random((8, 3))
    base = np.array(compute_advantages(group(rewards), config)[0][0])
    slopes = np.zeros((3, 3))
    for episode in range(3):
        changed = rewards.copy()
        changed[0, episode] += 1
        slopes[:, episode] = np.array(compute_advantages(group(changed), config)[0][0]) - base
    slopes = np.triu(slopes)
    assert slopes / slopes.sum(axis=1, keepdims=True) == pytest.approx(
        np.array(gigpo_weights(0.6, step_weight, returns)), abs=1e-9
    )


@pytest.mark.parametrize(("step_weight", "episodes"), [(2.4, (46 / 15, 47 / 15, 47 / 15)), (2.6, (43 / 15, 3.4, 3.4))])
def test_gigpo_explores_in_the_dilemma_from_a_step_weight_of_two_and_a_half_on(step_weight, episodes):
    assert DILEMMA.optimum(gigpo_weights(0.6, step_weight)) == pytest.approx(episodes, abs=1e-12)


def test_grpo_of_differential_rewards_is_credit_for_the_final_episode():
    rewards = np.random.default_rng(1).random((8, 3))
    grpo = CreditConfig(returns="differential", advantage="grpo", gamma_step=1.0)
    final = CreditConfig(returns="final", credit="reward", advantage="member_mean", gamma_step=1.0)
    assert np.array(compute_advantages(group(rewards), grpo)[0]) == pytest.approx(
        np.array(compute_advantages(group(rewards), final)[0])
    )


def test_the_exact_evaluation_of_a_model(tmp_path):
    """A uniform player earns (4 + 4 + 4 + 4 + 1/2) / 5 in each round; any other what its sampled play earns."""
    config = config_of(small_run(0), tmp_path)
    tokenizer = tiny_tokenizer(vocabulary(make_game("PrisonersDilemma", rounds=1)))
    tokens = ChatTokenizer(tokenizer)
    exact = ExactPlay(config, tokens, decisions=3, answers=2)
    model = tiny_model(len(tokenizer), seed=3, initializer_range=0.5)
    sampled = _sample_values(config, CachedGenerator(model, tokens, Sampling(1, constrained=True)), 400)
    errors = sampled.std(axis=0, ddof=1) / np.sqrt(len(sampled))
    assert np.abs(exact.values(model) - sampled.mean(axis=0)).max() < 3 * errors.max()
    assert np.abs(exact.values(model) - 3.3).max() > 0.2
    with torch.no_grad():
        model.lm_head.weight.zero_()
    assert exact.values(model) == pytest.approx([3.3] * 3, abs=1e-6)
    with pytest.raises(ValueError, match="A decision has 2 answers, not 3"):
        ExactPlay(config, tokens, decisions=3, answers=3)
    with pytest.raises(ValueError, match="must have 4 decisions"):
        ExactPlay(config, tokens, decisions=4, answers=2)


def _sample_values(config: MAGEConfig, generator: CachedGenerator, num_each: int) -> np.ndarray:
    pool = pool_weights(config)
    assert pool is not None
    specs = [RolloutSpec(Task(config.env_id, name, None, seed), seed) for name in pool for seed in range(num_each)]
    envs = [env_maker(config)() for _ in range(200)]
    return np.array([[episode.value for episode in t.episodes] for t in collect(envs, generator, specs)])


@pytest.mark.more
def test_runs_continue_where_they_stopped(tmp_path, threads):
    """A stored run is not repeated, and a worker computes exactly the figures of this process."""
    runs = [small_run(0), small_run(1)]
    learning = Learning()
    complete_runs = {run.name: learning(run) for run in runs}
    keep(runs[0], tmp_path, complete_runs[runs[0].name])
    messages: list[str] = []
    finished_runs = complete(runs, tmp_path, 1, lambda text, milestone: messages.append(text))
    assert messages[0] == "1 of 2 runs were done before"
    assert messages[1].startswith(f"2 of 2 runs; {runs[1].name}: ")
    for run in runs:
        assert {**finished_runs[run.name], "seconds": 0} == {**complete_runs[run.name], "seconds": 0}
        assert len(finished_runs[run.name]["curve"]) == 2
    rows = rows_of([SMALL], [runs[0].learner], runs, finished_runs)
    assert rows[0].mean == pytest.approx(np.mean([complete_runs[run.name]["episodes"] for run in runs], axis=0))
    assert rows[0].optimum == SMALL.optimum("mage")
    assert complete(runs, tmp_path, 1, lambda text, milestone: None) == finished_runs


def test_a_run_of_other_settings_is_done_again(tmp_path, monkeypatch):
    run = small_run(0)
    keep(run, tmp_path, {"episodes": [0.0]})
    assert load_result(run, tmp_path) == {"episodes": [0.0]}
    shorter_run = replace(run, rollouts=1)
    assert shorter_run.name == run.name
    assert load_result(shorter_run, tmp_path) is None
    assert load_result(small_run(1), tmp_path) is None
    monkeypatch.setattr(study, "WORDS", {**study.WORDS, "adam_beta2": 0.9})
    assert load_result(run, tmp_path) is None


def test_the_table(tmp_path):
    curves = {
        seed: {"episodes": [2.8 + seed * 0.1, 3.3, 3.36], "curve": [[2.0, 2.5, 3.0]], "seconds": 10.0}
        for seed in range(2)
    }
    row = build_row(DILEMMA, BY_NAME["differential, gt .6"], curves)
    assert row.mean == pytest.approx((2.85, 3.3, 3.36))
    assert row.deviation == pytest.approx((0.1 / 2**0.5, 0, 0))
    assert row.short == pytest.approx(0.4 * (43 / 15 - 2.85) + 0.24 * 0.1 + 0.36 * 0.04)
    assert row.short_last == pytest.approx(0.04)
    assert row.reached
    text = table([row], GAMES)
    assert "2.850 +-0.071  3.300 +-0.000  3.360 +-0.000  2.867 3.400 3.400" in text
    assert "ultimatum (" not in text
    draw(tmp_path / "figure.png", [row], [DILEMMA])
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(("name", "learners"), [("objectives", LEARNERS), ("objectives_ablations", ABLATIONS)])
def test_the_committed_tables_are_those_of_their_numbers(name, learners):
    rows = [LearnedRow(**row) for row in json.loads((RESULTS / f"{name}.json").read_text())["rows"]]
    assert (RESULTS / f"{name}.txt").read_text() == table(rows, GAMES)
    assert [(row.game, row.learner) for row in rows] == [
        (game.name, game_learner.name) for game in GAMES for game_learner in learners
    ]
    assert len({tuple(row.seeds) for row in rows}) == 1, "all rows have the same seeds"
    assert len(COLOURS) >= len(learners)


def test_welchs_test_is_that_of_textbooks():
    """A worked example with unequal variances and counts."""
    first_sample, second_sample = [27.5, 21.0, 19.0, 23.6, 17.0, 17.9], [27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0]
    samples = [(float(np.mean(x)), float(np.std(x, ddof=1)), len(x)) for x in (first_sample, second_sample)]
    welch = difference(*samples)
    reference = scipy.stats.ttest_ind(first_sample, second_sample, equal_var=False)
    assert welch.p == pytest.approx(reference.pvalue, rel=1e-12)
    assert (welch.low, welch.high) == pytest.approx(tuple(reference.confidence_interval()), rel=1e-12)
    assert difference((1.0, 0.0, 3), (0.5, 0.0, 3)).p == 0
    assert difference((1.0, 0.0, 3), (1.0, 0.0, 3)).p == 1


def test_differences_have_intervals_and_one_family():
    rows = [LearnedRow(**row) for row in json.loads((RESULTS / "objectives.json").read_text())["rows"]]
    compared = contrasts(rows)
    chances = []
    for first_row, second_row, difference_row in compared:
        sides = [(row.mean[-1], row.deviation[-1], len(row.seeds)) for row in (first_row, second_row)]
        reference = scipy.stats.ttest_ind_from_stats(*sides[0], *sides[1], equal_var=False)
        assert difference_row.p == pytest.approx(reference.pvalue, abs=1e-9)
        assert (difference_row.low < 0 < difference_row.high) == (difference_row.p > 0.05)
        chances.append(difference_row.p)
    assert {row.game for row, _, _ in compared} == {"ultimatum", "dilemma"}
    printed = table(rows, GAMES).splitlines()
    (start,) = (index for index, line in enumerate(printed) if line.startswith("differences"))
    for line, p in zip(printed[start + 2 :], holm(chances), strict=False):
        assert line.split("  ")[-1].strip() == ("< .0001" if p < 0.0001 else f"{p:.4f}")
    single_seeds = [replace(row, seeds=(0,)) for row in rows]
    assert "differences" not in table(single_seeds, GAMES), "one seed says nothing of the spread"


def test_names_are_files_names_and_differ():
    runs = [StudyRun(game=game, learner=learner, seed=0) for game in GAMES for learner in (*LEARNERS, *ABLATIONS)]
    names = {run.name for run in runs}
    assert len(names) == len({(run.game.name, run.learner.name) for run in runs})
    assert not any(character in name for name in names for character in "/, ")


def test_a_mistake_is_one_line(capsys):
    with pytest.raises(SystemExit) as exit_info:
        main(["--seeds", "0"])
    assert exit_info.value.code == 2
    assert "--seeds, --workers and --rollouts must be at least 1." in capsys.readouterr().err.splitlines()[-1]
