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
from tests.packages import marked
from tests.trainer.rollouts import Asked, answer, specs
from tests.trainer.tiny_runs import save_model

MEMORIES = ("reflection", "history", "both", "none")
CONTEXTS = ("rebuilt", "conversation")
PROTOCOLS = ("adaptive", "paper")
KINDS = ("bare", "wrapped", "subclass")


class Shouting(gym.Wrapper[str, str, str, str]):
    """A user's wrapper: what the model reads is in capitals, and what it answers is counted."""

    answers = 0

    def reset(self, **options: Any) -> tuple[str, dict[str, Any]]:
        observation, info = self.env.reset(**options)
        return observation.upper(), info

    def step(self, action: str) -> tuple[str, Any, bool, bool, dict[str, Any]]:
        self.answers += 1
        observation, *rest = self.env.step(action)
        return observation.upper(), *rest  # type: ignore[return-value]


class Doubling(MetaEpisode):
    """A user's subclass: its rewards are doubled."""

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, 2 * reward, terminated, truncated, info


def made(game: str, kind: str, base: dict[str, Any], **options: Any) -> gym.Env[Any, Any]:
    """A Meta id; `base` is for the environment in it, `options` for the meta-episode."""
    env: Any = gym.make(f"mage/{game}-Meta-v0", **base, **options)
    if kind == "subclass":
        return Doubling(env.env, **options)
    return Shouting(env) if kind == "wrapped" else env


def plain(env: gym.Env[Any, Any], spec: RolloutSpec, model: Generator) -> list[tuple[Any, ...]]:
    """What a plain loop sees: prompt, reply, reward, penalty, reason, return and success where an episode ends."""
    chosen = {"opponent": spec.task.opponent, "seat": spec.task.seat}
    options = {key: value for key, value in chosen.items() if value is not None}
    observation, info = env.reset(seed=spec.task.seed, options=options or None)
    chat: list[Message] = []
    seen: list[tuple[Any, ...]] = []
    last: Completion | None = None
    done = False
    while not done:
        fresh = info["fresh_chat"]
        chat = [*([Message(**message) for message in info["messages"][:-1]] if fresh else chat)]
        chat.append(Message("user", observation))
        prompt = Prompt(
            messages=tuple(chat),
            slot=0,
            seed=(spec.task.seed, spec.member, len(seen), 0),
            legal_actions=tuple(info["legal_actions"]),
            phase=info["phase"],
            previous=None if fresh else last,
            info=info,
        )
        [last] = model.generate([prompt])
        reply = Reply(last.text, truncated=last.truncated, overflow=last.overflow)  # what only the model knows
        observation, reward, done, _, info = env.step(reply)
        paid = reward if info["episode_end"] else None
        share = info["hand_reward"] + (reward - (info["episode_return"] or 0.0))
        told = (share, info["penalty"], info["invalid_reason"], paid, info["success"])
        seen.append((prompt.messages, last.text, *told))
        chat.append(Message("assistant", last.text))
    return seen


def collected(env: gym.Env[Any, Any], spec: RolloutSpec, model: Generator) -> list[tuple[Any, ...]]:
    """The same of `collect`."""
    asked = Asked(lambda prompt: model.generate([prompt])[0])
    [played] = collect([env], asked, [spec])
    assert played.failure is None
    results = iter(played.episodes)
    seen: list[tuple[Any, ...]] = []
    for number, (prompt, step) in enumerate(zip(asked.prompts, played.steps, strict=True)):
        last = step.phase == "play" and step.episode not in [
            other.episode for other in played.steps[number + 1 :] if other.phase == "play"
        ]
        result = next(results) if last else None
        told = (None, None) if result is None else (result.reward, result.success)
        seen.append((prompt.messages, step.text, step.reward, step.penalty, step.invalid_reason, *told))
    return seen


