"""Controls: what a learner's memory is worth is told by taking it away, or by exchanging what it shows.

`memory="shuffled/reflexion"` is the memory `reflexion` under the control `shuffled`. They work on every strategy:
in its calls (`MemoryCalls`), not in the strategy itself.
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

from mage_envs.arguments import nearest_name
from mage_envs.cache import cache_root
from mage_envs.core import HandResult, Turn
from mage_envs.durable import write_atomically
from mage_envs.randomness import Streams
from mage_envs.text.prompts import BLOCK, EpisodeRecord, TurnRecord
from wrappers.chat import Chat, Message
from wrappers.memory import MemoryView

ORDER, SOURCE = 11, 12
"""Roles of a control's random streams."""


class Control:
    """The plain course: no control at all. Its subclasses change one thing each."""

    def begin(self, seed: int, task: str) -> None:
        """Starts a meta-episode; `task`: the opponent, else the task, else the seed of the reset, as a name."""

    def allows(self, after: bool, episode: int) -> bool:
        """Whether the strategy's hooks are called; `after` an answer or an episode, or before one."""
        return True

    def text(self, view: MemoryView, render: Callable[[MemoryView], str]) -> str:
        """The memory section of a play prompt."""
        return render(view)

    def settle(self, chat: Chat, episode: int) -> None:
        """Changes a chat that goes on, before the first play prompt of an episode."""

    def previous(self, records: Sequence[EpisodeRecord]) -> EpisodeRecord:
        """The episode whose end the first message of the next one tells, in a chat that goes on."""
        return records[-1]


class Frozen(Control):
    """The memory of the first episode, kept to the end."""

    def begin(self, seed: int, task: str) -> None:
        self._chat: list[Message] = []

    def allows(self, after: bool, episode: int) -> bool:
        return episode == 0 if after else episode <= 1

    def text(self, view: MemoryView, render: Callable[[MemoryView], str]) -> str:
        return render(view._replace(records=view.records[:1]))

    def settle(self, chat: Chat, episode: int) -> None:
        if episode == 1:
            self._chat = chat.kept()
        elif episode > 1:
            chat.restore(self._chat)

    def previous(self, records: Sequence[EpisodeRecord]) -> EpisodeRecord:
        return records[0]


class Shuffled(Control):
    """The memory's items in random order: the blocks of its text between blank lines."""

    def begin(self, seed: int, task: str) -> None:
        self._streams = Streams(seed)

    def text(self, view: MemoryView, render: Callable[[MemoryView], str]) -> str:
        blocks = render(view).split(BLOCK)
        order = self._streams.at(ORDER, view.episode).generator().permutation(len(blocks))
        return BLOCK.join(blocks[place] for place in order)

    def settle(self, chat: Chat, episode: int) -> None:
        if chat and episode > 0:
            raise ValueError("Control 'shuffled' needs context='rebuilt': the messages of a chat have one order.")


class Other(Control):
    """What a meta-episode of another opponent, or of another task, had in memory before the same episode."""

    def __init__(self, source: str) -> None:
        """`source`: the digest of what `keep_source` kept. Raises ValueError where it is not on this machine."""
        self._entries = _read_source(source)

    def begin(self, seed: int, task: str) -> None:
        others = [one for one in self._entries if one["task"] != task]
        if not others:
            raise ValueError(f"Control 'other': the run of --from has met {task} alone; it needs another one too.")
        self._chosen = others[int(Streams(seed).number(SOURCE) * len(others))]["episodes"]

    def allows(self, after: bool, episode: int) -> bool:
        return False

    def _at(self, episode: int) -> Mapping[str, Any]:
        if episode >= len(self._chosen):
            raise ValueError(f"Control 'other': the run of --from has {len(self._chosen)} episodes; take a longer one.")
        found: Mapping[str, Any] = self._chosen[episode]
        return found

    def text(self, view: MemoryView, render: Callable[[MemoryView], str]) -> str:
        text: str = self._at(view.episode)["text"]
        return text

    def settle(self, chat: Chat, episode: int) -> None:
        if episode > 0 and chat:
            chat.restore(self._at(episode)["chat"])

    def previous(self, records: Sequence[EpisodeRecord]) -> EpisodeRecord:
        return record_of(self._at(len(records))["previous"])


