"""Conversion of a meta-episode to one line of JSON and back, for records of evaluations and for transcripts.

docs/results-schema.md describes the fields. No torch here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from mage_envs.core import Task
from mage_envs.text.generation import Message
from mage_envs.wrappers.rollout.trajectory import EpisodeResult, FailedReply, Step, Trajectory

Line = dict[str, Any]


def trajectory_to_json(trajectory: Trajectory) -> Line:
    """Return the line of a meta-episode. Its numbers may be NaN or infinite; `plain` converts them."""
    # Keys that most lines do not have are written only if there is a value.
    at_times: dict[str, Any] = {}
    if trajectory.opponent_calls:
        at_times["opponent_calls"] = plain(trajectory.opponent_calls)
    if trajectory.failed_reply is not None:
        reply = trajectory.failed_reply._asdict()
        at_times["failed_reply"] = {name: value for name, value in reply.items() if value is not None}
    return at_times | {
        "task": trajectory.task.to_json(),
        "category": trajectory.category,
        "played": trajectory.task_id,
        "opponent": trajectory.opponent,
        "seat0": trajectory.task.seat,
        "retries": trajectory.retries,
        "failure": trajectory.failure,
        "num_episodes": trajectory.num_episodes,
        "episodes": [episode._asdict() | {"metrics": plain(episode.metrics)} for episode in trajectory.episodes],
        "calls": [_call(step) for step in trajectory.steps],
    }


def _call(step: Step) -> dict[str, Any]:
    # Absent unless a server sent it, so that other lines keep their form and their digest.
    at_times = {} if step.reasoning is None else {"reasoning": step.reasoning}
    return at_times | {
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


def trajectory_from_json(line: Mapping[str, Any]) -> Trajectory:
    """Return the meta-episode of a line. Token ids and log-probabilities are not stored, so they are empty."""
    return Trajectory(
        task=Task(**line["task"]),
        opponent=line["opponent"],
        # Records of evaluations store neither group nor member.
        group=0,
        member=0,
        steps=tuple(_step(call) for call in line["calls"]),
        episodes=tuple(read_episode(episode) for episode in line["episodes"]),
        num_episodes=line["num_episodes"],
        failure=line["failure"],
        retries=line["retries"],
        category=line["category"],
        task_id=line["played"],
        seconds=tuple(map(float, line["seconds"])),
        opponent_calls=tuple(line.get("opponent_calls", ())),
        failed_reply=FailedReply(**line["failed_reply"]) if "failed_reply" in line else None,
    )


def read_episode(stored: Mapping[str, Any]) -> EpisodeResult:
    """Return the result of an episode."""
    # `float` also reads the names of NaN and infinities that `plain` wrote.
    return EpisodeResult(
        reward=float(stored["reward"]),
        value=float(stored["value"]),
        hands=stored["hands"],
        success=stored["success"],
        timeout=stored["timeout"],
        seats=tuple(stored["seats"]),
        metrics={name: float(value) for name, value in stored["metrics"].items()},
        outcome=stored["outcome"],
        ended_with=tuple(stored["ended_with"]),
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
        reward=float(call["reward"]),
        penalty=float(call["penalty"]),
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
        reasoning=call.get("reasoning"),
    )


def plain(value: Any) -> Any:
    """Return a value as JSON values: collections as lists, NaN and infinities as `NaN`, `Infinity` and `-Infinity`.

    A value that is neither a string, a number nor a collection is replaced by its `repr`.
    """
    # bool before int, because True is an int.
    if isinstance(value, str) or value is None or isinstance(value, bool):
        return value
    # Conversions to the exact types, because np.float64 is a subclass of float and an IntEnum is one of int.
    if isinstance(value, float):
        if math.isfinite(value):
            return float(value)
        return "NaN" if math.isnan(value) else f"{'-' * (value < 0)}Infinity"
    if isinstance(value, int):
        return int(value)
    if isinstance(value, Mapping):
        return {str(key): plain(element) for key, element in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(element) for element in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    return repr(value)
