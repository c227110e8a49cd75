"""A meta-episode as the page unpacks it: each line of text once, each prompt as what differs from the one before."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from mage_envs.text.parser import after_reasoning
from trainer.lines import Line, read_episode
from trainer.trajectory import EpisodeResult


class ReplyParts(NamedTuple):
    """A reply in the order of its parts; the answer is what the parser reads."""

    thinking: str
    answer: str
    rest: str
    """Of reasoning that was never closed."""


def parts(reply: str) -> ReplyParts:
    """The reasoning before the answer, the answer, and the reasoning after it. Joined they are the reply."""
    answer = after_reasoning(reply)
    start = len(reply) - len(answer) if reply.endswith(answer) else reply.rfind(answer)
    return ReplyParts(reply[:start], answer, reply[start + len(answer) :])


def numbered(line: Line) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each call with its name in its episode: t1, t2 for the turns of play, r1, r2 for what a memory asked for."""
    counts: dict[tuple[int, str], int] = {}
    for call in line["calls"]:
        letter = "t" if call["phase"] == "play" else "r"
        place = (call["episode"], letter)
        counts[place] = counts.get(place, 0) + 1
        yield f"{letter}{counts[place]}", call


class _Lines:
    """The different lines of a meta-episode's texts, in the order in which they came up."""

    def __init__(self) -> None:
        self.places: dict[str, int] = {}

    def of(self, text: str) -> list[int]:
        """The places of a text's lines."""
        places = self.places
        return [places.setdefault(line, len(places)) for line in text.split("\n")]


def packed(line: Line) -> bytes:
    """The meta-episode as JSON in ASCII.

    `lines` holds every line of the prompts and observations. A prompt is [role, first, last, between]: so many lines
    from the beginning and from the end of the prompt before, and between them the places of others.
    """
    lines = _Lines()
    calls = []
    before: list[int] = []
    for (name, call), seconds in zip(numbered(line), line["seconds"], strict=True):
        messages = []
        for message in call["messages"]:
            now = lines.of(message["content"])
            first, last = _shared(before, now)
            messages.append([message["role"], first, last, now[first : len(now) - last]])
            before = now
        reply = parts(call["reply"])
        told: dict[str, Any] = {
            "n": name,
            "kind": call["kind"],
            "e": call["episode"],
            "prompt": messages,
            "seen": lines.of(call["observation"]) if call["phase"] == "play" else [],
            "thinking": reply.thinking,
            "answer": reply.answer,
            "rest": reply.rest,
            "action": call["action"],
            "wrong": call["invalid_reason"],
            "cut": call["truncated"],
            "reward": call["reward"],
            "penalty": call["penalty"],
            "advantage": call.get("advantage"),
            "seat": call["seat"],
            "hand": call["hand"],
            "ends": call["hand_end"],
            "goes_on": not call["fresh"],
            "shortened": call["shortened"],
            "tokens": call["tokens"],
            "seconds": round(seconds, 3),
            "events": call["memory_events"],
        }
        calls.append({key: value for key, value in told.items() if value or key in ("n", "e")})
    found = {
        "i": line["index"],
        "outcomes": outcomes(line),
        "episodes": [
            {name: one[name] for name in ("reward", "value", "metrics")} | {"ended": one.get("ended_with", [])}
            for one in line["episodes"]
        ],
        "calls": calls,
        "failure": line["failure"],
        "task": line["task"],
        "played": line["played"],
        "lines": list(lines.places),
    }
    if "rollout" in line:  # of a training
        found |= {name: line[name] for name in ("rollout", "group", "member")}
    return json.dumps(found, separators=(",", ":")).encode()


def outcomes(line: Line) -> str:
    """A letter per episode: W a success, T out of turns, D neither won nor lost against somebody, L all else."""
    return "".join(map(_letter, map(read_episode, line["episodes"])))


def _letter(episode: EpisodeResult) -> str:
    if episode.success:
        return "W"
    if episode.timeout:
        return "T"
    return "D" if episode.is_draw else "L"


def _shared(before: Sequence[int], now: Sequence[int]) -> tuple[int, int]:
    """How many lines two texts share at their beginnings, and after these at their ends."""
    most = min(len(before), len(now))
    first = 0
    while first < most and before[first] == now[first]:
        first += 1
    last = 0
    while last < most - first and before[-1 - last] == now[-1 - last]:
        last += 1
    return first, last