CONTROLS: Mapping[str, Callable[..., Control]] = {"frozen": Frozen, "shuffled": Shuffled, "other": Other}
"""Name in a specification to what makes the control; `other@DIGEST` names its source."""


def split_control(memory: Any) -> tuple[Control, Any]:
    """The control of a memory's specification, and the specification without it. Raises ValueError."""
    if not isinstance(memory, str):
        return Control(), memory
    head, slash, rest = memory.partition("/")
    name, at, source = head.partition("@")
    if not slash or ":" in head:
        return Control(), memory
    if name not in CONTROLS:
        raise ValueError(
            f"memory={memory!r}: unknown control {name!r}.{nearest_name(name, CONTROLS)} Choose {', '.join(CONTROLS)}."
        )
    # The digest becomes a file name in the cache, so nothing else may stand there.
    if (name == "other") != bool(at) or (at and not re.fullmatch(r"[0-9a-f]{32}", source)):
        raise ValueError(f"memory={memory!r}: only the control other names a source: other@DIGEST/NAME.")
    return CONTROLS[name](*([source] if at else [])), rest


# -- sources of `other` ----------------------------------------------------------------------------------------


def _path(digest: str) -> Path:
    return cache_root() / "controls" / f"{digest}.json"


def keep_source(entries: Sequence[Mapping[str, Any]]) -> str:
    """Keeps what meta-episodes had in memory, in the cache; returns the digest that names it.

    An entry has `task` and `episodes`, a list by episode of `text`, `chat` and `previous` (None in the first).
    """
    text = json.dumps(list(entries), sort_keys=True, separators=(",", ":"))
    digest = sha256(text.encode()).hexdigest()[:32]
    if not _path(digest).exists():
        write_atomically(_path(digest), text)
    return digest


@lru_cache(maxsize=4)
def _read_source(digest: str) -> Sequence[Mapping[str, Any]]:
    path = _path(digest)
    try:
        text = path.read_text("utf-8")
    except OSError:
        text = ""
    if sha256(text.encode()).hexdigest()[:32] != digest:
        raise ValueError(
            f"Control 'other': its source {digest[:12]} is not in the cache ({path.parent}), or was changed; "
            "mage-bench eval … --control other --from RUN makes it again."
        )
    entries: Sequence[Mapping[str, Any]] = json.loads(text)
    return entries


def record_json(record: EpisodeRecord) -> dict[str, Any]:
    """What the next episode's first message tells of an episode's end, as JSON values: all but its earlier turns."""
    return asdict(replace(record, turns=(), hands=())) | {
        "hands": [hand._asdict() for hand in record.hands],
        "turns": [_turn_json(turn) for turn in record.turns[-1:]],
    }


def _turn_json(record: TurnRecord) -> dict[str, Any]:
    ended = None if record.ended is None else record.ended._asdict()
    return record._asdict() | {"turn": record.turn._asdict(), "ended": ended}


def record_of(told: Mapping[str, Any]) -> EpisodeRecord:
    """The record that `record_json` told of."""
    turns = tuple(_turn_of(turn) for turn in told["turns"])
    hands = tuple(HandResult(**hand) for hand in told["hands"])
    return EpisodeRecord(**{**told, "turns": turns, "hands": hands})


def _turn_of(told: Mapping[str, Any]) -> TurnRecord:
    lists = {key: tuple(value) for key, value in told["turn"].items() if isinstance(value, list)}
    turn: dict[str, Any] = {**told["turn"], **lists}
    ended = None if told["ended"] is None else HandResult(**told["ended"])
    return TurnRecord(**{**told, "turn": Turn(**turn), "ended": ended})
