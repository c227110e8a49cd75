"""Inspect AI: a panel as a task. The solver is the loop, so every memory and both contexts work.

    inspect_ai.eval(mage_panel("kuhn-paper-128"), model="openai/gpt-5-mini")

`stderr` of Inspect treats samples as independent. Rows of a panel share deals, so `mage eval` reports clustered errors.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ChatMessage, ChatMessageAssistant, ChatMessageUser, get_model
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import Generate, Solver, TaskState, solver

import mage_envs
from mage_envs.wrappers.adapters.rewards import make_for

_ROLES = {"user": ChatMessageUser, "assistant": ChatMessageAssistant}


def _chat(info: Mapping[str, Any]) -> list[ChatMessage]:
    return [_ROLES[message["role"]](content=message["content"]) for message in info["messages"]]


@solver
def play_row(panel: str, reward: str, env_kwargs: Mapping[str, Any]) -> Solver:
    """Play the row of a panel that the sample names."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        row = mage_envs.Task(**{**state.metadata["row"], "seed": int(state.metadata["row"]["seed"])})
        env = make_for(mage_envs.panel(panel), reward, env_kwargs)
        _, info = env.reset(seed=row.seed, options=row.options())
        state.messages, scores, invalid, over = [], {reward: 0.0}, 0, False
        while not over:
            # The transcript in the log: only the messages that are new, because a rebuilt chat repeats the old ones.
            chat = _chat(info)
            state.messages.append(chat[-1])
            state.output = await get_model().generate(chat)
            state.messages.append(state.output.message)
            # In a thread, because an opponent may need seconds.
            _, paid, terminated, truncated, info = await asyncio.to_thread(env.step, state.output.completion)
            scores[reward] += float(paid)
            invalid += info["invalid_reason"] is not None
            over = terminated or truncated
        values = {f"episode_{number + 1}": value for number, value in enumerate(info["episode_values"])}
        state.store.set("scores", {**scores, **values, "invalid": invalid})
        return state

    return solve


@scorer(metrics={"*": [mean(), stderr()]})
def values() -> Scorer:
    """Return the reward, the value of each episode, and the number of invalid answers."""

    async def score(state: TaskState, target: Target) -> Score:
        return Score(value=state.store.get("scores"))

    return score


@task
def mage_panel(panel: str = "kuhn-paper-128", reward: str = "return", env_kwargs: dict[str, Any] | None = None) -> Task:
    """Return a panel as a task.

    Args:
        panel: Name of the panel.
        reward: One of `mage_envs.wrappers.adapters.rewards.REWARDS`.
        env_kwargs: Options of the environment.
    """
    rows = mage_envs.panel(panel).tasks()
    samples = [
        # The log is JSON, and its viewer rounds whole numbers above 2^53.
        Sample(id=f"{panel}-{index}", input=row.env_id, metadata={"row": {**asdict(row), "seed": str(row.seed)}})
        for index, row in enumerate(rows)
    ]
    return Task(
        dataset=MemoryDataset(samples, name=panel), solver=play_row(panel, reward, env_kwargs or {}), scorer=values()
    )
