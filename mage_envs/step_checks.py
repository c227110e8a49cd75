"""Checks of the values that `reset` and `step` of a Gymnasium environment return.

The rollout loop checks the values of every environment, and `MetaEpisode` those of the environment that it wraps. If a
value passes, it can be tokenised, added up, recorded and sent between processes. If not, the error names it, so that
one bad value costs one meta-episode and not the run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import Any, NamedTuple, NoReturn, SupportsFloat

import numpy as np

MAX_CHARACTERS = 10_000_000
"""Limit of characters of a text, or of a list of texts together.

It is longer than any model's context. A tokenizer needs seconds for it.
"""
MAX_ENTRIES = 100_000
"""Limit of entries of a list in `info`."""
MAX_INTEGER = 2**53
"""Bound of whole numbers: every JSON reader keeps smaller ones."""
StepResult = tuple[str, float, bool, bool, dict[str, Any]]


class BadResult(RuntimeError):
    """An environment returned a value that `reset` or `step` may not return, or one that is too large."""


def check_reset(result: Any, *, chat: bool = True) -> tuple[str, dict[str, Any]]:
    """Return the observation and the info that `reset` returned. Raises BadResult.

    Args:
        result: Result of `reset`.
        chat: True if the caller reads the entries of the chat (`messages`, `phase`), which are then checked too.
    """
    if not isinstance(result, tuple) or len(result) != 2:
        raise BadResult(f"reset() must return (observation, info), got {_kind(result)}.")
    observation, info = result
    _check_text("the observation", observation)
    return observation, _check_info(info, chat)


def check_step(result: Any, *, chat: bool = True) -> StepResult:
    """Return what `step` returned, the reward as a float and the flags as bools. Raises BadResult.

    Numbers and flags may be NumPy's. The reward of a chat may be NaN or infinite, because the trainer masks that. The
    reward of a wrapped environment (`chat=False`) must be finite, because it becomes a part of sums and scores.

    Args:
        result: Result of `step`.
        chat: True if the caller reads the entries of the chat (`messages`, `phase`), which are then checked too.
    """
    if not isinstance(result, tuple) or len(result) != 5:
        raise BadResult(f"step() must return (observation, reward, terminated, truncated, info), got {_kind(result)}.")
    observation, reward, terminated, truncated, info = result
    _check_text("the observation", observation)
    if type(terminated) is not bool or type(truncated) is not bool:
        _check_flag("terminated", terminated)
        _check_flag("truncated", truncated)
    if type(reward) is not float:
        reward = _read_reward(reward)
    if not chat and not isfinite(reward):
        raise BadResult(f"the reward must be finite, got {reward}.")
    return observation, reward, bool(terminated), bool(truncated), _check_info(info, chat)


def _check_info(info: Any, chat: bool) -> dict[str, Any]:
    """Check the keys that the suite reads; an environment may add any others."""
    if not isinstance(info, dict):
        raise BadResult(f"info must be a dict, got {_kind(info)}.")
    _check_fields(info, _SOUND if chat else _SOUND_TURN)
    if private := info.get("private"):
        if not isinstance(private, dict):
            _refuse("private", "a dict", private)
        _check_fields(private, _SOUND_PRIVATE)
    # Without a fresh chat, these messages were checked in an earlier step.
    if chat and info.get("fresh_chat", True) and "messages" in info:
        _check_messages(info["messages"])
    return info


def _check_fields(info: Mapping[str, Any], sound_types: Mapping[str, frozenset[type]]) -> None:
    """Check the values of the known keys."""
    for name, value in info.items():
        sound = sound_types.get(name)
        # This runs for every key of every step, so None and the usual types skip the full check.
        if sound is None or (value is None and _NONE in sound):
            continue
        kind = type(value)
        if kind in sound:
            if kind is str:
                if value.isascii() and len(value) <= MAX_CHARACTERS:
                    continue
            elif kind is not int or -MAX_INTEGER < value < MAX_INTEGER:
                continue
        _FIELDS[name].check(name, value)


# -- values --------------------------------------------------------------------------------------------------

Check = Callable[[str, Any], None]
"""Function of (name, value) that raises BadResult with the name unless the value is valid."""
_LISTS = (list, tuple)
_INTEGERS = (int, np.integer)
_FLOATS = (float, np.floating)
_FLAGS = (int, np.bool_, np.number)


def _kind(value: Any) -> str:
    """Describe a value without its text, which may be huge, and without code of its class."""
    sized = f" of {len(value)}" if type(value) in _LISTS else ""
    return f"{type(value).__name__}{sized}"


def _refuse(name: str, expectation: str, value: Any) -> NoReturn:
    raise BadResult(f"{name} must be {expectation}, got {_kind(value)}.")


def _check_text(name: str, value: Any) -> None:
    if not isinstance(value, str):
        _refuse(name, "a str", value)
    if len(value) > MAX_CHARACTERS:
        raise BadResult(f"{name} has {len(value):,} characters; at most {MAX_CHARACTERS:,} are possible.")
    # `isascii` reads a flag of the string. Only other texts must be encoded to find half of a surrogate pair.
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise BadResult(
                f"{name} holds half of a surrogate pair at character {error.start}; no tokenizer can read that."
            ) from None


def _check_list(name: str, value: Any) -> None:
    """Check the type and the length of a list of anything."""
    if type(value) not in _LISTS and (isinstance(value, str | bytes) or not isinstance(value, Sequence)):
        _refuse(name, "a list or a tuple", value)
    if len(value) > MAX_ENTRIES:
        raise BadResult(f"{name} has {len(value):,} entries; at most {MAX_ENTRIES:,} are possible.")


def _check_texts(name: str, value: Any) -> None:
    _check_list(name, value)
    # One check of the joined text is much faster than one per entry.
    try:
        joined = "".join(value)
    except TypeError:
        wrong = next(text for text in value if not isinstance(text, str))
        _refuse(f"each entry of {name}", "a str", wrong)
    _check_text(name, joined)


def _check_messages(value: Any) -> None:
    """Check a chat. The model's own messages in it may be any text."""
    _check_list("messages", value)
    for message in value:
        # This runs for every message of every prompt, so a usual one skips the full check.
        if type(message) is dict and len(message) == 2 and message.get("role") == "user":
            content = message.get("content")
            if type(content) is str and content.isascii() and len(content) <= MAX_CHARACTERS:
                continue
        if not isinstance(message, dict) or message.keys() != _MESSAGE:
            _refuse("each entry of messages", "a dict with role and content", message)
        if message["role"] != "assistant" or not isinstance(message["content"], str):
            _check_text("each role in messages", message["role"])
            _check_text("each content in messages", message["content"])


