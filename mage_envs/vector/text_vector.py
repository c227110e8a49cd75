"""Gymnasium's vector interface for text environments: seeds, autoreset modes, reset masks, batched infos."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from mage_envs.loading.options import check_positive
from mage_envs.spaces import FreeText

Infos = dict[str, Any]
Texts = Sequence[str]
Batch = tuple[Texts, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], Infos]
"""Step of n environments: observations, rewards, terminated, truncated, infos."""


class SlotStep(NamedTuple):
    """The step of one environment."""

    observation: str
    infos: tuple[dict[str, Any], ...]
    """Dicts to merge into the batch's infos, in this order."""
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False


class TextVectorEnv(VectorEnv[tuple[str, ...], Sequence[str], np.ndarray], ABC):
    """`num_envs` environments of one id; text in, text out.

    Observations are a tuple of `str`, actions any sequence of `str`, and infos have the form of Gymnasium's
    `SyncVectorEnv`. A subclass starts and advances rows. This class tracks the rows that ended and checks the calls.
    """

    def __init__(self, num_envs: int, autoreset_mode: str | AutoresetMode) -> None:
        check_positive("num_envs", num_envs)
        self.num_envs = num_envs
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.metadata = {"autoreset_mode": self.autoreset_mode}
        self.single_observation_space = FreeText()
        self.single_action_space = FreeText()
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._texts: tuple[str, ...] = ()
        """Last observations; empty before the first reset."""
        self._ended = np.zeros(num_envs, dtype=np.bool_)
        """Mask of the rows whose episode is over and that wait for a reset, shape (num_envs,)."""

    def _describe(self, metadata: dict[str, Any], render_mode: str | None) -> None:
        """Set the metadata and the render mode of a single environment."""
        self.metadata = {**metadata, "autoreset_mode": self.autoreset_mode}
        self.render_mode = render_mode

    @abstractmethod
    def _begin(
        self, rows: Sequence[int], seeds: Sequence[int | None], options: dict[str, Any] | None
    ) -> tuple[Texts, Infos]:
        """Start an episode in each of `rows`. Returns their observations and the batch's infos."""

    @abstractmethod
    def _advance(self, answers: list[str]) -> Batch:
        """Step all rows. In mode NEXT_STEP, the rows in `_ended` start an episode instead."""

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[tuple[str, ...], Infos]:
        """Start episodes in all rows, or in those of `options["reset_mask"]`, a bool array of shape (num_envs,).

        `seed` has one seed per row. An int s means s, s + 1, ...; None continues each row's own randomness. Every row
        receives the other options.
        """
        self._check_open()
        seeds = _seeds(seed, self.num_envs)
        if options is None or "reset_mask" not in options:
            texts, infos = self._begin(range(self.num_envs), seeds, options)
            self._texts = tuple(texts)
            self._ended = np.zeros(self.num_envs, dtype=np.bool_)
            return self._texts, infos
        mask = _reset_mask(options["reset_mask"], self.num_envs)
        if not self._texts and not mask.all():
            raise gym.error.ResetNeeded("The first reset must be one of all environments; leave reset_mask out.")
        rows: list[int] = np.flatnonzero(mask).tolist()
        others = {key: value for key, value in options.items() if key != "reset_mask"}
        texts, infos = self._begin(rows, [seeds[row] for row in rows], others)
        # Rows outside the mask keep their observations, as in Gymnasium.
        all_texts = list(self._texts) or [""] * self.num_envs
        for row, text in zip(rows, texts, strict=True):
            all_texts[row] = text
        self._texts = tuple(all_texts)
        self._ended[mask] = False
        return self._texts, infos

    def step(
        self, actions: Sequence[str] | NDArray[Any]
    ) -> tuple[tuple[str, ...], NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], Infos]:
        """Step every environment with one answer each. The autoreset mode decides about rows that ended."""
        self._check_open()
        answers: list[str] = actions.tolist() if isinstance(actions, np.ndarray) else list(actions)
        if len(answers) != self.num_envs:
            raise ValueError(f"step() needs one action per environment: {self.num_envs}, not {len(answers)}.")
        if not self._texts:
            raise gym.error.ResetNeeded("Nothing was started: call reset() before step().")
        if self.autoreset_mode is AutoresetMode.DISABLED and self._ended.any():
            over = ", ".join(map(str, np.flatnonzero(self._ended)[:8].tolist()))
            raise gym.error.ResetNeeded(
                f"Environments {over} are over and autoreset is disabled: call reset(options={{'reset_mask': ended}})."
            )
        texts, rewards, terminated, truncated, infos = self._advance(answers)
        self._texts = tuple(texts)
        # In mode SAME_STEP, ended rows were reset within this step, so none waits for a reset.
        if self.autoreset_mode is not AutoresetMode.SAME_STEP:
            self._ended = terminated | truncated
        return self._texts, rewards, terminated, truncated, infos

    def _check_open(self) -> None:
        if self.closed:
            raise gym.error.ClosedEnvironmentError("This vector environment is closed; make another one.")

    def _gather(self, rows: Sequence[SlotStep]) -> Batch:
        """Return one `SlotStep` per environment as a batch."""
        return (
            [row.observation for row in rows],
            np.array([row.reward for row in rows], dtype=np.float64),
            np.array([row.terminated for row in rows], dtype=np.bool_),
            np.array([row.truncated for row in rows], dtype=np.bool_),
            batch_infos(self.num_envs, ((number, info) for number, row in enumerate(rows) for info in row.infos)),
        )


