"""One meta-episode as one line of JSON, and back. docs/results-schema.md describes the fields."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from benchmarks.records.canonical import canonical, digest_of, number, plain, written
from benchmarks.records.secrets import scrubbed
from mage_envs.core import Task
from mage_envs.text.generation import Message
from trainer.trajectory import EpisodeResult, FailedReply, Step, Trajectory

VERSION = 1
"""Of the schema; readers take every older one."""
OUTSIDE = ("digest", "seconds")
"""Fields of a line that its digest does not cover."""

Line = dict[str, Any]


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


def encoded(index: int, trajectory: Trajectory, secrets: tuple[str, ...] = ()) -> Encoded:
    """The line of a meta-episode, without the secrets."""
    text = written(_facts(index, trajectory))
    if any(canonical(secret)[1:-1] in text for secret in secrets):
        text = canonical(scrubbed(json.loads(text), secrets))
    failure: str | None = scrubbed(trajectory.failure, secrets)
    return Encoded(index, failure, sha256(text).hexdigest(), text, trajectory.seconds)


def _facts(index: int, trajectory: Trajectory) -> dict[str, Any]:
    at_times: dict[str, Any] = {}
    if trajectory.opponent_calls:
        at_times["opponent_calls"] = plain(trajectory.opponent_calls)
    if trajectory.failed_reply is not None:
        at_times["failed_reply"] = trajectory.failed_reply._asdict()
    return at_times | {
        "index": index,
        "task": vars(trajectory.task),
        "category": trajectory.category,
        "played": trajectory.played,
        "opponent": trajectory.opponent,
        "seat0": trajectory.task.seat,
        "retries": trajectory.retries,
        "failure": trajectory.failure,
        "num_episodes": trajectory.num_episodes,
        "episodes": [episode._asdict() | {"metrics": plain(episode.metrics)} for episode in trajectory.episodes],
        "calls": [_call(step) for step in trajectory.steps],
    }


def _call(step: Step) -> dict[str, Any]:
    return {
        "kind": step.kind or step.phase,
        "phase": step.phase,
        "episode": step.episode,
        "hand": step.hand,
        "turn": step.turn,
        "seat": step.seat,
        "messages": [message._asdict() for message in step.messages],
        "fresh": step.fresh_chat,
        "shortened": step.shortened,
        "observation": step.anchor,
        "information_state": step.information_state,
        "legal_actions": step.legal_actions,
        "reply": step.text,
        "truncated": step.truncated,
        "action": step.action,
        "invalid_reason": step.invalid_reason,
        "penalty": step.penalty,
        "reward": step.reward,
        "hand_end": step.hand_end,
        "tokens": step.tokens,
        "memory_events": plain(step.events) if step.events else (),
    }


def digest(line: Mapping[str, Any]) -> str:
    """The digest that a line should have."""
    return digest_of({key: value for key, value in line.items() if key not in OUTSIDE})


def trajectory_of(line: Mapping[str, Any]) -> Trajectory:
    """The meta-episode that a line tells of; ids and log-probabilities of tokens are no part of it."""
    return Trajectory(
        task=Task(**line["task"]),
        opponent=line["opponent"],
        group=0,
        member=0,
        steps=tuple(_step(call) for call in line["calls"]),
        episodes=tuple(_episode(episode) for episode in line["episodes"]),
        num_episodes=line["num_episodes"],
        failure=line["failure"],
        retries=line["retries"],
        category=line["category"],
        played=line["played"],
        seconds=tuple(line["seconds"]),
        opponent_calls=tuple(line.get("opponent_calls", ())),
        failed_reply=FailedReply(**line["failed_reply"]) if "failed_reply" in line else None,
    )


def _episode(told: Mapping[str, Any]) -> EpisodeResult:
    return EpisodeResult(
        reward=number(told["reward"]),
        value=number(told["value"]),
        hands=told["hands"],
        success=told["success"],
        timeout=told["timeout"],
        seats=tuple(told["seats"]),
        metrics={name: number(value) for name, value in told["metrics"].items()},
    )


def _step(call: Mapping[str, Any]) -> Step:
    return Step(
        episode=call["episode"],
        phase=call["phase"],
        turn=call["turn"],
        hand=call["hand"],
        anchor=call["observation"],
        information_state=call["information_state"],
        seat=call["seat"],
        action=call["action"],
        reward=number(call["reward"]),
        penalty=number(call["penalty"]),
        invalid_reason=call["invalid_reason"],
        text=call["reply"],
        truncated=call["truncated"],
        hand_end=call["hand_end"],
        kind=call["kind"],
        messages=tuple(Message(**message) for message in call["messages"]),
        fresh_chat=call["fresh"],
        shortened=call["shortened"],
        legal_actions=tuple(call["legal_actions"]),
        tokens=None if call["tokens"] is None else (call["tokens"][0], call["tokens"][1]),
        events=tuple(call["memory_events"]),
    )


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
