"""A learner for tests of memories. Its reply is a function of the prompt and its sampling key only."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import gymnasium as gym

import mage_envs  # noqa: F401  (registers the ids)
from mage_envs.random.streams import Streams
from mage_envs.text.generation import Completion, Prompt
from mage_envs.wrappers import MetaEpisode

KUHN = "mage/KuhnPoker-Meta-v0"


def make(env_id: str = KUHN, **options: Any) -> MetaEpisode:
    """The MetaEpisode inside Gymnasium's own wrappers."""
    env: Any = gym.make(env_id, disable_env_checker=True, **options)
    while not isinstance(env, MetaEpisode):
        env = env.env
    return env


def good(info: dict[str, Any], word: str = "w") -> str:
    """Return a well-formed reply to any prompt."""
    kind = info["kind"]
    if kind == "play":
        legal = info["legal_actions"] or ("search[hat]",)
        return f"I think {word}. <action>{legal[-1]}</action>"
    if kind == "note":
        return json.dumps({"keywords": [word, "b", "c"], "context": f"about {word}", "tags": ["x", "y", word]})
    if kind == "link":
        update = [{"label": 1, "context": f"now {word}", "tags": [f"new {word}"]}]
        return json.dumps({"links": [1], "tags": [f"tag {word}"], "update": update})
    tag = info["answer_tag"]
    text = f"1. try {word}\n2. look" if kind == "plan" else f"learnt {word}"
    return f"<{tag}>{text}</{tag}>" if tag else text


def play(env: MetaEpisode, answer: Callable[[dict[str, Any]], str] = good, seed: int = 0) -> list[tuple[Any, ...]]:
    """All (prompt, info before, reply, reward, info after) of a meta-episode."""
    prompt, info = env.reset(seed=seed)
    log: list[tuple[Any, ...]] = []
    terminated = False
    while not terminated:
        reply = answer(info)
        next_prompt, reward, terminated, _, next_info = env.step(reply)
        log.append((prompt, info, reply, reward, next_info))
        prompt, info = next_prompt, next_info
    return log


def kinds(log: list[tuple[Any, ...]]) -> list[tuple[str, int]]:
    """(kind of call, episode that it serves) without plays that follow a play."""
    kinds_found = [(row[1]["kind"], row[1]["episode_index"]) for row in log]
    return [
        kind_and_episode
        for at, kind_and_episode in enumerate(kinds_found)
        if at == 0 or kind_and_episode != kinds_found[at - 1] or kind_and_episode[0] != "play"
    ]


class FaultyLearner:
    """Answers well, but 20% of the replies are malformed, 5% empty and 5% cut. It counts its replies by kind."""

    def __init__(self) -> None:
        self.faults: dict[str, int] = {}

    def generate(self, prompts: list[Prompt]) -> list[Completion]:
        return [self._answer(prompt) for prompt in prompts]

    def _answer(self, prompt: Prompt) -> Completion:
        kind = str(prompt.info["kind"])
        seed, member, call, retry = prompt.seed
        number = Streams(seed, member, retry).at(7, call).generator().random()
        if number >= 0.3:
            return Completion(good(dict(prompt.info), f"w{seed}x{call}"))
        self.faults[kind] = self.faults.get(kind, 0) + 1
        if number < 0.05:
            return Completion("")
        if number < 0.10:
            return Completion(good(dict(prompt.info))[:-3], truncated=True)
        return Completion("no tag and no JSON { here: [1, 2")