class Slots:
    """Environments that run one after the other: all of a vector environment, or one worker's share."""

    def __init__(self, envs: Sequence[gym.Env[str, str]], same_step: bool) -> None:
        self.envs = envs
        self._same_step = same_step

    def begin(
        self, slots: Sequence[int], seeds: Sequence[int | None], options: dict[str, Any] | None
    ) -> list[tuple[str, dict[str, Any]]]:
        """Reset some environments.

        Args:
            seeds: Seed of each of them, or None.
            options: Options of every reset.

        Returns:
            Observation and info of each reset.
        """
        # Each environment gets its own dict, because `reset` may change it.
        return [
            self.envs[slot].reset(seed=seed, options=None if options is None else dict(options))
            for slot, seed in zip(slots, seeds, strict=True)
        ]

    def advance(self, answers: Sequence[str | None]) -> list[SlotStep]:
        """Return one step per environment. An answer of None starts an episode instead."""
        return [self._one(env, answer) for env, answer in zip(self.envs, answers, strict=True)]

    def _one(self, env: gym.Env[str, str], answer: str | None) -> SlotStep:
        if answer is None:
            observation, info = env.reset()
            return SlotStep(observation, (info,))
        observation, reward, terminated, truncated, info = env.step(answer)
        infos: tuple[dict[str, Any], ...] = (info,)
        if self._same_step and (terminated or truncated):
            final = {"final_obs": observation, "final_info": info}
            observation, info = env.reset()
            infos = (final, info)
        return SlotStep(
            observation=observation, infos=infos, reward=float(reward), terminated=terminated, truncated=truncated
        )


class LoopVectorEnv(TextVectorEnv):
    """Environments of any id in this process, one after the other."""

    def __init__(
        self,
        make_env: Callable[[], gym.Env[str, str]],
        num_envs: int,
        *,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
    ) -> None:
        """Create the environments.

        Args:
            make_env: Function that creates one environment.
            autoreset_mode: Gymnasium's autoreset mode.
        """
        super().__init__(num_envs, autoreset_mode)
        self.envs = [make_env() for _ in range(num_envs)]
        self._describe(self.envs[0].metadata, self.envs[0].render_mode)
        self._slots = Slots(self.envs, self.autoreset_mode is AutoresetMode.SAME_STEP)

    def _begin(
        self, rows: Sequence[int], seeds: Sequence[int | None], options: dict[str, Any] | None
    ) -> tuple[Texts, Infos]:
        starts = self._slots.begin(rows, seeds, options)
        infos = ((row, info) for row, (_, info) in zip(rows, starts))
        return [text for text, _ in starts], batch_infos(self.num_envs, infos)

    def _advance(self, answers: list[str]) -> Batch:
        return self._gather(self._slots.advance(or_none(answers, self._ended)))

    def render(self) -> tuple[Any, ...]:
        """Return each environment's rendering."""
        return tuple(env.render() for env in self.envs)

    def close_extras(self, **kwargs: Any) -> None:
        """Close the environments."""
        for env in self.envs:
            env.close()


def batch_infos(count: int, entries: Iterable[tuple[int, Mapping[str, Any]]]) -> Infos:
    """Return (row, info) pairs as a batch in the form of Gymnasium's `VectorEnv._add_info`, at a lower cost per row.

    Each key has an array of `count` values, of the type of its first value. The key `_<key>` has the mask of its rows.
    """
    pairs = list(entries)
    every_row, dicts = [row for row, _ in pairs], [info for _, info in pairs]
    infos: Infos = {}
    for key in dict.fromkeys(chain.from_iterable(dicts)):
        try:
            rows, values = every_row, [info[key] for info in dicts]
        except KeyError:
            rows, values = [row for row, info in pairs if key in info], [info[key] for info in dicts if key in info]
        mask = np.zeros(count, dtype=np.bool_)
        mask[rows] = True
        infos[key], infos[f"_{key}"] = _column(count, rows, values), mask
    return infos


def _column(count: int, rows: list[int], values: list[Any]) -> Any:
    first_value = values[0]
    if isinstance(first_value, dict):
        return batch_infos(count, zip(rows, values))
    array: NDArray[Any]
    if isinstance(first_value, np.ndarray):
        array = np.zeros((count, *first_value.shape), dtype=first_value.dtype)
    else:
        plain = type(first_value) in (int, float, bool) or isinstance(first_value, np.number)
        kind = np.dtype(type(first_value) if plain else np.object_)
        if rows == list(range(count)):
            return np.fromiter(values, kind, count)
        array = np.zeros(count, kind) if plain else np.full(count, None, kind)
    # One by one, because NumPy converts a list differently from single values.
    for row, value in zip(rows, values):
        array[row] = value
    return array


def or_none(answers: Sequence[str], end_flags: NDArray[np.bool_]) -> list[str | None]:
    """Return the answers, with None in the rows that ended."""
    return [None if over else answer for answer, over in zip(answers, end_flags.tolist(), strict=True)]


def _seeds(seed: int | Sequence[int | None] | None, count: int) -> list[int | None]:
    if seed is None:
        return [None] * count
    if isinstance(seed, int | np.integer):
        return [int(seed) + row for row in range(count)]
    seeds = list(seed)
    if len(seeds) != count:
        raise ValueError(f"seed must be an int or a list of {count}, one per environment, not of {len(seeds)}.")
    return seeds


def _reset_mask(mask: object, count: int) -> NDArray[np.bool_]:
    if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_:
        raise TypeError(f"options['reset_mask'] must be a numpy array of bool, not {mask!r}.")
    if mask.shape != (count,) or not mask.any():
        raise ValueError(f"options['reset_mask'] must have shape ({count},) and at least one True, got {mask}.")
    return mask
