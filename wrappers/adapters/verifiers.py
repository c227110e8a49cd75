"""verifiers 0.4: a task set of a panel and its environment, for `vf-eval mage-envs`.

The environment opens one interaction per chat. A memory that starts fresh chats, such as `reflection`, therefore has
one trace per chat, and each trace has the reward of the episodes that ended in it. With `memory="both"` or `"history"`
a meta-episode is one trace.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import verifiers.v1 as vf
from pydantic import Field

import mage_envs
from mage_envs.wrappers.adapters.rewards import make_for

__all__ = ["MageEnv", "MageTaskset"]


class RowData(vf.TaskData):
    """One row of a panel."""

    panel: str
    row: dict[str, Any]
    """Fields of `mage_envs.Task`. The model does not see them."""
    reward: str
    env_kwargs: dict[str, Any]


class PanelConfig(vf.TasksetConfig):
    """Options `--env.taskset.*`."""

    panel: str = "kuhn-paper-128"
    """Name of a panel (`mage list panels`)."""
    reward: str = "return"
    """One of `return`, `final` and `differential`."""
    env_kwargs: dict[str, Any] = Field(default_factory=lambda: {"memory": "both"})
    """Options of the environment. The context is always `conversation`."""


class RowTask(vf.Task[RowData]):
    """A meta-episode to play."""


class MageTaskset(vf.Taskset[RowTask, PanelConfig]):
    """The rows of a panel."""

    def load(self) -> Iterator[RowTask]:
        config = self.config
        for index, row in enumerate(mage_envs.panel(config.panel).tasks()):
            data = RowData(
                name=f"{config.panel}#{index}",
                panel=config.panel,
                row=asdict(row),
                reward=config.reward,
                env_kwargs={**config.env_kwargs, "context": "conversation"},
            )
            yield RowTask(data, config.task)


class PlayerConfig(vf.EnvConfig):
    """Agents of the environment: the learner alone, because our opponents are policies."""

    player: vf.AgentConfig = vf.AgentConfig()


class MageEnv(vf.Env[PlayerConfig]):
    """Play a row: the environment takes the place of the user."""

    async def run(self, task: RowTask, agents: Any) -> None:
        data, row = task.data, mage_envs.Task(**task.data.row)
        env = make_for(mage_envs.panel(data.panel), data.reward, data.env_kwargs)
        message, info = env.reset(seed=row.seed, options=row.options())
        over = stopped = False
        while not (over or stopped):
            paid, invalid = 0.0, 0
            async with agents.player.interaction(task) as interaction:
                while True:
                    segment = await interaction.turn(message)
                    if stopped := segment.terminated:
                        break
                    # In a thread, because an opponent may need seconds.
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
