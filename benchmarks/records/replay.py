"""Environments, opponents, memories and prompts of a run, executed again with the recorded replies.

The replay uses the same `collect` as an evaluation, with a generator that reads replies from the records. It does not
call a model.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym

from mage_envs.benchmarks.evaluation.suites.environments import make_envs
from mage_envs.benchmarks.evaluation.suites.setting import Setting
from mage_envs.benchmarks.records.about import setting_of
from mage_envs.benchmarks.records.identity import differences
from mage_envs.benchmarks.records.lines import chats, encode_line
from mage_envs.benchmarks.records.record_store import Shards, reading, shard_names
from mage_envs.benchmarks.records.shard_lines import read_shard
from mage_envs.core import Task
from mage_envs.opponents.llm.opponent import NOT_RECORDED, replay_calls
from mage_envs.secrets import scrub
from mage_envs.text.generation import Completion, Generator, Message, Prompt
from mage_envs.text.parser import NO_TEXT, OVERFLOW
from mage_envs.text.visible import visible
from mage_envs.wrappers.rollout.loop import RolloutSpec, collect
from mage_envs.wrappers.rollout.trajectory import Trajectory
from mage_envs.wrappers.rollout.trajectory_json import Line

BATCH = 256
"""Maximum number of meta-episodes that are executed at the same time."""
ENDED = "the record ends here"
"""Error that ends the replay of a meta-episode after its last recorded reply."""
_UNCOMPARED = ("digest", "seconds", "failure", "retries")


@dataclass(frozen=True)
class Difference:
    """First difference between a recorded and a replayed meta-episode."""

    index: int
    place: str
    recorded: Any
    found: Any

    def lines(self) -> list[str]:
        """Return a unified diff of both values, one string per line."""
        head = f"meta-episode {self.index}, {self.place}:"
        texts = [
            value if isinstance(value, str) else json.dumps(value, indent=1) for value in (self.recorded, self.found)
        ]
        recorded, replayed = [text.splitlines() or [""] for text in texts]
        return [head, *difflib.unified_diff(recorded, replayed, "recorded", "executed again", lineterm="")]


class _RecordedGenerator:
    """Generator that returns the recorded replies. A prompt that differs from the record ends its meta-episode."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self.differences: dict[int, Difference] = {}
        """First difference of each meta-episode, by the index of its line."""
        self._lines = lines
        self._chats: dict[int, list[list[Message]]] = {}
        self._shortened: dict[tuple[int, int], int] = {}

    def generate(self, prompts: Sequence[Prompt]) -> list[Completion]:
        return [self._answer(prompt) for prompt in prompts]

    def _answer(self, prompt: Prompt) -> Completion:
        # The key of a prompt is (seed, member, number of the call, retry), and `execute` sets member to the line.
        index, number = prompt.seed[1], prompt.seed[2]
        line = self._lines[index]
        count = len(line["calls"])
        failed = line.get("failed_reply") if number == count else None
        if number >= count and failed is None:
            if line["failure"] is None:
                self._differs(index, f"call {number + 1}", None, prompt.messages[-1].content)
            return Completion("", error=ENDED)
        call = failed or line["calls"][number]
        # A prompt that was too long overflows as often as recorded, so that the environment shortens it again.
        overflows = self._shortened.get((index, number), 0)
        if overflows < call["shortened"]:
            self._shortened[index, number] = overflows + 1
            return Completion("", overflow=True)
        if failed:
            return Completion(
                failed["text"],
                truncated=failed["truncated"],
                overflow=failed["overflow"],
                no_text=failed.get("no_text"),
                reasoning=failed.get("reasoning"),
            )
        # The chats of a meta-episode share messages, so they are built together and dropped after its last call.
        if number == 0 or index not in self._chats:
            self._chats[index] = chats(line["calls"])
        recorded = self._chats[index][number]
        if list(prompt.messages) != recorded:
            # The record has no secrets, so a prompt with one differs only until it is scrubbed.
            contents = scrub([message.content for message in prompt.messages])
            recorded_contents = [message.content for message in recorded]
            if contents != recorded_contents:
                where = f"call {number + 1} ({call['kind']}, episode {call['episode'] + 1}), prompt"
                self._differs(index, where, "\n\n".join(recorded_contents), "\n\n".join(contents))
                return Completion("", error=ENDED)
        if number + 1 == len(line["calls"]):
            self._chats.pop(index)
        return Completion(
            call["reply"],
            truncated=call["truncated"],
            overflow=call["invalid_reason"] == OVERFLOW,
            no_text=call["invalid_reason"] if call["invalid_reason"] in NO_TEXT else None,
            tokens=None if call["tokens"] is None else (call["tokens"][0], call["tokens"][1]),
            reasoning=call.get("reasoning"),
        )

    def _differs(self, index: int, where: str, recorded: Any, replayed: Any) -> None:
        # The first difference explains the later ones.
        self.differences.setdefault(index, Difference(self._lines[index]["index"], where, recorded, replayed))


def replay(lines: Sequence[Line], setting: Setting, batch: int = BATCH) -> list[Difference]:
    """Replay meta-episodes and return the first difference of each one that differs, sorted by index.

    Args:
        lines: Recorded meta-episodes.
        batch: Maximum number of meta-episodes that are played at the same time.
    """
    return execute(lines, setting, batch)[1]


