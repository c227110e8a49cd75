"""One meta-episode of a record as one line of JSON, with its digest. docs/results-schema.md describes the fields."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from benchmarks.records.canonical import canonical, digest_of, written
from mage_envs.secrets import scrubbed, secrets_of
from mage_envs.text.generation import Message
from trainer.lines import Line, line_of
from trainer.trajectory import Trajectory

VERSION = 2
"""Of the schema; readers take every older one."""
OUTSIDE = ("digest", "seconds")
"""Fields of a line that its digest does not cover."""


class Encoded(NamedTuple):
    """A line as it is written: the digest is over the very bytes that follow it."""

    place: int
    failure: str | None
    digest: str
    text: bytes
    """Canonical JSON of all that the digest covers."""
    seconds: tuple[float, ...]

    def raw(self) -> bytes:
        """The line of the file, its end included."""
        head = b'{"digest":"%s","seconds":%s,' % (self.digest.encode(), written(self.seconds))
        return head + self.text[1:] + b"\n"

    def line(self) -> Line:
        """The line as it is read."""
        found: Line = json.loads(self.raw())
        return found


def encoded(index: int, trajectory: Trajectory) -> Encoded:
    """Return the line of a meta-episode, without secrets."""
    text = written({"index": index, **line_of(trajectory)})
    if any(canonical(secret)[1:-1] in text for secret in secrets_of()):
        text = canonical(scrubbed(json.loads(text)))
    failure: str | None = scrubbed(trajectory.failure)
    return Encoded(place=index, failure=failure, digest=sha256(text).hexdigest(), text=text, seconds=trajectory.seconds)


def digest(line: Mapping[str, Any]) -> str:
    """The digest that a line should have."""
    return digest_of({key: value for key, value in line.items() if key not in OUTSIDE})


def chats(calls: Sequence[Mapping[str, Any]]) -> list[list[Message]]:
    """The whole chat that each call answers."""
    found: list[list[Message]] = []
    for place, call in enumerate(calls):
        new = [Message(**message) for message in call["messages"]]
        if call["fresh"]:
            found.append(new)
        else:
            found.append([*found[-1], Message("assistant", calls[place - 1]["reply"]), *new])
    return found
