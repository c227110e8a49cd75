"""Meta-episodes as lines of JSON, each with its digest. docs/results-schema.md describes the fields."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from mage_envs.benchmarks.canonical import canonical, digest_of, encode
from mage_envs.secrets import scrub, secrets_of
from mage_envs.text.generation import Message
from mage_envs.wrappers.rollout.trajectory import Trajectory
from mage_envs.wrappers.rollout.trajectory_json import Line, trajectory_to_json

VERSION = 2
"""Version of the schema, the only one that readers accept."""
OUTSIDE = ("digest", "seconds")
"""Fields that the digest of a line does not cover."""


class EncodedLine(NamedTuple):
    """Line in its written form. The digest is computed over the bytes that are written after it."""

    position: int
    failure: str | None
    digest: str
    text: bytes
    """Canonical JSON of all fields that the digest covers."""
    seconds: tuple[float, ...]

    def raw(self) -> bytes:
        """Return the line of the file, with its line end."""
        # Built from the encoded text, because encoding a long meta-episode twice is expensive.
        head = b'{"digest":"%s","seconds":%s,' % (self.digest.encode(), encode(self.seconds))
        return head + self.text[1:] + b"\n"

    def line(self) -> Line:
        """Return the line in the form that readers parse."""
        line: Line = json.loads(self.raw())
        return line


def encode_line(index: int, trajectory: Trajectory) -> EncodedLine:
    """Return the line of a meta-episode, without secrets."""
    text = encode({"index": index, **trajectory_to_json(trajectory)})
    # Searched in the encoded form first: scrubbing decodes and encodes the line, and is rarely needed.
    if any(canonical(secret)[1:-1] in text for secret in secrets_of()):
        text = canonical(scrub(json.loads(text)))
    failure: str | None = scrub(trajectory.failure)
    return EncodedLine(
        position=index, failure=failure, digest=sha256(text).hexdigest(), text=text, seconds=trajectory.seconds
    )


def digest(line: Mapping[str, Any]) -> str:
    """Return the digest that a line must have."""
    return digest_of({key: value for key, value in line.items() if key not in OUTSIDE})


def chats(calls: Sequence[Mapping[str, Any]]) -> list[list[Message]]:
    """Return the complete chat of each call."""
    messages_by_call: list[list[Message]] = []
    for number, call in enumerate(calls):
        # A line stores only new messages; a call that continues a chat extends that of the call before.
        new = [Message(**message) for message in call["messages"]]
        if call["fresh"]:
            messages_by_call.append(new)
        else:
            messages_by_call.append([*messages_by_call[-1], Message("assistant", calls[number - 1]["reply"]), *new])
    return messages_by_call
