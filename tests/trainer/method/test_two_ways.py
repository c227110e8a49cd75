"""Two ways, one trajectory: `collect` and a plain loop over `reset` and `step` see the same prompts, rewards, ends."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from mage_envs import list_games, make_game
from mage_envs.benchmarks.evaluation.run.agents import make_agent
from mage_envs.core import Task
from mage_envs.games.kuhn_poker import KuhnPoker
from mage_envs.text.generation import Completion, Generator, Message, Prompt
from mage_envs.text.parser import Reply
from mage_envs.trainer.backends.play_settings import PlaySettings
from mage_envs.trainer.backends.tiny import general_tiny
from mage_envs.wrappers import MetaEpisode
from mage_envs.wrappers.rollout.loop import RolloutSpec, collect
from tests.contract import OPTIONS
from tests.packages import mark_params
from tests.trainer.rollouts import Asked, answer, specs
from tests.trainer.tiny_runs import save_model

MEMORIES = ("reflection", "history", "both", "none")
CONTEXTS = ("rebuilt", "conversation")
PROTOCOLS = ("adaptive", "paper")
KINDS = ("bare", "wrapped", "subclass")


class Shouting(gym.Wrapper[str, str, str, str]):
    """A user's wrapper: it turns observations into capitals, and counts answers."""

    answers = 0

    def reset(self, **options: Any) -> tuple[str, dict[str, Any]]:
        observation, info = self.env.reset(**options)
        return observation.upper(), info

    def step(self, action: str) -> tuple[str, Any, bool, bool, dict[str, Any]]:
        self.answers += 1
        observation, *outcome = self.env.step(action)
        return observation.upper(), *outcome  # type: ignore[return-value]


class Doubling(MetaEpisode):
    """A user's subclass: its rewards are doubled."""

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, 2 * reward, terminated, truncated, info


def make_test_env(game: str, kind: str, base: dict[str, Any], **options: Any) -> gym.Env[Any, Any]:
    """A Meta id; `base` is for the environment in it, `options` for the meta-episode."""
    env: Any = gym.make(f"mage/{game}-Meta-v0", **base, **options)
    if kind == "subclass":
        return Doubling(env.env, **options)
    return Shouting(env) if kind == "wrapped" else env


def plain(env: gym.Env[Any, Any], spec: RolloutSpec, model: Generator) -> list[tuple[Any, ...]]:
    """Return the prompts, replies, rewards, penalties and reasons of a plain loop.

    At the end of an episode the return and the success are added.
    """
    task_options = {"opponent": spec.task.opponent, "seat": spec.task.seat}
    options = {key: value for key, value in task_options.items() if value is not None}
    observation, info = env.reset(seed=spec.task.seed, options=options or None)
    chat: list[Message] = []
    transcript: list[tuple[Any, ...]] = []
    last_reply: Completion | None = None
    terminated = False
    while not terminated:
        fresh = info["fresh_chat"]
        chat = [*([Message(**message) for message in info["messages"][:-1]] if fresh else chat)]
        chat.append(Message("user", observation))
        prompt = Prompt(
            messages=tuple(chat),
            slot=0,
            seed=(spec.task.seed, spec.member, len(transcript), 0),
            legal_actions=tuple(info["legal_actions"]),
            phase=info["phase"],
            previous=None if fresh else last_reply,
            info=info,
        )
        [last_reply] = model.generate([prompt])
        reply = Reply(
            last_reply.text, truncated=last_reply.truncated, overflow=last_reply.overflow
        )  # what only the model knows
        observation, reward, terminated, _, info = env.step(reply)
        paid = reward if info["episode_end"] else None
        share = info["hand_reward"] + (reward - (info["episode_return"] or 0.0))
        outcome = (share, info["penalty"], info["invalid_reason"], paid, info["success"])
        transcript.append((prompt.messages, last_reply.text, *outcome))
        chat.append(Message("assistant", last_reply.text))
    return transcript


def collect_transcript(env: gym.Env[Any, Any], spec: RolloutSpec, model: Generator) -> list[tuple[Any, ...]]:
    """The same of `collect`."""
    recorder = Asked(lambda prompt: model.generate([prompt])[0])
    [trajectory] = collect([env], recorder, [spec])
    assert trajectory.failure is None
    results = iter(trajectory.episodes)
    transcript: list[tuple[Any, ...]] = []
    for number, (prompt, step) in enumerate(zip(recorder.prompts, trajectory.steps, strict=True)):
        is_last = step.phase == "play" and step.episode not in [
            later_step.episode for later_step in trajectory.steps[number + 1 :] if later_step.phase == "play"
        ]
        result = next(results) if is_last else None
        outcome = (None, None) if result is None else (result.reward, result.success)
        transcript.append((prompt.messages, step.text, step.reward, step.penalty, step.invalid_reason, *outcome))
    return transcript


