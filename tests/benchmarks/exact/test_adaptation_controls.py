"""`mage adapt --controls`: paired runs beside the main one, and the difference of the same tasks."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest

from mage_envs.benchmarks.evaluation.run.agents import GeneratorAgent, PolicyAgent, make_agent
from mage_envs.benchmarks.evaluation.run.evaluate import evaluate
from mage_envs.benchmarks.evaluation.run.options import PlayOptions
from mage_envs.benchmarks.evaluation.suites.adapt import CELLS
from mage_envs.benchmarks.evaluation.suites.panels import Panel, cell_panel, named_panel
from mage_envs.benchmarks.evaluation.suites.pool_texts import description_of, has_description
from mage_envs.benchmarks.evaluation.suites.rows import SuiteRow
from mage_envs.benchmarks.evaluation.suites.setting import Setting
from mage_envs.benchmarks.exact.recorded_generator import WatchedGenerator
from mage_envs.benchmarks.records.about import setting_of
from mage_envs.benchmarks.records.controls import apply_control
from mage_envs.benchmarks.records.record_store import Records
from mage_envs.benchmarks.runs.adapt_suite import controls_of
from mage_envs.benchmarks.runs.measuring import measure
from mage_envs.benchmarks.scale.adapt_table import PAIRED
from mage_envs.benchmarks.scale.adaptation import CellValues, PlayedValue, ScaledRun, run_of_cell
from mage_envs.benchmarks.scale.scale import Scale
from mage_envs.benchmarks.scale.stored_suites import cell_scale
from mage_envs.cli.program import main
from mage_envs.core import Task, Turn
from mage_envs.opponents import register_pool
from mage_envs.registry import make_game
from mage_envs.text.styles import NeutralWords
from mage_envs.wrappers.rollout.trajectory import Trajectory
from tests.wrappers.test_neutral import LORE

MAIN = SuiteRow("described", "scripted:random", memory="history", pool="described")


def test_a_control_plays_the_cells_that_have_it_with_the_options_of_the_main_run():
    columns = {column.name: column for column in controls_of(MAIN, tuple(PAIRED), tuple(CELLS))}
    assert list(columns) == list(PAIRED)
    missing_cells = {name: set(CELLS) - set(column.agent) for name, column in columns.items()}
    # Negative controls have no scale.
    controls = {name for name, cell in CELLS.items() if cell.control}
    assert missing_cells == dict.fromkeys(PAIRED, controls)
    assert {name: column.source for name, column in columns.items()} == {
        "neutral": None,
        "none": None,
        "other": "described",
        "same": "described",
    }
    assert {(column.memory, column.pool) for column in columns.values()} == {("history", "described")}
    assert columns["neutral"].env_kwargs == {"style": "neutral"}
    assert columns["neutral"].control is None


def test_neutral_words_cover_the_descriptions_of_the_pools():
    for cell in CELLS.values():
        words = make_game(cell.game, **cell.options).spec
        if has_description(cell.pool) and words.neutral:
            text = NeutralWords(words).rename(description_of(cell.pool))
            assert (match := LORE.search(text)) is None, f"{match} in {text}"
            assert not re.search(r"\ban [^aeiou]", text), text


def run_of(totals: dict[int, float], episodes: dict[int, tuple[float, ...]], tasks: int = 4) -> ScaledRun:
    """Return a run of one opponent with these values."""
    scale = Scale(
        no_memory=(0.0,) * 3,
        best_learner=(0.0, 1.0, 1.0),
        knows_opponent=(1.0,) * 3,
        most_in_last=1.0,
        hands=1,
        min_return=-1.0,
        max_return=1.0,
    )
    planned = [Task(env_id="mage/KuhnPoker-Meta-v0", seed=seed, opponent="kuhn/nash", seat=0) for seed in range(tasks)]
    played_values = {i: PlayedValue(total=totals[i], episodes=episodes[i], paid=episodes[i]) for i in totals}
    return ScaledRun(
        unit="chips", hands=1, scale=scale, tasks=planned, weights={"kuhn/nash": 1.0}, values=played_values
    )


def test_the_difference_is_that_of_the_same_tasks():
    values = {i: (9.0 * i, float(i), 2.0 * i) for i in range(4)}
    own_run = run_of(dict.fromkeys(values, 1.0), values)
    other_run = run_of(
        dict.fromkeys(values, 0.0),
        {i: (0.0, first_value - 0.5, second_value - 0.5) for i, (_, first_value, second_value) in values.items()},
    )
    difference = own_run.difference(other_run)
    # Half a point in both later episodes of every task, on a scale of length 2: no luck is left, although the values
    # of the tasks differ a lot. In the first episode no memory exists yet.
    assert difference is not None
    assert (difference.mean, difference.half) == pytest.approx((0.5, 0.0), abs=1e-12)
    level = own_run.level_difference(other_run)
    assert level is not None
    assert level.mean == pytest.approx(0.5)


def test_a_task_that_failed_in_one_of_the_runs_has_no_partner():
    values = dict.fromkeys(range(4), (0.0, 0.5, 0.5))
    own_run = run_of(dict.fromkeys(values, 1.0), values)
    part = run_of({0: 0.0, 1: 0.0, 2: 0.0}, dict.fromkeys(range(3), (0.0, 0.0, 0.0)))
    difference = own_run.difference(part)
    assert difference is not None
    assert (difference.failed, difference.planned) == (1, 4)
    # A difference is at most two episodes of -1 against 1, on a scale of length 2.
    assert (difference.worst, difference.best) == pytest.approx(((3 * 0.5 - 2) / 4, (3 * 0.5 + 2) / 4))
    assert part.episode_value(0) is None


def test_an_answer_without_a_legal_action_costs_the_same_in_every_game():
    values = dict.fromkeys(range(4), (0.0, 0.5, 0.5))
    sound, none = run_of(dict.fromkeys(values, 1.0), values), run_of(dict.fromkeys(values, 0.0), values)
    # Two such answers in every meta-episode, one of them in the first episode.
    spoiled = replace(
        sound, values={i: played_value._replace(unusable=(1, 0, 1)) for i, played_value in sound.values.items()}
    )
    level, less = spoiled.level(), spoiled.level_difference(sound)
    difference = spoiled.difference(none)
    assert level is not None
    assert less is not None
    assert difference is not None
    assert (sound.unusable, spoiled.unusable) == (0, 8)
    assert level.mean == pytest.approx(0.5 - 2 * 0.1)
    assert less.mean == pytest.approx(-2 * 0.1)
    assert difference.mean == pytest.approx(-0.1)
    # No level is below that of the least return in every hand: three episodes of -1 on a scale of length 2.
    lost = replace(
        sound, values={i: played_value._replace(unusable=(99, 0, 0)) for i, played_value in sound.values.items()}
    )
    level = lost.level()
    assert level is not None
    assert level.mean == pytest.approx(-1.5)


class Stutters:
    """A policy whose second answer in each meta-episode names no action."""

    def __init__(self, policy: Any) -> None:
        self.policy, self.asked = policy, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.policy, name)

    def on_meta_episode_start(self) -> None:
        self.asked = 0
        self.policy.on_meta_episode_start()

    def reset(self, rng: np.random.Generator) -> None:
        self.policy.reset(rng)

    def act(self, turn: Turn) -> str:
        self.asked += 1
        return "Hm." if self.asked == 2 else str(self.policy.act(turn))


@pytest.mark.more
@pytest.mark.parametrize("name", ["ultimatum", "inspection", "noisy", "kuhn", "keys"])
def test_a_best_learner_that_stutters_once_loses_a_tenth_of_a_level(name: str) -> None:
    cell = CELLS[name]
    panel = cell_panel(cell, 8)
    options = {**panel.env_kwargs, "memory": "history"}
    spec = cell.agent("bayes")
    assert spec is not None
    policy = make_agent(spec).policy
    agent = PolicyAgent(lambda game: Stutters(policy(game)), "stutters")
    watched = WatchedGenerator(agent.generator(make_game(cell.game, **cell.options)))
    trajectories = evaluate(GeneratorAgent(watched, agent.name), panel.tasks(), options, batch=64)
    values = CellValues(panel.env_id, options, panel.weights())
    judged_values = {slot: values.of(trajectory, watched.seen[slot, 0]) for slot, trajectory in enumerate(trajectories)}
    run = run_of_cell(cell, cell_scale(name), panel.tasks(), judged_values)
    level = run.level()
    assert level is not None
    assert run.unusable == len(panel.tasks())
    assert level.mean == pytest.approx(0.9)


# -- a policy without memory, and with another opponent's -------------------------------------------------------


def play(spec: str, memory: str, folder=None, seed: int = 3) -> list[Trajectory]:
    """Return the meta-episodes of a policy in Kuhn Poker with two opponents."""
    panel = Panel(
        env_id="mage/KuhnPoker-Meta-v0",
        about="",
        seed=seed,
        rows_per_cell=2,
        opponents={"kuhn/rock": 0.5, "kuhn/maniac": 0.5},
        seats=(0, 1),
        size=0,
    )
    setting = Setting(panel, f"seed {seed}", {"memory": memory, "num_episodes": 3})
    if folder is not None:
        measure(replace(PlayOptions(), out=folder, baselines=False), make_agent(spec), setting, spec)
    return evaluate(make_agent(spec), setting.tasks, setting.options)


def first_actions(trajectory: Trajectory) -> list[str | None]:
    """Return the actions of the first episode."""
    return [step.action for step in trajectory.steps if step.episode == 0 and step.phase == "play"]


class Counter:
    """A policy that reports at each decision how many hands it remembers."""

    log: ClassVar[list[tuple[int, int]]] = []

    def __init__(self) -> None:
        self.hands = 0

    def reset(self, rng: np.random.Generator) -> None: ...

    def act(self, turn: Turn) -> str:
        type(self).log.append((turn.episode, self.hands))
        return turn.legal_actions[0]

    def on_hand_end(self, turn: Turn) -> None:
        self.hands += 1


def test_a_policy_without_memory_is_new_in_each_episode(monkeypatch):
    monkeypatch.setattr(Counter, "log", [])
    agent = PolicyAgent(lambda game: Counter(), "counter")
    tasks = named_panel("kuhn-paper-16").tasks()[:4]
    evaluate(agent, tasks, {"memory": "history", "num_episodes": 3, "hands_per_episode": 2})
    assert {(episode, hands) for episode, hands in Counter.log} == {(k, 2 * k + j) for k in range(3) for j in range(2)}
    Counter.log.clear()
    evaluate(agent, tasks, {"memory": "none/history", "num_episodes": 3, "hands_per_episode": 2})
    assert {(episode, hands) for episode, hands in Counter.log} == {(k, j) for k in range(3) for j in range(2)}


def test_a_learner_with_another_opponents_memory_plays_against_the_wrong_one(tmp_path):
    """A Bayes player identifies a rock or a maniac after one hand, and plays the other one's best response."""
    spec = "policy:bayes:kuhn/two,3,1,sum"
    register_pool("kuhn/two", {"kuhn/rock": 0.5, "kuhn/maniac": 0.5})
    own_trajectories = play(spec, "history", tmp_path / "own")
    setting = setting_of(Records(tmp_path / "own").about)
    changed = apply_control(setting, "other", str(tmp_path / "own"), by_policy=True)
    misled = evaluate(make_agent(spec), changed.tasks, changed.options)
    forgets = play(spec, "none/history")
    for mine, misled_trajectory, none in zip(own_trajectories, misled, forgets, strict=True):
        # No memory exists yet in the first episode.
        first_plays = [
            [step.action for step in trajectory.steps if step.episode == 0 and step.phase == "play"]
            for trajectory in (mine, misled_trajectory, none)
        ]
        assert first_plays[0] == first_plays[1] == first_plays[2]
    totals = [
        sum(sum(e.value for e in trajectory.episodes[1:]) for trajectory in runs)
        for runs in (own_trajectories, misled, forgets)
    ]
    assert totals[0] > totals[2] > totals[1]
    # Each member of a source has other turns than the meta-episode that is judged with its memory.
    misled_by_opponent = {trajectory.opponent: trajectory for trajectory in misled}
    assert set(misled_by_opponent) == {"kuhn/rock", "kuhn/maniac"}


def test_equal_controls_have_equal_bytes(tmp_path):
    spec = "policy:counting"
    play(spec, "history", tmp_path / "own")
    setting = setting_of(Records(tmp_path / "own").about)
    changed = [apply_control(setting, "other", str(tmp_path / "own"), by_policy=True) for _ in range(2)]
    assert changed[0].options["memory"] == changed[1].options["memory"]
    runs = [
        evaluate(make_agent(spec), run_setting.tasks, run_setting.options, batch=batch)
        for run_setting, batch in zip(changed, (1, 8), strict=True)
    ]
    actions = [[[step.action for step in run_setting.steps] for run_setting in run] for run in runs]
    assert actions[0] == actions[1]


def test_bad_controls_are_refused(capsys):
    for names in ("frozen", "none,none", "none,"):
        assert main(["adapt", "scripted:random", "--suite", "adapt-mini", "--controls", names]) == 2
        assert "--controls expects different names of none, other, neutral, same" in capsys.readouterr().err
