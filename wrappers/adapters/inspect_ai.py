"""Inspect AI: a panel or the suite `adapt` as a task. The solver is the loop, so every memory and both contexts work.

    inspect eval mage_envs/adapt --model openai/gpt-5-mini
    inspect eval mage_envs/panel -T panel=kuhn-paper-128 --model openai/gpt-5-mini

Each evaluation is recorded below `runs`, or in the folder `out`, as `mage eval` records its own: `mage adapt FOLDER`
reads it. The folder's name is in the metadata of the task. `stderr` of Inspect treats samples as independent. Rows of a
panel share deals, so `mage eval` reports clustered errors.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ChatMessage, ChatMessageAssistant, ChatMessageUser, ModelOutput, get_model
from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, Value, mean, metric, scorer, stderr
from inspect_ai.solver import Generate, Solver, TaskState, solver

import mage_envs
from mage_envs.wrappers.adapters.recording import new_folder, open_rows
from mage_envs.wrappers.adapters.rewards import AdapterReward

_ROLES = {"user": ChatMessageUser, "assistant": ChatMessageAssistant}
_WAIT_S = 0.2
"""Pause in seconds while the run that a row copies its memories from is being played."""


def _chat(info: Mapping[str, Any]) -> list[ChatMessage]:
    return [_ROLES[message["role"]](content=message["content"]) for message in info["messages"]]


def _completion(output: ModelOutput) -> mage_envs.Completion:
    """Return the reply as it is recorded: its text, with tokens and reasoning if the provider returns them."""
    content = output.message.content
    parts = [] if isinstance(content, str) else [part.reasoning for part in content if part.type == "reasoning"]
    tokens = None if output.usage is None else (output.usage.input_tokens, output.usage.output_tokens)
    return mage_envs.Completion(
        output.completion,
        truncated=output.stop_reason == "max_tokens",
        tokens=tokens,
        reasoning="\n".join(filter(None, parts)) or None,
    )


@solver
def play_row(name: str, out: str, reward: str, env_kwargs: Mapping[str, Any]) -> Solver:
    """Play the row that the sample names, and record it."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        place = state.metadata["place"]
        # A second epoch plays the same rows again, and has a record of its own.
        folder = out if state.epoch == 1 else f"{out}-epoch-{state.epoch}"
        rows = open_rows(name, folder, str(state.model), env_kwargs)
        # In a thread here and below, because a run has to be read, and because an opponent may need seconds.
        while (row := await asyncio.to_thread(rows.start, place["run"], place["row"])) is None:
            await asyncio.sleep(_WAIT_S)
        recorded, _, info = row
        env = AdapterReward(recorded, reward)
        state.messages, scores, invalid, over = [], {reward: 0.0}, 0, False
        while not over:
            # The transcript in the log: only the messages that are new, because a rebuilt chat repeats the old ones.
            chat = _chat(info)
            state.messages.append(chat[-1])
            state.output = await get_model().generate(chat)
            state.messages.append(state.output.message)
            _, paid, terminated, truncated, info = await asyncio.to_thread(env.step, _completion(state.output))
            scores[reward] += float(paid)
            invalid += info["invalid_reason"] is not None
            over = terminated or truncated
        values = {f"episode_{number + 1}": value for number, value in enumerate(info["episode_values"])}
        columns = await asyncio.to_thread(recorded.columns)
        state.store.set("scores", {**scores, **values, "invalid": invalid, **columns})
        state.store.set("folder", folder)
        return state

    return solve


@scorer(metrics={"*": [mean(), stderr()]})
def values() -> Scorer:
    """Return the reward, the value of each episode, the number of invalid answers, and the exact columns.

    The columns are the level, the regret and the best possible value, if the decisions can be judged exactly.
    """

    async def score(state: TaskState, target: Target) -> Score:
        return Score(value=state.store.get("scores"))

    return score


@metric
def adaptation() -> Metric:
    """Return level and adaptation of the whole suite, as `mage adapt` computes them from the record."""

    def compute(scores: list[SampleScore]) -> Value:
        folders = sorted({(score.score.metadata or {})["folder"] for score in scores})
        try:
            return dict(mage_envs.results_of(Path(folders[0])))
        except ValueError:
            # A sample failed, or a limit left rows out.
            return {}

    return compute


@scorer(metrics=[adaptation()])
def suite_values() -> Scorer:
    """Return the level of a row, and beside all rows the level and the adaptation of the whole suite."""

    async def score(state: TaskState, target: Target) -> Score:
        scores = state.store.get("scores")
        return Score(value=scores, metadata={"folder": state.store.get("folder")})

    return score


def _make_task(name: str, reward: str, env_kwargs: Mapping[str, Any], out: str | None, score: Scorer) -> Task:
    folder = out or new_folder("inspect", name)
    places = open_rows(name, folder, "inspect", env_kwargs).places()
    samples = [
        # The log is JSON, and its viewer rounds whole numbers above 2^53, so the seed stays in the record.
        Sample(
            id=f"{name}-{place.row}" if place.name == "." else f"{place.name}-{place.row}",
            input=place.task.env_id,
            metadata={"place": {"run": place.run, "row": place.row}},
        )
        for place in places
    ]
    return Task(
        dataset=MemoryDataset(samples, name=name),
        solver=play_row(name, folder, reward, dict(env_kwargs)),
        scorer=score,
        metadata={"record": folder},
    )


@task
def panel(
    panel: str = "kuhn-paper-128",
    reward: str = "return",
    env_kwargs: dict[str, Any] | None = None,
    out: str | None = None,
) -> Task:
    """Return a panel as a task.

    Args:
        panel: Name of the panel.
        reward: One of `mage_envs.wrappers.adapters.rewards.REWARDS`.
        env_kwargs: Options of the environment.
        out: Folder of the record (default: a new one below `runs`).
    """
    return _make_task(panel, reward, env_kwargs or {}, out, values())


@task
def adapt(suite: str = "adapt-mini", memory: str | None = None, out: str | None = None) -> Task:
    """Return the suite `adapt` as a task, with the runs of the verdict.

    The metrics are those of `mage adapt`. Do not shuffle the samples, because those under the control `other` wait for
    the main run.

    Args:
        suite: `adapt-mini` or `adapt`.
        memory: Memory of the environments (default: `history`).
        out: Folder of the record (default: a new one below `runs`).
    """
    options = {} if memory is None else {"memory": memory}
    return _make_task(suite, "return", options, out, suite_values())


mage_panel = panel
"""The panel as a task, under its name in Python code."""
