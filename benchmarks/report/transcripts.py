"""Compact form of a meta-episode for the page: each line of text once, each prompt as a change of the one before."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from mage_envs.benchmarks.scale.decisions import Decision
from mage_envs.text.thoughts import after_thoughts
from mage_envs.wrappers.rollout.trajectory import EpisodeResult
from mage_envs.wrappers.rollout.trajectory_json import Line, read_episode

MAX_LIKELY = 5
"""Maximum number of opponents that the posterior of a decision names."""


class ReplyParts(NamedTuple):
    """Parts of a reply in their order. The parser reads only the answer."""

    thinking: str
    answer: str
    trailing: str
    """Reasoning after the answer that was never closed."""


def split_reply(reply: str) -> ReplyParts:
    """Split a reply into the reasoning before the answer, the answer, and the reasoning after it."""
    answer = after_thoughts(reply)
    start = len(reply) - len(answer) if reply.endswith(answer) else reply.rfind(answer)
    return ReplyParts(reply[:start], answer, reply[start + len(answer) :])


def number_calls(line: Line) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each call with its name in its episode: t1, t2 for turns of play, r1, r2 for requests of a memory."""
    counts: dict[tuple[int, str], int] = {}
    for call in line["calls"]:
        letter = "t" if call["phase"] == "play" else "r"
        key = (call["episode"], letter)
        counts[key] = counts.get(key, 0) + 1
        yield f"{letter}{counts[key]}", call


class _Lines:
    """Distinct lines of a meta-episode's texts, in order of first appearance."""

    def __init__(self) -> None:
        self.places: dict[str, int] = {}

    def of(self, text: str) -> list[int]:
        """Return the indices of a text's lines."""
        places = self.places
        return [places.setdefault(line, len(places)) for line in text.split("\n")]


def pack_transcript(line: Line, decisions: Sequence[Decision] = ()) -> bytes:
    """Return the meta-episode as JSON in ASCII, with the exact values of its decisions if they are known.

    The key `lines` contains every line of the prompts and observations. A message is [role, first, last, between]: the
    number of lines to copy from the beginning and from the end of the message before, and the indices of the lines
    between them.
    """
    lines = _Lines()
    calls = []
    exact = iter(decisions)
    previous: list[int] = []
    for (name, call), seconds in zip(number_calls(line), line["seconds"], strict=True):
        messages = []
        for message in call["messages"]:
            current = lines.of(message["content"])
            at_start, at_end = _common_ends(previous, current)
            messages.append([message["role"], at_start, at_end, current[at_start : len(current) - at_end]])
            previous = current
        reply = split_reply(call["reply"])
        fields: dict[str, Any] = {
            "n": name,
            "kind": call["kind"],
            "e": call["episode"],
            "prompt": messages,
            "seen": lines.of(call["observation"]) if call["phase"] == "play" else [],
            "thinking": "\n".join(filter(None, (call.get("reasoning"), reply.thinking))),
            "answer": reply.answer,
            "rest": reply.trailing,
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
            "exact": _exact(next(exact, None)) if call["phase"] == "play" and call["action"] is not None else None,
        }
        # Empty values are omitted to save space; the page treats a missing key as empty.
        calls.append({key: value for key, value in fields.items() if value or key in ("n", "e")})
    page = {
        "i": line["index"],
        "outcomes": outcomes(line),
        "episodes": [
            {name: episode[name] for name in ("reward", "value", "metrics")} | {"ended": episode["ended_with"]}
            for episode in line["episodes"]
        ],
        "calls": calls,
        "failure": line["failure"],
        "task": line["task"],
        "played": line["played"],
        "lines": list(lines.places),
    }
    # Only transcripts of a training have these fields.
    if "rollout" in line:
        page |= {name: line[name] for name in ("rollout", "group", "member")}
    return json.dumps(page, separators=(",", ":")).encode()


def _exact(decision: Decision | None) -> str:
    """Return the posterior, the best action and the cost of the played one as a text; empty if they are not known."""
    if decision is None:
        return ""
    likely = sorted(decision.posterior.items(), key=lambda pair: -pair[1])
    # More names would hide the ones that matter.
    posterior = ", ".join(f"{name} {chance:.0%}" for name, chance in likely[:MAX_LIKELY] if chance >= 0.005)
    return f"posterior {posterior}; best {decision.best}; cost {abs(round(decision.cost, 3)):.3f}"


def outcomes(line: Line) -> str:
    """Return one letter per episode: W for success, T for out of turns, D for a draw, L for all others."""
    return "".join(map(_letter, map(read_episode, line["episodes"])))


def _letter(episode: EpisodeResult) -> str:
    if episode.success:
        return "W"
    if episode.timeout:
        return "T"
    return "D" if episode.is_draw else "L"


def _common_ends(previous: Sequence[int], current: Sequence[int]) -> tuple[int, int]:
    """Return the number of equal lines at the beginnings and at the ends of two texts, without overlap."""
    max_lines = min(len(previous), len(current))
    at_start = 0
    while at_start < max_lines and previous[at_start] == current[at_start]:
        at_start += 1
    at_end = 0
    while at_end < max_lines - at_start and previous[-1 - at_end] == current[-1 - at_end]:
        at_end += 1
    return at_start, at_end