def make_scripted_reply(prompt: Prompt) -> Completion:
    """A legal action or another text, in tags where the style has them."""
    legal = prompt.legal_actions or ("anything",)
    text = answer(
        Prompt(messages=prompt.messages, slot=prompt.slot, seed=prompt.seed, legal_actions=legal, phase=prompt.phase)
    )
    return Completion(text if prompt.info["answer_tag"] is not None else text.partition(">")[2].partition("<")[0])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("style", ["plain", "words"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("memory", MEMORIES)
def test_every_setting(memory: str, context: str, protocol: str, style: str, kind: str) -> None:
    options = {"memory": memory, "context": context, "style": style, "protocol": protocol, "num_episodes": 2}
    env, second_env = (make_test_env("KuhnPoker", kind, {"hands_per_episode": 2}, **options) for _ in range(2))
    for spec in specs(4, "kuhn/soft-station", 1):
        transcript = collect_transcript(env, spec, Asked(make_scripted_reply))
        assert transcript == plain(second_env, spec, Asked(make_scripted_reply))
        if kind == "wrapped":
            assert all(
                m.content == m.content.upper() for messages, *_ in transcript for m in messages if m.role == "user"
            )
    if isinstance(env, Shouting) and isinstance(second_env, Shouting):
        assert env.answers == second_env.answers > 4


@pytest.mark.parametrize("agent", mark_params(["scripted", "policy"], step=2))
@pytest.mark.parametrize("game", mark_params(list_games()))
def test_every_id(game: str, agent: str) -> None:
    """All memories and contexts; kinds, protocols and, where the game has them, styles in turn."""
    styles = ("plain",) if make_game(game, **OPTIONS.get(game, {})).spec.actions is None else ("plain", "words")
    base = {**OPTIONS.get(game, {}), "max_turns": 3}
    for number, (memory, context) in enumerate(product(MEMORIES, CONTEXTS)):
        options = {
            "memory": memory,
            "context": context,
            "num_episodes": 2,
            "protocol": PROTOCOLS[number // 2 % 2],
            "style": styles[number // 3 % len(styles)],
        }
        model = {"scripted": lambda: Asked(make_scripted_reply), "policy": lambda: policy(game)}[agent]
        check(
            partial(make_test_env, game, KINDS[number % 3], base, **options), RolloutSpec(Task("", seed=number)), model
        )


def policy(game: str) -> Generator:
    return make_agent("scripted:random").generator(make_game(game, **OPTIONS.get(game, {})))


def check(make: Callable[[], gym.Env[Any, Any]], spec: RolloutSpec, model: Callable[[], Generator]) -> None:
    """Both ways, each with an environment and a model of its own."""
    assert collect_transcript(make(), spec, model()) == plain(make(), spec, model())


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Tiny models by style: one that reads any text, and one over Kuhn's words."""
    folder = tmp_path_factory.mktemp("models")
    folders_by_style = {"plain": general_tiny(folder / "plain"), "words": save_model(folder / "words")}
    for style, path in folders_by_style.items():
        kwargs = {"context": "conversation", "style": style}
        PlaySettings("mage/KuhnPoker-Meta-v0", kwargs, 3, constrained=style == "words").save(Path(path))
    return folders_by_style


@pytest.mark.parametrize("style", ["plain", "words"])
@pytest.mark.parametrize("context", CONTEXTS)
def test_a_tiny_model_in_every_setting_of_a_game(folders: dict[str, str], context: str, style: str) -> None:
    for number, memory in enumerate(MEMORIES):
        options = {"memory": memory, "context": context, "style": style, "num_episodes": 2}
        base = {"max_turns": 3, "on_invalid": "forfeit"}
        check(
            partial(make_test_env, "KuhnPoker", KINDS[number % 3], base, **options),
            RolloutSpec(Task("", seed=number), member=1),
            lambda: make_agent(f"model:{folders[style]}").generator(KuhnPoker()),
        )


@pytest.mark.parametrize("game", mark_params(list_games()))
def test_a_tiny_model_in_every_id(folders: dict[str, str], game: str) -> None:
    options = {"memory": "both", "context": "conversation", "num_episodes": 2}
    base = {**OPTIONS.get(game, {}), "max_turns": 1}
    check(
        partial(make_test_env, game, "wrapped", base, **options),
        RolloutSpec(Task("", seed=5)),
        lambda: make_agent(f"model:{folders['plain']}").generator(KuhnPoker()),
    )
