"""`--control` of `mage-bench eval`: the same agent, its memory taken away or exchanged (`wrappers.controls`)."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import gymnasium as gym

from benchmarks.evaluation.environments import make_envs
from benchmarks.evaluation.suites.settings import Setting
from benchmarks.records.about import setting_of
from benchmarks.records.replay import executed
from benchmarks.records.store import Records, reading
from mage_envs.text.generation import Completion, Generator, Prompt
from wrappers.controls import CONTROLS, Control, keep_source, record_json, split_control

BATCH = 256
NAMES = ("none", *CONTROLS)
_SHARED = ("memory", "context", "style", "env_id")
"""Options in which a source must agree."""


def controlled(setting: Setting, control: str, source: str | None) -> Setting:
    """The setting under a control; `source`: folder of the run that `other` takes its memories from.

    Raises ValueError with the remedy, and NoRun.
    """
    if control != "other" and source is not None:
        raise ValueError("--from belongs to --control other; leave it out.")
    if (episodes := setting.resolved["num_episodes"]) < 2:
        raise ValueError(f"--control {control} with num_episodes={episodes}: there is no earlier episode to remember.")
    if control == "none":
        return setting.changed(memory="none")
    memory = setting.resolved["memory"]
    if type(split_control(memory)[0]) is not Control:
        raise ValueError(f"memory={memory!r} is under a control already; leave --control out.")
    if control == "other":
        if source is None:
            raise ValueError("--control other needs --from RUN: a run of the same memory, to take memories from.")
        control = f"other@{keep_source(memories_of(Path(source), setting))}"
    return setting.changed(memory=f"{control}/{memory}")


def memories_of(folder: Path, setting: Setting) -> list[dict[str, Any]]:
    """What the meta-episodes of a run had in memory before each episode, executed again from their records."""
    with reading(folder):
        return _memories(Records(folder), setting)


def _memories(records: Records, setting: Setting) -> list[dict[str, Any]]:
    folder, there = records.folder, setting_of(records.about)
    for name in _SHARED:
        if there.resolved[name] != setting.resolved[name]:
            raise ValueError(
                f"--from {folder} was played with {name}={there.resolved[name]!r}, and this run has "
                f"{setting.resolved[name]!r}; take a run of the same."
            )
    if there.resolved["num_episodes"] < setting.resolved["num_episodes"]:
        raise ValueError(
            f"--from {folder} has meta-episodes of {there.resolved['num_episodes']}, and this run of "
            f"{setting.resolved['num_episodes']} episodes; take a run that is as long."
        )
    lines = [line for _, line in sorted(records.lines.items()) if line["failure"] is None]
    if not lines:
        raise ValueError(f"--from {folder} holds no meta-episode that was played to its end.")
    envs = make_envs(there.panel.env_id, there.options, min(len(lines), BATCH))
    taken: list[list[dict[str, Any]]] = [[] for _ in lines]
    _, found = executed(lines, there, watch=lambda generator: _Listener(generator, envs, taken), envs=envs)
    if found:
        raise ValueError(f"--from {folder} comes out otherwise when it is executed again: {found[0].lines()[0]}")
    return [
        {"task": str(line["task"]["opponent"] or line["task"]["task_id"] or line["task"]["seed"]), "episodes": episodes}
        for line, episodes in zip(lines, taken, strict=True)
    ]


class _Listener:
    """The recorded replies; beside, what is in memory at the first play prompt of each episode."""

    def __init__(
        self, generator: Generator, envs: Sequence[gym.Env[Any, Any]], taken: Sequence[list[dict[str, Any]]]
    ) -> None:
        self._generator, self._envs, self._taken = generator, envs, taken

    def generate(self, prompts: Sequence[Prompt]) -> list[Completion]:
        for prompt in prompts:
            self._listen(prompt)
        return self._generator.generate(prompts)

    def _listen(self, prompt: Prompt) -> None:
        found = self._taken[prompt.seed[1]]
        if prompt.phase != "play" or prompt.info["episode_index"] < len(found):
            return
        env = self._envs[prompt.slot]
        view = env.get_wrapper_attr("memory_view")()
        found.append(
            {
                "text": deepcopy(env.get_wrapper_attr("memory")).render(view),  # which tells events, once more
                "chat": [message._asdict() for message in prompt.messages[:-1]],
                "previous": record_json(view.records[-1]) if view.records else None,
            }
        )
