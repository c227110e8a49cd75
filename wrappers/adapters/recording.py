"""What the adapters share: the folder of a record, and the rows of a panel or a suite in it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from secrets import token_hex
from typing import Any

import gymnasium as gym

import mage_envs
from mage_envs.wrappers.adapters.rewards import AdapterReward

RUNS = "runs"
"""Folder of the records in the current folder."""
SUITES = ("adapt", "adapt-mini")


def new_folder(framework: str, name: str) -> str:
    """Return a folder for the record of one evaluation, which does not exist yet.

    Args:
        framework: Name of the framework.
        name: Name of the panel or the suite.
    """
    # Two evaluations may begin in the same second.
    started = datetime.now().strftime("%Y%m%d-%H%M%S")
    return str(Path(RUNS).absolute() / f"{framework}-{name}-{started}-{token_hex(2)}")


def open_rows(name: str, out: str, agent: str, env_kwargs: Mapping[str, Any]) -> Any:
    """Return the rows of a panel or a suite with their record. Equal arguments return the same object.

    Args:
        name: Name of the panel or the suite.
        out: Folder of the record.
        agent: Name of the agent in tables.
        env_kwargs: Options of the environment. The panel's own have priority. A suite has its own, but for `memory`.
    """
    return _open(name, out, agent, json.dumps(dict(env_kwargs), sort_keys=True))


# The rows of one evaluation are opened by each of its samples.
@lru_cache(maxsize=64)
def _open(name: str, out: str, agent: str, options: str) -> Any:
    env_kwargs = json.loads(options)
    if name not in SUITES:
        env_kwargs = {key: value for key, value in env_kwargs.items() if key not in mage_envs.panel(name).env_kwargs}
    memory = env_kwargs.pop("memory", None)
    return mage_envs.rows(name, out=out, agent=agent, memory=memory, options=env_kwargs)


class RecordedRow:
    """A row of a panel that is played and recorded, with the reward of the adapter."""

    def __init__(self, row: tuple[Any, str, dict[str, Any]], reward: str) -> None:
        self._recorded, self.prompt, self.info = row
        self.env = AdapterReward(self._recorded, reward)

    def columns(self) -> dict[str, float]:
        """Return the exact columns of the row that ended: level, regret and best; empty if it cannot be judged."""
        columns: dict[str, float] = self._recorded.columns()
        return columns


class Passes:
    """Plays of a panel's rows. The first play of each row is in the folder, the second beside it in `-pass-2`, ..."""

    def __init__(self, out: str, agent: str, reward: str, env_kwargs: Mapping[str, Any]) -> None:
        """Prepare the plays.

        Args:
            out: Folder of the first record.
            agent: Name of the agent in tables.
            reward: One of `mage_envs.wrappers.adapters.rewards.REWARDS`.
            env_kwargs: Options of the environment.
        """
        self.out, self._agent, self._reward, self._env_kwargs = out, agent, reward, env_kwargs
        self._number: dict[tuple[str, int], int] = {}
        """Pass of the last play, by panel and row."""

    def start(self, panel: str, row: int, folder: str = "") -> RecordedRow:
        """Return a row after its reset.

        Args:
            panel: Name of the panel.
            row: Index of the row.
            folder: Folder below that of the record (default: none).
        """
        number = self._number.get((panel, row), 0)
        while True:
            number += 1
            name = str(Path(self.out, folder)) + (f"-pass-{number}" if number > 1 else "")
            rows = open_rows(panel, name, self._agent, self._env_kwargs)
            # Another process may have played it.
            if rows.claim(0, row):
                self._number[panel, row] = number
                return RecordedRow(rows.start(0, row), self._reward)

    def start_own(self, env_id: str, seed: int | None, options: Mapping[str, Any]) -> RecordedRow:
        """Return an environment of a client's choice after its reset, recorded in a folder for its opponents.

        Args:
            env_id: Registered id.
            seed: Seed, or None for any.
            options: Options of `reset`.
        """
        opponent = options.get("opponent")
        kwargs = {**self._env_kwargs, **({} if opponent is None else {"opponent": opponent})}
        env = gym.make(env_id, disable_env_checker=True, **kwargs)
        folder = re.sub(r"[^\w.+-]+", "-", f"{env_id}-{opponent or 'pool'}").strip("-")
        recorded = mage_envs.record(env, out=Path(self.out, folder), agent=self._agent)
        prompt, info = recorded.reset(seed=seed, options=dict(options) or None)
        return RecordedRow((recorded, prompt, info), self._reward)
