"""`--control` of `mage eval`: the same agent without its memory, or with another (`mage_envs.wrappers.controls`)."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import gymnasium as gym

from mage_envs.benchmarks.evaluation.run.agents import NO_MODEL
from mage_envs.benchmarks.evaluation.suites.environments import make_envs
from mage_envs.benchmarks.evaluation.suites.setting import Setting
from mage_envs.benchmarks.records.about import setting_of
from mage_envs.benchmarks.records.record_store import Records, reading
from mage_envs.benchmarks.records.replay import execute
from mage_envs.info import private_info
from mage_envs.loading.arguments import parse
from mage_envs.text.generation import Completion, Generator, Prompt
from mage_envs.wrappers.controls import SOURCED, keep_source, parse_control, record_json
from mage_envs.wrappers.model_calls import Control

BATCH = 256
"""Maximum number of meta-episodes of the source run that are executed concurrently."""
_READ_BY_POLICIES = (
    "episode_index",
    "hand",
    "seat",
    "legal_actions",
    "anchor",
    "information_state",
    "history",
    "hand_results",
)
"""Entries of `info` that a policy's turn is made of."""
_SHARED = ("memory", "context", "style", "env_id")
"""Options in which the source run must agree."""


def apply_control(
    setting: Setting, control: str, source: str | None, by_policy: bool = False, own_memory: bool = False
) -> Setting:
    """Return the setting under a control.

    Args:
        setting: Setting without a control.
        control: One of `options.ControlName`.
        source: Folder of the run from which the controls `other` and `same` copy memories; None for other controls.
        by_policy: True if a policy plays, whose memory is its turns.
        own_memory: True if the agent has a memory of its own, which `none` must empty, too.

    Raises:
        NoRun: If `source` holds no run.
        ValueError: If the setting has a single episode or a control already, or if `source` is missing or does not
            match.
    """
    if control not in SOURCED and source is not None:
        raise ValueError(f"--from requires --control {' or '.join(SOURCED)}. Remove --from.")
    if (episodes := setting.resolved["num_episodes"]) < 2:
        raise ValueError(f"--control {control} requires num_episodes of at least 2, got {episodes}.")
    if control == "none" and not (by_policy or own_memory):
        return setting.with_options(memory="none")
    memory = setting.resolved["memory"]
    if type(parse_control(memory)[0]) is not Control:
        raise ValueError(f"memory={memory!r} already has a control. Remove --control.")
    if control in SOURCED:
        if source is None:
            raise ValueError(
                f"--control {control} requires --from RUN: a run with the same memory to copy memories from."
            )
        entries = memories_of(Path(source), setting, by_policy)
        if control == "other":
            # The digest of a stored source must not change, and `other` needs no more than this.
            keys = ("task", "episodes", "turns")
            entries = [{name: entry[name] for name in keys if name in entry} for entry in entries]
        control = f"{control}@{keep_source(entries)}"
    return setting.with_options(memory=f"{control}/{memory}")


def memories_of(folder: Path, setting: Setting, by_policy: bool = False) -> list[dict[str, Any]]:
    """Return the memory before each episode of a run's meta-episodes, by executing its records again.

    Args:
        setting: Setting that the memories are copied into.
        by_policy: True if a policy plays, whose memory is no text: its turns are returned, too.
    """
    with reading(folder):
        return _memories(Records(folder), setting, by_policy)