def scripted(prompt: Prompt) -> Completion:
    """A legal action or another text, in tags where the style has them."""
    legal = prompt.legal_actions or ("anything",)
    text = answer(
        Prompt(messages=prompt.messages, slot=prompt.slot, seed=prompt.seed, legal_actions=legal, phase=prompt.phase)
    )
    return Completion(text if prompt.info["answer_tag"] is not None else text.partition(">")[2].partition("<")[0])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("style", ["prose", "words"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("memory", MEMORIES)
def test_every_setting(memory: str, context: str, protocol: str, style: str, kind: str) -> None:
    options = {"memory": memory, "context": context, "style": style, "protocol": protocol, "num_episodes": 2}
    env, other = (made("KuhnPoker", kind, {"hands_per_episode": 2}, **options) for _ in range(2))
    for spec in specs(4, "kuhn/soft-station", 1):
        seen = collected(env, spec, Asked(scripted))
        assert seen == plain(other, spec, Asked(scripted))
        if kind == "wrapped":
            assert all(m.content == m.content.upper() for messages, *_ in seen for m in messages if m.role == "user")
    if isinstance(env, Shouting) and isinstance(other, Shouting):
        assert env.answers == other.answers > 4


@pytest.mark.parametrize("agent", ["scripted", "policy"])
@pytest.mark.parametrize("game", marked(list_games()))
def test_every_id(game: str, agent: str) -> None:
    """All memories and contexts; kinds, protocols and, where the game has them, styles in turn."""
    styles = ("prose",) if make_game(game, **OPTIONS.get(game, {})).spec.actions is None else ("prose", "words")
    base = {**OPTIONS.get(game, {}), "max_turns": 3}
    for number, (memory, context) in enumerate(product(MEMORIES, CONTEXTS)):
        options = {
            "memory": memory,
            "context": context,
            "num_episodes": 2,
            "protocol": PROTOCOLS[number // 2 % 2],
            "style": styles[number // 3 % len(styles)],
        }
        model = {"scripted": lambda: Asked(scripted), "policy": lambda: policy(game)}[agent]
        check(partial(made, game, KINDS[number % 3], base, **options), RolloutSpec(Task("", seed=number)), model)


def policy(game: str) -> Generator:
    return make_agent("scripted:random").generator(make_game(game, **OPTIONS.get(game, {})))


def check(make: Callable[[], gym.Env[Any, Any]], spec: RolloutSpec, model: Callable[[], Generator]) -> None:
    """Both ways, each with an environment and a model of its own."""
    assert collected(make(), spec, model()) == plain(make(), spec, model())


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Tiny models by style: one that reads any text, and one over Kuhn's words."""
    folder = tmp_path_factory.mktemp("models")
    found = {"prose": general_tiny(folder / "prose"), "words": save_model(folder / "words")}
    for style, path in found.items():
        kwargs = {"context": "conversation", "style": style}
        PlaySettings("mage/KuhnPoker-Meta-v0", kwargs, 3, constrained=style == "words").save(Path(path))
    return found


@pytest.mark.parametrize("style", ["prose", "words"])
@pytest.mark.parametrize("context", CONTEXTS)
def test_a_tiny_model_in_every_setting_of_a_game(folders: dict[str, str], context: str, style: str) -> None:
    for number, memory in enumerate(MEMORIES):
        options = {"memory": memory, "context": context, "style": style, "num_episodes": 2}
        base = {"max_turns": 3, "on_invalid": "forfeit"}
        check(
            partial(made, "KuhnPoker", KINDS[number % 3], base, **options),
            RolloutSpec(Task("", seed=number), member=1),
            lambda: make_agent(f"model:{folders[style]}").generator(KuhnPoker()),
        )


@pytest.mark.parametrize("game", marked(list_games()))
def test_a_tiny_model_in_every_id(folders: dict[str, str], game: str) -> None:
    options = {"memory": "both", "context": "conversation", "num_episodes": 2}
    base = {**OPTIONS.get(game, {}), "max_turns": 1}
    check(
        partial(made, game, "wrapped", base, **options),
        RolloutSpec(Task("", seed=5)),
        lambda: make_agent(f"model:{folders['prose']}").generator(KuhnPoker()),
    )
