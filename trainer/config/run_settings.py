"""`RunSettings`: the fields of a run, parsed, checked and sized. No torch here, because a dry run needs none."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import ceil
from pathlib import Path
from typing import Any

from mage_envs.cli.game_options import EXAMPLE, read_object
from mage_envs.files.bounded import read_named
from mage_envs.loading.imports import check_path
from mage_envs.registry import find_env
from mage_envs.settings import EpisodeReward, reward_name
from mage_envs.trainer.config.fields import RunFields
from mage_envs.trainer.config.rules import broken
from mage_envs.trainer.method.advantages import CreditConfig
from mage_envs.wrappers import Protocol

FOREVER = 2**31
"""Value of `max_steps` if the number of optimiser steps is unknown before the run."""
CREDIT = tuple(item.name for item in fields(CreditConfig) if item.name in RunFields.__dataclass_fields__)
"""Fields of `CreditConfig` that a run sets. Its protocol decides the others."""


def processes_started() -> int:
    """Return the number of processes that a launcher started for the run; 1 without a launcher."""
    # torchrun and accelerate set this variable for every process.
    return int(os.environ.get("WORLD_SIZE", "1"))


@dataclass
class RunSettings(RunFields):
    """`RunFields` that are consistent. Raises ValueError with the remedy if they are not."""

    def __post_init__(self) -> None:
        self.settle()

    def settle(self) -> None:
        """Parse fields that hold text, check the rules across fields, and compute the sizes of rollout and run."""
        self._import_named()
        # The default of transformers, set here because a dry run does not load transformers.
        self.output_dir = self.output_dir or "trainer_output"
        self.system_prompt = _from_file("system_prompt", self.system_prompt)
        self.opponents = _from_json("opponents", self.opponents, names=True)
        # The id may be the name of a game, and that of a game of OpenSpiel stands for an option, too.
        self.env_id, id_options = find_env(self.env_id)
        self.env_kwargs = {**id_options, **(_from_json("env_kwargs", self.env_kwargs) or {})}
        self.updates_per_rollout = str(self.updates_per_rollout)
        if self.updates_per_rollout != "auto":
            try:
                int(self.updates_per_rollout)
            except ValueError as error:
                raise ValueError(
                    f"updates_per_rollout={self.updates_per_rollout!r} is neither auto nor a whole number."
                ) from error
        # Only for its checks; the protocol is not known yet.
        self._credit(self.advantage == "exact")
        if (message := next(broken(self), None)) is not None:
            raise ValueError(message)
        if self.use_vllm and self.vllm_max_model_length is None:
            self.vllm_max_model_length = self.max_prompt_length + (self.max_completion_length or 1)
        self._size_rollout()
        self._size_run()

    def set_environment(self, env_id: str | None, reward: str | EpisodeReward | None) -> None:
        """Replace the environment or the reward; None keeps it."""
        self.env_id = self.env_id if env_id is None else env_id
        if reward is not None:
            # A name, because checkpoints, mage.json and worker processes cannot hold a function.
            self.reward = reward_name(reward)
        self._import_named()

    def _import_named(self) -> None:
        """Add the modules that the id and the reward name to `imports`, which saved models carry along."""
        # `module:id` as in `gym.make`: the module registers the id.
        module, _, self.env_id = self.env_id.rpartition(":")
        source = (self.reward or "").rpartition(":")[0]
        self.imports = [
            *self.imports,
            *(name for name in (module, source) if name not in ("", "__main__", *self.imports)),
        ]

    def credit_config(self, protocol: Protocol, hands_per_episode: int) -> CreditConfig:
        """Return how rewards become advantages.

        Without `credit`, episodes of several hands are paid hand by hand, except under GiGPO.
        """
        by_hand = self.advantage == "exact" or (hands_per_episode > 1 and self.advantage != "gigpo")
        return self._credit(by_hand, protocol)

    def _credit(self, by_hand: bool, protocol: Protocol | None = None) -> CreditConfig:
        credit_fields = {name: vars(self)[name] for name in CREDIT}
        credit_fields["credit"] = self.credit or ("reward" if by_hand else "episode")
        return (
            CreditConfig(**credit_fields) if protocol is None else CreditConfig.from_protocol(protocol, **credit_fields)
        )

    def updates_of(self, steps: int) -> int:
        """Return the optimiser steps of a rollout with `steps` trainable steps."""
        updates = self.updates_per_rollout
        return ceil(steps / self.minibatch_size) if updates == "auto" else int(updates)

    def _size_rollout(self) -> None:
        """Compute the meta-episodes per process from the groups per rollout."""
        processes = processes_started()
        if self.groups_per_rollout is None:
            rollout_size = self.per_device_train_batch_size * processes
            if self.num_generations and rollout_size % self.num_generations:
                raise ValueError(
                    f"num_generations={self.num_generations} does not divide the {rollout_size} meta-episodes of a "
                    f"rollout; set groups_per_rollout, the number of groups, in place of per_device_train_batch_size."
                )
            return
        episodes = self.groups_per_rollout * (self.num_generations or 0)
        if episodes % processes:
            raise ValueError(
                f"groups_per_rollout={self.groups_per_rollout} x num_generations={self.num_generations} meta-episodes "
                f"do not divide among {processes} processes; choose a multiple of {processes}."
            )
        self.per_device_train_batch_size = episodes // processes

    def _size_run(self) -> None:
        """Compute `max_steps` from `max_rollouts`. The trainer lowers it when it knows a rollout's updates."""
        if self.max_rollouts is None and self.max_steps <= 0:
            self.max_rollouts = 150
        if self.max_rollouts is None:
            return
        planned = FOREVER
        if self.updates_per_rollout != "auto":
            planned = self.max_rollouts * int(self.updates_per_rollout)
        self.max_steps = planned if self.max_steps <= 0 else min(self.max_steps, planned)


def _from_file(name: str, value: str | None) -> str | None:
    """Return the content of FILE for `@FILE`, else the value itself."""
    if value is None or not value.startswith("@"):
        return value
    path = Path(value[1:]).expanduser()
    check_path(path, name)
    try:
        return read_named(path).decode().strip()
    except (OSError, ValueError) as error:
        raise ValueError(f"{name}={value!r} names a file that cannot be read as text ({error}).") from error


def _from_json(name: str, value: Any, names: bool = False) -> Any:
    """Return a mapping from JSON text. With `names`, text that is not a JSON object is a name and returned as it is."""
    if value is None or isinstance(value, Mapping):
        return value
    if names and not value.lstrip().startswith("{"):
        return value
    return read_object(name, value, '{"kuhn/aggressive": 0.5, "kuhn/nash": 0.5}' if name == "opponents" else EXAMPLE)
