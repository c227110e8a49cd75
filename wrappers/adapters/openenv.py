"""OpenEnv 0.10: a server that plays one environment id and all panels, and lists the panels as its task API.

    uvicorn.run(server("mage/KuhnPoker-Meta-v0"))          # or: mage serve openenv

A client plays over the WebSocket `/ws`. `POST /reset` and `/step` make a new environment per request, so they do not
play. The observation holds the prompt and public keys of `info`, because clients pass all of it to the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache, partial
from typing import Any

import gymnasium as gym
from openenv.core import Action, Environment, Observation, State, create_app
from openenv.core.env_server.types import ConcurrencyConfig
from pydantic import Field

import mage_envs
from wrappers.adapters.rewards import make, make_for


@lru_cache(maxsize=32)
def panel_tasks(name: str) -> tuple[mage_envs.Task, ...]:
    """Return the tasks of a panel. The task API calls this once per row."""
    rows: tuple[mage_envs.Task, ...] = mage_envs.panel(name).tasks()
    return rows


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
    legal_actions: list[str] = Field(default_factory=list)
    max_steps: int | None = None


class MageEnvironment(Environment[AnswerAction, PromptObservation, State]):
    """One session of a client."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, env_id: str, *, reward: str = "return", env_kwargs: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self._env_id, self._reward, self._env_kwargs = env_id, reward, env_kwargs
        self._env: gym.Env[str, str] | None = None
        self._state = State(episode_id=None, step_count=0)

    def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        split: str | None = None,
        index: int = 0,
        opponent: str | None = None,
        seat: int | str | None = None,
        task: str | None = None,
        **unknown: Any,
    ) -> PromptObservation:
        """Start the row `index` of the panel `split`, or the server's environment with `seed` and the other options."""
        if unknown:
            raise ValueError(f"unknown options of reset: {', '.join(sorted(unknown))}.")
        chosen = {"opponent": opponent, "seat": seat, "task": task}
        options = {key: value for key, value in chosen.items() if value is not None}
        # A client is a stranger: no name of its own may import a module, open a file or call an address.
        if opponent is not None and opponent not in mage_envs.list_opponents():
            raise ValueError(f"opponent={opponent!r} is not one of mage_envs.list_opponents().")
        if split is None:
            env = make(self._env_id, self._reward, self._env_kwargs)
        elif options or seed is not None:
            raise ValueError("A row of a split has its own seed and options. Leave seed, opponent, seat and task out.")
        else:
            row = self._row(split, index)
            env, seed, options = (
                make_for(mage_envs.panel(split), self._reward, self._env_kwargs),
                row.seed,
                row.options(),
            )
        self._env, self._state = env, State(episode_id=episode_id, step_count=0)
        return self._shown(*env.reset(seed=seed, options=options or None))

    def step(self, action: AnswerAction, timeout_s: float | None = None, **unknown: Any) -> PromptObservation:
        if self._env is None:
            raise RuntimeError("Call reset before step.")
        text = action.text if isinstance(action.text, str) else str(action.text)
        observation, reward, terminated, truncated, info = self._env.step(text)
        self._state.step_count += 1
        if over := terminated or truncated:
            self._env = None
        return self._shown(observation, info, reward=float(reward), done=over)

    def _shown(self, prompt: str, info: Mapping[str, Any], **result: Any) -> PromptObservation:
        public = mage_envs.public_info(info)
        return PromptObservation(
            prompt=prompt, **{key: public[key] for key in PromptObservation.model_fields if key in public}, **result
        )

    @property
    def state(self) -> State:
        return self._state

    # -- the task API: a panel is a split --------------------------------------------------------------------

    def _row(self, split: str, index: int) -> mage_envs.Task:
        rows = panel_tasks(split)
        if not 0 <= index < len(rows):
            raise IndexError(f"index={index} must be from 0 to {len(rows) - 1} in {split}.")
        return rows[index]

    def list_splits(self) -> list[Any]:
        return [{"name": name, "type": "test"} for name in mage_envs.list_panels()]

    def num_tasks(self, split: str) -> int:
        return len(panel_tasks(split))

    def get_task(self, split: str, index: int) -> dict[str, Any]:
        """Return the place of a row. Its opponent and its seed are private."""
        return {"id": f"{split}-{index}", "index": index, "env_id": self._row(split, index).env_id}


def server(
    env_id: str,
    *,
    reward: str = "return",
    env_kwargs: Mapping[str, Any] | None = None,
    max_sessions: int = 64,
    session_timeout: float = 300.0,
) -> Any:
    """Return the server as an ASGI application.

    Args:
        env_id: Id of the environment that plays if a client names no split.
        reward: One of `wrappers.adapters.rewards.REWARDS`.
        env_kwargs: Options of the environments.
        max_sessions: Maximum number of clients at the same time.
        session_timeout: Seconds without a message after which a session is closed.
    """
    return create_app(
        partial(MageEnvironment, env_id, reward=reward, env_kwargs=env_kwargs),
        AnswerAction,
        PromptObservation,
        env_name="mage_envs",
        concurrency_config=ConcurrencyConfig(max_concurrent_envs=max_sessions, session_timeout=session_timeout),
    )
