"""Games with tasks of their own: ids, categories, and the turn limits of the protocols."""

from __future__ import annotations

from dataclasses import dataclass, replace

import gymnasium as gym
import numpy as np
import pytest

from mage_envs import Game, GameSettings, GameSpec, IllegalAction, State, Task, make_game, register_game
from mage_envs.benchmarks import summarise, table
from mage_envs.text.generation import Completion, Prompt
from mage_envs.trainer.method.metrics import rollout_metrics
from mage_envs.wrappers.make import make_env, make_meta_env
from mage_envs.wrappers.rollout.loop import RolloutSpec, collect

WORDS = {"an-1": "apple", "an-2": "anvil", "b-1": "bread"}


@dataclass(frozen=True)
class Spelling(State):
    """One task, said or not."""

    task_id: str
    is_said: bool = False

    @property
    def player(self) -> int | None:
        return None if self.is_said else 0

    @property
    def legal_actions(self) -> tuple[str, ...]:
        return () if self.is_said else (WORDS[self.task_id],)

    @property
    def returns(self) -> tuple[float, ...]:
        return (float(self.is_said),)

    @property
    def category(self) -> str:
        return "an" if self.task_id.startswith("an") else "a"

    def observation(self, seat: int) -> str:
        return WORDS[self.task_id]

    def after(self, action: str) -> Spelling:
        if action != WORDS[self.task_id]:
            raise IllegalAction(action, self.legal_actions)
        return replace(self, is_said=True)

    def metrics(self) -> dict[str, float]:
        return {"letters": float(len(WORDS[self.task_id]))}


class Spell(Game):
    """Say the word: a task is a word, its category the article it takes."""

    spec = GameSpec(name="Spell", players=1, rules="Say the word that is shown.", max_turns=5)

    def initial_state(self, rng: np.random.Generator) -> Spelling:
        return Spelling(sorted(WORDS)[int(rng.integers(len(WORDS)))])

    def task_state(self, task_id: str, rng: np.random.Generator) -> Spelling:
        if task_id not in WORDS:
            raise ValueError(f"Spell has no task {task_id!r}.")
        return Spelling(task_id)


@pytest.fixture(scope="module", autouse=True)
def _register_spell():
    register_game("Spell", Spell, settings=GameSettings(turn_limits={"task": 3, "released": 2}))


class Echo:
    """Answers with the first legal action."""

    def generate(self, prompts: list[Prompt]) -> list[Completion]:
        return [Completion(f"<action>{prompt.legal_actions[0]}</action>") for prompt in prompts]


@pytest.mark.parametrize("kind", ["v0", "Meta-v0"])
def test_a_task_is_chosen_by_its_id_for_one_reset(kind):
    env = gym.make(f"mage/Spell-{kind}")
    drawn_words = [env.reset(seed=seed)[1]["private"]["task"] for seed in range(12)]
    assert set(drawn_words) == set(WORDS)
    for task in WORDS:
        observation, info = env.reset(seed=0, options={"task": task})
        assert WORDS[task] in observation
        assert (info["private"]["task"], info["private"]["category"]) == (task, "an" if task.startswith("an") else "a")
        assert info["private"]["metrics"] == {"letters": 5.0}
    assert [env.reset(seed=seed)[1]["private"]["task"] for seed in range(12)] == drawn_words
    with pytest.raises(ValueError, match="Spell has no task 'c-1'"):
        env.reset(seed=0, options={"task": "c-1"})


def test_games_without_tasks_say_so():
    with pytest.raises(ValueError, match="KuhnPoker has no tasks to choose from. Remove task='x'."):
        gym.make("mage/KuhnPoker-v0").reset(options={"task": "x"})
    assert "task" not in gym.make("mage/KuhnPoker-v0").reset(seed=0)[1]


@pytest.mark.parametrize(
    ("make_spell_env", "limit"),
    [
        (lambda: make_env("Spell"), 5),
        (lambda: make_meta_env("Spell"), 3),
        (lambda: make_meta_env("Spell", protocol="paper"), 2),
        (lambda: make_meta_env("Spell", protocol="paper", max_turns=4), 4),
        (lambda: make_meta_env("KuhnPoker", protocol="paper"), 6),
    ],
)
def test_turn_limits(make_spell_env, limit):
    assert make_spell_env().unwrapped.max_turns == limit


def test_a_rollout_keeps_task_category_and_metrics():
    env = gym.make("mage/Spell-Meta-v0", memory="none")
    specs = [RolloutSpec(Task("mage/Spell-Meta-v0", seed=seed, task_id=task)) for seed, task in enumerate(WORDS)]
    trajectories = collect([env], Echo(), specs)
    assert [t.category for t in trajectories] == ["an", "an", "a"]
    assert all(e.success and e.metrics == {"letters": 5.0} for t in trajectories for e in t.episodes)
    metrics = rollout_metrics(trajectories)
    assert metrics["success/episode_1/an"] == metrics["success/episode_3/a"] == 1.0
    assert metrics["metrics/letters/episode_2"] == 5.0
    summary = summarise(trajectories, make_game("Spell"))
    assert [(row.opponent, row.meta_episodes, round(row.weight, 3)) for row in summary.rows] == [
        ("an", 2, 0.667),
        ("a", 1, 0.333),
    ]
    lines = table(summary).splitlines()
    assert lines[3].startswith("tasks ")
    assert lines[-5].split() == ["tasks", "letters", "1", "letters", "2", "letters", "3"]
    assert lines[-1].split() == ["all", "5.000", "5.000", "5.000"]