def _memories(records: Records, setting: Setting, by_policy: bool) -> list[dict[str, Any]]:
    """Return the memories of a run. Raise ValueError if it does not match the setting or has another outcome now."""
    folder, source = records.folder, setting_of(records.about)
    for name in _SHARED:
        if source.resolved[name] != setting.resolved[name]:
            raise ValueError(
                f"--from {folder} was played with {name}={source.resolved[name]!r}, and this run has "
                f"{setting.resolved[name]!r}. Use a run with the same {name}."
            )
    if source.resolved["num_episodes"] < setting.resolved["num_episodes"]:
        raise ValueError(
            f"--from {folder} has meta-episodes of {source.resolved['num_episodes']}, and this run of "
            f"{setting.resolved['num_episodes']} episodes. Use a run that is at least as long."
        )
    lines = [line for _, line in sorted(records.lines.items()) if line["failure"] is None]
    if not lines:
        raise ValueError(f"--from {folder} holds no finished meta-episode.")
    # The listener reads the memory out of these environments, so they are made here and not by `execute`.
    envs = make_envs(source.panel.env_id, source.options, min(len(lines), BATCH))
    memories: list[list[dict[str, Any]]] = [[] for _ in lines]
    # A run may have any --name, so that the name shows a policy, but not that there is none.
    by_policy = by_policy or parse(records.about["agent"]["name"]).name in NO_MODEL
    turns: list[list[list[dict[str, Any]]]] = [[] for _ in lines]
    _, mismatches = execute(
        lines, source, watch=lambda generator: _Listener(generator, envs, memories, turns), envs=envs
    )
    if mismatches:
        raise ValueError(f"--from {folder} has another outcome when it is executed again: {mismatches[0].lines()[0]}")
    return [
        {
            "task": str(line["task"]["opponent"] or line["task"]["task_id"] or line["task"]["seed"]),
            "seed": line["task"]["seed"],
            "seat": line["task"]["seat"],
            "episodes": episodes,
            **({"turns": recorded_turns} if by_policy else {}),
        }
        for line, episodes, recorded_turns in zip(lines, memories, turns, strict=True)
    ]


class _Listener:
    """A generator of the recorded replies that stores the memory at the first play prompt of each episode."""

    def __init__(
        self,
        generator: Generator,
        envs: Sequence[gym.Env[Any, Any]],
        memories: Sequence[list[dict[str, Any]]],
        turns: Sequence[list[list[dict[str, Any]]]],
    ) -> None:
        self._generator, self._envs, self._taken, self._turns = generator, envs, memories, turns

    def generate(self, prompts: Sequence[Prompt]) -> list[Completion]:
        for prompt in prompts:
            self._listen(prompt)
        return self._generator.generate(prompts)

    def _listen(self, prompt: Prompt) -> None:
        """Store the prompt's turn, and the memory if the prompt is the first play prompt of an episode."""
        # `execute` numbers the lines by `member`, the second part of the seed.
        self._store_turn(self._turns[prompt.seed[1]], prompt)
        memories = self._taken[prompt.seed[1]]
        if prompt.phase != "play" or prompt.info["episode_index"] < len(memories):
            return
        env = self._envs[prompt.slot]
        view = env.get_wrapper_attr("memory_view")()
        memories.append(
            {
                # `render` may log events. A copy renders, so that the memory itself logs them only once.
                "text": deepcopy(env.get_wrapper_attr("memory")).render(view),
                "chat": [message._asdict() for message in prompt.messages[:-1]],
                "previous": record_json(view.records[-1]) if view.records else None,
            }
        )

    @staticmethod
    def _store_turn(turns: list[list[dict[str, Any]]], prompt: Prompt) -> None:
        """Store what a policy reads of a prompt. The results of an episode's last hand belong to this episode."""
        info = {key: prompt.info[key] for key in _READ_BY_POLICIES if key in prompt.info}
        private = private_info(prompt.info)
        info["private"] = {key: private[key] for key in ("legal_actions", "task") if key in private}
        episode, seed = info["episode_index"], [prompt.seed[0], 0, prompt.seed[2], 0]
        if episode == len(turns):
            results = info.pop("hand_results", ())
            if turns:
                turns[-1].append({"info": {**info, "hand_results": results}, "seed": seed, "acts": False})
            turns.append([])
        turns[episode].append({"info": info, "seed": seed, "acts": prompt.phase == "play"})