def execute(
    lines: Sequence[Line],
    setting: Setting,
    batch: int = BATCH,
    watch: Callable[[Generator], Generator] | None = None,
    envs: Sequence[gym.Env[Any, Any]] = (),
) -> tuple[list[Trajectory], list[Difference]]:
    """Replay meta-episodes and return their trajectories and differences.

    Args:
        lines: Recorded meta-episodes.
        batch: Maximum number of meta-episodes that are played at the same time.
        watch: Function that wraps the generator of recorded replies, to observe the prompts.
        envs: Environments of the setting, if the caller inspects them (default: new ones).

    Returns:
        The trajectories in the order of the lines, and the differences as `replay` returns them.
    """
    if not lines:
        return [], []
    recorded = _RecordedGenerator(lines)
    envs = envs or make_envs(setting.panel.env_id, setting.options, min(batch, len(lines)))
    specs = [RolloutSpec(Task(**line["task"]), member=index) for index, line in enumerate(lines)]
    # Opponents that are language models also get recorded replies. A failure is not retried: it must occur again.
    with replay_calls(call for line in lines for call in line.get("opponent_calls", ())):
        trajectories = collect(envs, recorded if watch is None else watch(recorded), specs, retries=0)
    for index, (line, trajectory) in enumerate(zip(lines, trajectories, strict=True)):
        if index in recorded.differences:
            continue
        encoded_line = encode_line(line["index"], trajectory)
        # Equal digests settle most meta-episodes without comparing any field.
        if encoded_line.digest == line["digest"]:
            continue
        replayed = encoded_line.line()
        # If a process was lost, the opponent's calls were not recorded.
        untold = "opponent_calls" not in line and NOT_RECORDED in (replayed["failure"] or "")
        if line["failure"] is not None and untold:
            continue
        if line["failure"] is None and replayed["failure"] is not None:
            recorded.differences[index] = Difference(line["index"], "failure", None, replayed["failure"])
            continue
        if "failed_reply" in line and "failed_reply" not in replayed:
            recorded.differences[index] = Difference(line["index"], "failure", line["failure"], replayed["failure"])
            continue
        recorded_fields = {key: value for key, value in line.items() if key not in _UNCOMPARED}
        replayed_fields = {key: value for key, value in replayed.items() if key not in _UNCOMPARED}
        # These fields are known only at the end of a meta-episode, which a failed one did not reach.
        if line["failure"] is not None:
            del recorded_fields["opponent"], replayed_fields["opponent"]
            for name in ("num_episodes", "category", "played"):
                del recorded_fields[name], replayed_fields[name]
        if recorded_fields != replayed_fields:
            where, recorded_value, replayed_value = next(differences(recorded_fields, replayed_fields))
            recorded.differences[index] = Difference(line["index"], where, recorded_value, replayed_value)
    return trajectories, sorted(recorded.differences.values(), key=lambda difference: difference.index)


@dataclass(frozen=True)
class Replay:
    """Result of the replay of a run."""

    folder: str
    meta_episodes: int
    calls: int
    damaged_lines: int
    differences: list[Difference]

    @property
    def agrees(self) -> bool:
        """True if every line could be read and nothing differs."""
        return not (self.damaged_lines or self.differences)

    def text(self) -> str:
        """Return the result as text, with the first difference."""
        outcome = f"{len(self.differences)} differ from the records" if self.differences else "all as recorded"
        text = f"{self.folder}: {self.meta_episodes} meta-episodes, {self.calls} calls executed again, {outcome}\n"
        if self.damaged_lines:
            text += f"{self.damaged_lines} lines are damaged: mage verify {self.folder}\n"
        return text + "".join(visible("\n".join(difference.lines())) + "\n" for difference in self.differences[:1])


def replay_run(folder: Path, sample: int | None = None) -> Replay:
    """Replay a run.

    Args:
        sample: Number of meta-episodes to replay, evenly spread, or None for all.

    Raises:
        NoRun: If the folder holds no run.
        ValueError: If no record can be read.
    """
    with reading(folder):
        # The first pass finds the lines that count. The second one executes a batch of them at a time, because all
        # lines of a large run do not fit into memory.
        shards = Shards(folder)
        indices = sorted(shards.kept)
        if not indices:
            raise ValueError(f"{folder} has no readable record to replay.")
        if sample is not None:
            count = min(sample, len(indices))
            indices = [indices[k * len(indices) // count] for k in range(count)]
        setting, differing, calls = setting_of(shards.about), list[Difference](), 0
        for lines in _batches(shards, set(indices), BATCH):
            differing += replay(lines, setting, BATCH)
            calls += sum(len(line["calls"]) for line in lines)
    return Replay(
        folder=str(folder),
        meta_episodes=len(indices),
        calls=calls,
        damaged_lines=len(shards.problems),
        differences=sorted(differing, key=lambda difference: difference.index),
    )


def _batches(shards: Shards, indices: set[int], size: int) -> Iterator[list[Line]]:
    """Yield the last good lines of these indices, at most `size` at a time."""
    batch: list[Line] = []
    for name in shard_names(shards.folder):
        for line in read_shard(shards.folder, name, shards.planned, []):
            if line["index"] in indices and line["digest"] == shards.kept[line["index"]].digest:
                # An index may have equal lines.
                indices.remove(line["index"])
                batch.append(line)
                if len(batch) == size:
                    yield batch
                    batch = []
    if batch:
        yield batch