def _check_dicts(name: str, value: Any) -> None:
    _check_list(name, value)
    for entry in value:
        if not isinstance(entry, Mapping):
            _refuse(f"each entry of {name}", "a dict", entry)


def _check_integer(name: str, value: Any) -> None:
    if not isinstance(value, _INTEGERS):
        _refuse(name, "an int", value)
    if not -MAX_INTEGER < value < MAX_INTEGER:
        raise BadResult(f"{name} must be between -2**53 and 2**53.")


def _check_integers(name: str, value: Any) -> None:
    _check_list(name, value)
    for number in value:
        _check_integer(f"each entry of {name}", number)


def _check_number(name: str, value: Any) -> None:
    if not isinstance(value, _FLOATS):
        _check_integer(name, value)


def _check_numbers(name: str, value: Any) -> None:
    if not isinstance(value, Mapping) or len(value) > MAX_ENTRIES:
        _refuse(name, "a dict of names and numbers", value)
    for key, number in value.items():
        _check_text(f"each name in {name}", key)
        _check_number(f"each value in {name}", number)


def _check_flag(name: str, value: Any) -> None:
    if not isinstance(value, _FLAGS) or value not in (0, 1):
        _refuse(name, "a bool", value)


def _read_reward(value: Any) -> float:
    try:
        if isinstance(value, SupportsFloat):
            return float(value)
    # An array of several numbers, or an int beyond any float.
    except (TypeError, ValueError, OverflowError):
        pass
    _refuse("the reward", "a number", value)


_MESSAGE = {"role", "content"}


class _Field(NamedTuple):
    """The check of one key's value."""

    sound: frozenset[type]
    """Exact types that need no further check, for speed."""
    check: Check


def _fields(names: str, check: Check, *sound: type) -> dict[str, _Field]:
    """Return the same check for each of these names. If a value may be None, its sound types include that."""
    return dict.fromkeys(names.split(), _Field(frozenset(sound), check))


_NONE = type(None)
_FIELDS: Mapping[str, _Field] = {
    **_fields("anchor information_state kind phase", _check_text, str),
    **_fields("action answer_tag category invalid_reason opponent task", _check_text, str, _NONE),
    **_fields("history legal_actions", _check_texts),
    **_fields("hand_results memory_events opponent_calls", _check_dicts),
    **_fields("episode_index hand num_episodes seat", _check_integer, int),
    **_fields("seats", _check_integers),
    **_fields("episode_value hand_reward penalty", _check_number, float),
    **_fields("episode_return", _check_number, float, _NONE),
    **_fields("episode_metrics metrics", _check_numbers),
    **_fields("episode_end fresh_chat hand_end shortened", _check_flag, bool),
    **_fields("success timeout", _check_flag, bool, _NONE),
}
"""Keys of `info` and of its dict `private` that the suite reads. `messages` has a check of its own."""
_PRIVATE = {"category", "episode_metrics", "legal_actions", "metrics", "opponent", "opponent_calls", "task"}
_CHAT = {"answer_tag", "fresh_chat", "kind", "num_episodes", "phase"}
_SOUND = {name: field.sound for name, field in _FIELDS.items() if name not in _PRIVATE or name == "legal_actions"}
_SOUND_TURN = {name: sound for name, sound in _SOUND.items() if name not in _CHAT}
_SOUND_PRIVATE = {name: _FIELDS[name].sound for name in _PRIVATE}
