"""Controls, which measure the effect of a learner's memory: they remove the memory or replace its text.

`memory="shuffled/reflexion"` is the memory `reflexion` under the control `shuffled`. A control works with every
strategy, because it changes the calls of the strategy (`MemoryCalls`) and not the strategy itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import gymnasium as gym

from mage_envs.core import HandResult, Turn
from mage_envs.files.atomic import write_atomically
from mage_envs.files.cache import cache_root
from mage_envs.loading.arguments import nearest_name
from mage_envs.random.streams import Streams
from mage_envs.text.prompts import BLOCK, EpisodeRecord, TurnRecord
from mage_envs.wrappers.memory import MemoryView
from mage_envs.wrappers.model_calls import Chat, Control, Message

ORDER, SOURCE = 11, 12
"""Roles of a control's random streams: the order of items, and the choice of a source."""


class Frozen(Control):
    """Control that keeps the memory of the first episode until the end."""

    def begin(self, seed: int, task: str, seat: Any = None) -> None:
        self._chat: list[Message] = []

    def allows(self, after_hook: bool, episode: int) -> bool:
        # A reflection on episode 0 may be requested before episode 1.
        return episode == 0 if after_hook else episode <= 1

    def text(self, view: MemoryView, render: Callable[[MemoryView], str]) -> str:
        return render(view._replace(records=view.records[:1]))

    def settle(self, chat: Chat, episode: int) -> None:
        if episode == 1:
            self._chat = chat.copy_messages()
        elif episode > 1:
            chat.restore(self._chat)

    def previous(self, records: Sequence[EpisodeRecord]) -> EpisodeRecord:
        return records[0]


class Empty(Control):
    """Control that shows no memory. A policy, which reads no text, is replaced by a new one before each episode."""

    def allows(self, after_hook: bool, episode: int) -> bool:
        return False

    def text(self, view: MemoryView, render: Callable[[MemoryView], str]) -> str:
        return ""

    def settle(self, chat: Chat, episode: int) -> None:
        chat.clear()


class Shuffled(Control):
    """Control that shuffles the memory's items, which are the blocks of its text between blank lines."""

    def begin(self, seed: int, task: str, seat: Any = None) -> None:
        self._streams = Streams(seed)

    def text(self, view: MemoryView, render: Callable[[MemoryView], str]) -> str:
        # One stream per episode, so that the order of the same items does not change between the episode's prompts.
        blocks = render(view).split(BLOCK)
        order = self._streams.at(ORDER, view.episode).generator().permutation(len(blocks))
        return BLOCK.join(blocks[index] for index in order)

    def settle(self, chat: Chat, episode: int) -> None:
        if chat and episode > 0:
            raise ValueError("Control 'shuffled' needs context='rebuilt', because a conversation has a fixed order.")


class Other(Control):
    """Control that shows the memory of a meta-episode with another opponent or task, before the same episode."""

    def __init__(self, source: str) -> None:
        """Read a source by the digest from `keep_source`. Raises ValueError if it is not in this machine's cache."""
        self._source, self._entries = source, _read_source(source)

    def begin(self, seed: int, task: str, seat: Any = None) -> None:
        entries = self._fitting(seed, task, seat)
        self._entry = entries[int(Streams(seed).number(SOURCE) * len(entries))]
        self._chosen = self._entry["episodes"]

    def to_info(self) -> dict[str, Any]:
        return {"memory_source": [self._source, self._entries.index(self._entry)]}

    def _fitting(self, seed: int, task: str, seat: Any) -> Sequence[Mapping[str, Any]]:
        """Return the entries to choose from. Raises ValueError if there are none."""
        others = [entry for entry in self._entries if entry["task"] != task]
        if not others:
            raise ValueError(f"Control 'other': the run in --from contains only {task}. Use one with more opponents.")
        return others

    def allows(self, after_hook: bool, episode: int) -> bool:
        return False

    def _at(self, episode: int) -> Mapping[str, Any]:
        if episode >= len(self._chosen):
            name = type(self).__name__.lower()
            raise ValueError(f"Control {name!r}: the run in --from has {len(self._chosen)} episodes. Use a longer run.")
        entry: Mapping[str, Any] = self._chosen[episode]
        return entry

    def text(self, view: MemoryView, render: Callable[[MemoryView], str]) -> str:
        text: str = self._at(view.episode)["text"]
        return text

    def settle(self, chat: Chat, episode: int) -> None:
        if episode > 0 and chat:
            chat.restore(self._at(episode)["chat"])

    def previous(self, records: Sequence[EpisodeRecord]) -> EpisodeRecord:
        return record_of(self._at(len(records))["previous"])


class Same(Other):
    """Control that shows the memory of a meta-episode with the same opponent and other deals, before the same episode.

    Unlike its own memory, it holds no cards and no moves of the learner's own meta-episode.
    """

    def _fitting(self, seed: int, task: str, seat: Any) -> Sequence[Mapping[str, Any]]:
        entries = [entry for entry in self._entries if entry["task"] == task and entry["seed"] != seed]
        if not entries:
            raise ValueError(
                f"Control 'same': the run in --from has no other deals with {task}. Use one with more rows."
            )
        # In another seat the learner saw other things, so such a memory is the second choice.
        return [entry for entry in entries if entry["seat"] == seat] or entries


class Given(Control):
    """Control that states the hidden fact before the memory, which measures what knowing it is worth to a model."""

    def read_env(self, env: gym.Env[Any, Any]) -> None:
        if not env.has_wrapper_attr("describe_opponent"):
            raise ValueError(f"Control 'given' requires a game of related tasks; {env} describes no opponents.")
        self._fact: str = env.get_wrapper_attr("describe_opponent")()

    def text(self, view: MemoryView, render: Callable[[MemoryView], str]) -> str:
        return BLOCK.join(filter(None, (self._fact, render(view))))


