"""Expected calls, tokens and price of a run before any call of its model, from random play of its first tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mage_envs.benchmarks.evaluation.run.agents import Agent, EndpointAgent, GeneratorAgent, SavedModelAgent, make_agent
from mage_envs.benchmarks.evaluation.run.evaluate import evaluate
from mage_envs.benchmarks.evaluation.run.hugging_face import HuggingFaceAgent
from mage_envs.benchmarks.evaluation.run.preflight import PREFLIGHT, Expectation, Price, expectation
from mage_envs.benchmarks.evaluation.scoring.call_stats import without_texts
from mage_envs.benchmarks.evaluation.suites.environments import game_of
from mage_envs.benchmarks.evaluation.suites.setting import Setting
from mage_envs.text.generation import Completion, Generator, Prompt

CHARACTERS_PER_TOKEN = 4
"""Characters of a prompt that count as one token. No tokenizer of the model is at hand."""
NOTE = (
    f"Estimates from random play of the first {PREFLIGHT} tasks of each panel, with {CHARACTERS_PER_TOKEN} characters "
    "per prompt token and every reply at its limit. The hours depend on the server, so only a preflight has them."
)


class _TokenCounter:
    """A generator that counts the characters of each prompt as tokens, and a reply as `limit` tokens."""

    def __init__(self, generator: Generator, limit: int) -> None:
        self._generator, self._limit = generator, limit

    def generate(self, prompts: Sequence[Prompt]) -> list[Completion]:
        answers = self._generator.generate(prompts)
        return [replace(reply, tokens=self._tokens(prompt)) for prompt, reply in zip(prompts, answers, strict=True)]

    def _tokens(self, prompt: Prompt) -> tuple[int, int]:
        characters = sum(len(message.content) for message in prompt.messages)
        return -(-characters // CHARACTERS_PER_TOKEN), self._limit


def dry_run(agent: Agent, setting: Setting, price: Price | None, count: int = PREFLIGHT) -> Expectation | None:
    """Return the expectation of a model's run without calling the model; None if the agent is no model.

    Args:
        price: Price of tokens, or None.
        count: Number of meta-episodes to play.

    Raises:
        RuntimeError: If every meta-episode of random play failed.
    """
    if not isinstance(agent, EndpointAgent | HuggingFaceAgent | SavedModelAgent):
        return None
    request = agent.request(setting.game_name)
    limit = int(request.get("max_tokens") or request["max_completion_tokens"])
    random = make_agent("scripted:random").generator(game_of(setting.panel.env_id, setting.options))
    counted = GeneratorAgent(_TokenCounter(random, limit), f"dry run of {agent.name}")
    trajectories = evaluate(counted, setting.tasks[:count], setting.options, reduce=without_texts)
    finished = [trajectory for trajectory in trajectories if trajectory.failure is None]
    return expectation(finished, price)._replace(seconds=None)
