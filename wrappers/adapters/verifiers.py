"""verifiers 0.4: a task set of a panel and its environment, for `vf-eval mage-envs`.

The environment opens one interaction per chat. A memory that starts fresh chats, such as `reflection`, therefore has
one trace per chat, and each trace has the reward of the episodes that ended in it. With `memory="both"` or `"history"`
a meta-episode is one trace.

Each evaluation is recorded below `runs`, or in `--env.taskset.out`: `mage adapt FOLDER` reads it. The last trace of a
row has the metrics `level`, `regret` and `best`, if its decisions can be judged exactly.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import verifiers.v1 as vf
from pydantic import Field

import mage_envs
from mage_envs.wrappers.adapters.recording import Passes, new_folder

__all__ = ["MageEnv", "MageTaskset"]


class RowData(vf.TaskData):
    """One row of a panel."""

    panel: str
    index: int
    """Index of the row. The model sees neither its seed nor its opponent."""
    reward: str
    env_kwargs: dict[str, Any]
    out: str


class PanelConfig(vf.TasksetConfig):
    """Options `--env.taskset.*`."""

    panel: str = "kuhn-paper-128"
    """Name of a panel (`mage list panels`)."""
    reward: str = "return"
    """One of `return`, `final` and `differential`."""
    env_kwargs: dict[str, Any] = Field(default_factory=lambda: {"memory": "both"})
    """Options of the environment. The context is always `conversation`."""
    out: str = ""
    """Folder of the record (default: a new one below `runs`)."""


class RowTask(vf.Task[RowData]):
    """A meta-episode to play."""


class MageTaskset(vf.Taskset[RowTask, PanelConfig]):
    """The rows of a panel."""

    def load(self) -> Iterator[RowTask]:
        config = self.config
        out = config.out or new_folder("verifiers", config.panel)
        for index in range(len(mage_envs.panel(config.panel).tasks())):
            data = RowData(
                name=f"{config.panel}#{index}",
                panel=config.panel,
                index=index,
                reward=config.reward,
                env_kwargs={**config.env_kwargs, "context": "conversation"},
                out=out,
            )
            yield RowTask(data, config.task)


class PlayerConfig(vf.EnvConfig):
    """Agents of the environment: the learner alone, because our opponents are policies."""

    player: vf.AgentConfig = vf.AgentConfig()


class MageEnv(vf.Env[PlayerConfig]):
    """Play a row: the environment takes the place of the user."""

    async def run(self, task: RowTask, agents: Any) -> None:
        data = task.data
        passes = _passes(data.out, agents.player.config.model, data.reward, json.dumps(data.env_kwargs))
        # In a thread here and below, because files are written, and because an opponent may need seconds.
        row = await asyncio.to_thread(passes.start, data.panel, data.index)
        env, message, info = row.env, row.prompt, row.info
        over = stopped = False
        while not (over or stopped):
            paid, invalid = 0.0, 0
            async with agents.player.interaction(task) as interaction:
                while True:
                    segment = await interaction.turn(message)
                    if stopped := segment.terminated:
                        break
                    message, reward, terminated, truncated, info = await asyncio.to_thread(env.step, segment.last_reply)
                    paid, invalid = paid + float(reward), invalid + (info["invalid_reason"] is not None)
                    over = terminated or truncated
                    if over or info["fresh_chat"]:
                        break
            trace = interaction.trace
            trace.record_reward(data.reward, paid)
            trace.record_metric("invalid", invalid)
            for episode, value in enumerate(info.get("episode_values", ())):
                trace.record_metric(f"value_{episode + 1}", value)
            if over:
                for name, column in (await asyncio.to_thread(row.columns)).items():
                    trace.record_metric(name, column)


@lru_cache(maxsize=64)
def _passes(out: str, agent: str, reward: str, env_kwargs: str) -> Passes:
    """Return the plays of one evaluation, which its rows share."""
    return Passes(out, agent, reward, json.loads(env_kwargs))
