"""OpenEnv 0.10: a server that plays one environment id and all panels, and lists the panels as its task API.

    mage serve openenv --env mage/KuhnPoker-Meta-v0

A client plays over the WebSocket `/ws`. `POST /reset` and `/step` make a new environment per request, so they do not
play. The observation holds the prompt and public keys of `info`, because clients pass all of it to the model.

The server records each meta-episode that ends in a new folder below `runs`, which it names when it starts: the rows of
a split in `FOLDER/SPLIT`, and further plays of a row in `FOLDER/SPLIT-pass-2`. `mage adapt FOLDER/SPLIT` reads them.
The last observation has the columns `level`, `regret` and `best`, if the decisions can be judged exactly.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import lru_cache, partial
from typing import Any

from openenv.core import Action, Environment, Observation, State, create_app
from openenv.core.env_server.types import ConcurrencyConfig
from pydantic import Field

import mage_envs
from mage_envs.wrappers.adapters.recording import Passes, RecordedRow, new_folder

LOGGER = logging.getLogger(__name__)
OPTIONS = ("opponent", "seat", "task")
"""Options of an episode that a client may choose, if it names no row of a split."""


@lru_cache(maxsize=32)
def panel_tasks(name: str) -> tuple[mage_envs.Task, ...]:
    """Return the tasks of a panel. The task API calls this once per row."""
    return tuple(mage_envs.panel(name).tasks())


class AnswerAction(Action):
    """Reply of the model. Some clients parse it as JSON, so the text `5` may arrive as a number."""

    text: Any


class PromptObservation(Observation):
    """Prompt for the model, and public keys of `info`."""

    prompt: str
    fresh_chat: bool = True
    phase: str = "play"
    answer_tag: str | None = None
    episode_index: int = 0
    num_episodes: int = 1
    legal_actions: tuple[str, ...] = ()
    max_steps: int | None = None
    columns: dict[str, float] = Field(default_factory=dict)
    """Level, regret and best possible value of a meta-episode that ended; empty before."""


class MageEnvironment(Environment[AnswerAction, PromptObservation, State]):
    """One session of a client."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    state = State(episode_id=None, step_count=0)

    def __init__(self, env_id: str, passes: Passes) -> None:
        super().__init__()
        self._env_id, self._passes = env_id, passes
        self._row: RecordedRow | None = None

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> PromptObservation:
        """Start the row `index` of the panel `split`, or the server's environment with `seed` and `OPTIONS`."""
        if unknown := kwargs.keys() - {"split", "index", *OPTIONS}:
            raise ValueError(f"unknown options of reset: {', '.join(sorted(unknown))}.")
        options = {key: kwargs[key] for key in OPTIONS if kwargs.get(key) is not None}
        # A client is a stranger: no name of its own may import a module, open a file or call an address.
        if options.get("opponent", "uniform") not in mage_envs.list_opponents():
            raise ValueError(f"opponent={options['opponent']!r} is not one of mage_envs.list_opponents().")
        # The meta-episode before this one may not be finished. Its row is free as soon as it is dropped.
        self._row = None
        if (split := kwargs.get("split")) is None:
            row = self._passes.start_own(self._env_id, seed, options)
        elif options or seed is not None:
            raise ValueError("A row of a split has its own seed and options. Leave seed, opponent, seat and task out.")
        else:
            index = kwargs.get("index", 0)
            self._task(split, index)
            row = self._passes.start(split, index, folder=split)
        self._row, self.state = row, State(episode_id=episode_id, step_count=0)
        return self._make_observation(row.prompt, row.info)

    def step(self, action: AnswerAction, timeout_s: float | None = None, **unknown: Any) -> PromptObservation:
        if self._row is None:
            raise RuntimeError("Call reset before step.")
        observation, reward, terminated, truncated, info = self._row.env.step(str(action.text))
        self.state.step_count += 1
        columns: dict[str, float] = {}
        if over := terminated or truncated:
            columns, self._row = self._row.columns(), None
        return self._make_observation(observation, info, reward=float(reward), done=over, columns=columns)

    def _make_observation(self, prompt: str, info: Mapping[str, Any], **result: Any) -> PromptObservation:
        public_keys = mage_envs.public_info(info).keys() & PromptObservation.model_fields.keys()
        return PromptObservation(prompt=prompt, **{key: info[key] for key in public_keys}, **result)

    # -- the task API: a panel is a split --------------------------------------------------------------------

    def _task(self, split: str, index: int) -> mage_envs.Task:
        if not 0 <= index < len(panel_tasks(split)):
            raise IndexError(f"index={index} must be from 0 to {len(panel_tasks(split)) - 1} in {split}.")
        return panel_tasks(split)[index]

    def list_splits(self) -> list[Any]:
        return [{"name": name, "type": "test"} for name in mage_envs.list_panels()]

    def num_tasks(self, split: str) -> int:
        return len(panel_tasks(split))

    def get_task(self, split: str, index: int) -> dict[str, Any]:
        """Return the place of a row. Its opponent and its seed are private."""
        return {"id": f"{split}-{index}", "index": index, "env_id": self._task(split, index).env_id}


def server(env_id: str, reward: str, env_kwargs: Mapping[str, Any] | None, limits: ConcurrencyConfig) -> Any:
    """Return the server as an ASGI application.

    Args:
        env_id: Id of the environment that plays if a client names no split.
        reward: One of `mage_envs.wrappers.adapters.rewards.REWARDS`.
        env_kwargs: Options of the environments.
        limits: Maximum number of clients, and the time after which a silent session ends.
    """
    passes = Passes(new_folder("openenv", "server"), "openenv", reward, env_kwargs or {})
    LOGGER.warning("Meta-episodes are recorded in %s", passes.out)
    session = partial(MageEnvironment, env_id, passes)
    return create_app(session, AnswerAction, PromptObservation, env_name="mage_envs", concurrency_config=limits)
