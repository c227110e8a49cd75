"""The entries of `info` by audience: `PUBLIC_KEYS` for the player, and `info["private"]` for everyone else."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any

PRIVATE = "private"
"""Key of `info` whose dict holds everything that the player must not see: the opponent's name, the task, metrics."""
PUBLIC_KEYS = (
    "messages",
    "fresh_chat",
    "phase",
    "kind",
    "answer_tag",
    "thought",
    "shortened",
    "episode_index",
    "num_episodes",
    "max_steps",
    "hand",
    "seat",
    "legal_actions",
    "action_words",
    "information_state",
    "history",
    "anchor",
    "invalid_reason",
    "action",
    "penalty",
    "hand_reward",
    "hand_end",
    "hand_results",
    "episode_end",
    "ended_episode",
    "episode_return",
    "episode_value",
    "episode_values",
    "success",
    "timeout",
    "outcome",
    "ended_with",
    "seats",
    "memory_events",
)
"""Keys of `info` that the player may see. Every environment of this suite uses only these and `private`."""

_SAME = ("metrics", "task", "category")
"""Private entries of an environment that a meta-episode around it always has."""


def private_info(info: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the entries of `info` that the player must not see. A third-party environment may have none."""
    # A new dict: a wrapper keeps the result, and it must be possible to copy the wrapper.
    entries: Mapping[str, Any] = info.get(PRIVATE, {})
    return entries


def public_info(info: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of `info` that the player may see."""
    return {key: info[key] for key in PUBLIC_KEYS if key in info}


def legal_actions(info: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the learner's legal actions, including those that the player does not see.

    If the prompt style has other words for them, they are the actions with words.
    """
    return tuple(info.get("action_words", ())) or tuple(
        private_info(info).get("legal_actions") or info.get("legal_actions", ())
    )


def pass_on(private: dict[str, Any], hidden: Mapping[str, Any], *, playing: bool, running: bool) -> None:
    """Add the private entries of an environment to those of the meta-episode around it.

    Args:
        private: Entries of the meta-episode, which are changed.
        hidden: Entries of the environment, empty in most steps of most games.
        playing: True if the next answer is an action.
        running: True if the meta-episode goes on.
    """
    for key in hidden:
        if key in _SAME or (playing and key == "legal_actions") or (not running and key == "opponent_calls"):
            # A copy, because the caller may change `info` and the environment may reuse its own dict.
            private[key] = copy(hidden[key])