CONTROLS: Mapping[str, Callable[..., Control]] = {
    "none": Empty,
    "frozen": Frozen,
    "shuffled": Shuffled,
    "other": Other,
    "same": Same,
    "given": Given,
}
"""Builders of the controls by their name in a specification. `other@DIGEST` includes the digest of its source."""
SOURCED = ("other", "same")
"""Controls that copy memories from a source."""


def parse_control(memory: Any) -> tuple[Control, Any]:
    """Return the control of a memory's specification, and the specification without it.

    Raises ValueError if the control is unknown, or if its source is missing or malformed.
    """
    if not isinstance(memory, str):
        return Control(), memory
    head, slash, strategy = memory.partition("/")
    name, at, source = head.partition("@")
    # A slash after a colon belongs to an option, such as the path of a bank.
    if not slash or ":" in head:
        return Control(), memory
    if name not in CONTROLS:
        raise ValueError(
            f"memory={memory!r}: unknown control {name!r}.{nearest_name(name, CONTROLS)} Choose {', '.join(CONTROLS)}."
        )
    # The digest becomes a file name in the cache, so any other text could name a file outside it.
    if (name in SOURCED) != bool(at) or (at and not re.fullmatch(r"[0-9a-f]{32}", source)):
        raise ValueError(
            f"memory={memory!r}: only the controls {' and '.join(SOURCED)} name a source: other@DIGEST/NAME."
        )
    return CONTROLS[name](*([source] if at else [])), strategy


# -- sources of `other` ----------------------------------------------------------------------------------------


def _path(digest: str) -> Path:
    return cache_root() / "controls" / f"{digest}.json"


def keep_source(entries: Sequence[Mapping[str, Any]]) -> str:
    """Store the memories of meta-episodes in the cache. Return the digest of the stored source.

    An entry has a `task` and a list `episodes`, and for the control `same` the `seed` and the `seat` of its task. Each
    episode has `text`, `chat` and `previous` (None in episode 0).
    """
    text = json.dumps(list(entries), sort_keys=True, separators=(",", ":"))
    digest = sha256(text.encode()).hexdigest()[:32]
    if not _path(digest).exists():
        write_atomically(_path(digest), text)
    return digest


# Every environment of a run reads the same source, so it is parsed once.
@lru_cache(maxsize=4)
def _read_source(digest: str) -> Sequence[Mapping[str, Any]]:
    path = _path(digest)
    try:
        text = path.read_text("utf-8")
    except OSError:
        text = ""
    if sha256(text.encode()).hexdigest()[:32] != digest:
        raise ValueError(
            f"Control: its source {digest[:12]} is not in the cache ({path.parent}), or was changed. "
            "Create it again with mage eval … --control NAME --from RUN."
        )
    entries: Sequence[Mapping[str, Any]] = json.loads(text)
    return entries


def source_turns(source: Sequence[Any], episode: int) -> Sequence[Sequence[Mapping[str, Any]]]:
    """Return the prompts of a source's episodes before `episode`, for a policy, whose memory no text can hold.

    Args:
        source: Digest of the source and index of its entry, as in `info["memory_source"]`.
        episode: Index of the episode that is played with this memory.

    Raises:
        ValueError: If the source is not that of a policy, or not in this machine's cache.
    """
    digest, index = source
    entry = _read_source(digest)[index]
    if "turns" not in entry:
        raise ValueError("Control 'other': the run in --from was not played by a policy, and this agent is one.")
    turns: Sequence[Sequence[Mapping[str, Any]]] = entry["turns"][:episode]
    return turns


def record_json(record: EpisodeRecord) -> dict[str, Any]:
    """Return an episode record as JSON values, without all turns except the last.

    This is the part that the first message of the next episode uses.
    """
    return asdict(replace(record, turns=(), hands=())) | {
        "hands": [_hand_json(hand) for hand in record.hands],
        "turns": [_turn_json(turn) for turn in record.turns[-1:]],
    }


def _hand_json(hand: HandResult) -> dict[str, Any]:
    # Without an empty `last_state`, so that the digest of a source does not depend on a later field.
    return {key: value for key, value in hand.to_info().items() if key != "last_state" or value}


def _turn_json(record: TurnRecord) -> dict[str, Any]:
    hand_result = None if record.ended is None else _hand_json(record.ended)
    turn = record.turn._asdict()
    # The stored key is that of `info`. The digest of a stored source depends on it.
    turn["task"] = turn.pop("task_id")
    # A revealed opponent is no part of what the learner saw.
    del turn["opponent"]
    stored = record._asdict() | {"turn": turn, "ended": hand_result}
    return {key: value for key, value in stored.items() if key != "reason" or value}


def record_of(stored: Mapping[str, Any]) -> EpisodeRecord:
    """Return the record for a value of `record_json`."""
    turns = tuple(_turn_of(turn) for turn in stored["turns"])
    hands = tuple(HandResult.from_info(hand) for hand in stored["hands"])
    return EpisodeRecord(**{**stored, "turns": turns, "hands": hands})


def _turn_of(stored: Mapping[str, Any]) -> TurnRecord:
    # JSON has no tuples, and a record with lists would not equal the original.
    turn: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in stored["turn"].items()
    }
    turn["task_id"] = turn.pop("task")
    hand_result = None if stored["ended"] is None else HandResult.from_info(stored["ended"])
    return TurnRecord(**{**stored, "turn": Turn(**turn), "ended": hand_result})
