"""Parser of a model server's replies: chat completions, errors and `Retry-After` headers.

All replies are untrusted. Every function here returns a value of its type or raises `CallFailed`.
"""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Mapping, Sequence
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any

from mage_envs.opponents.llm.cache import MOST_TOKENS, ServerAnswer
from mage_envs.opponents.llm.failures import GARBAGE, CallFailed
from mage_envs.secrets import scrub
from mage_envs.text.parser import EMPTY, REFUSAL, TOOL_CALLS

_LOG = logging.getLogger(__name__)
_reported: set[str] = set()
"""Unknown reasons that were reported in this process."""
SHOWN = 300
"""Maximum number of characters of a server's message in our own messages."""
TEXT_PARTS = ("text", "output_text")
"""Types of content parts with the model's text. Other types, such as `thinking`, are ignored."""
REASONING = ("reasoning_content", "reasoning")
"""Fields of a message with the model's reasoning: of vLLM, SGLang and DeepSeek, and of OpenRouter and Ollama."""
WHOLE = frozenset(
    ("stop", "eos", "eos_token", "end_turn", "stop_sequence", "completed", "tool_calls", "tool_use", "function_call")
)
"""Reasons for which a server ends a whole answer, in lower case."""
CUT = frozenset(("length", "model_length", "max_tokens", "max_output_tokens", "incomplete"))
"""Reasons for which a server cuts an answer at a limit."""
FILTERED = "content_filter"
FAILED = frozenset(("error", "abort", "cancelled"))
"""Reasons for which an answer is none."""
MOST_REPORTED = 8
"""Maximum number of unknown reasons that are reported."""
UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError)
"""Errors from reading a body that is not JSON, is nested too deeply, or has other types than expected."""


def printable_line(text: str) -> str:
    """Return a server's text as one short printable line without secrets."""
    # Remove secrets first: after the cut, a part of a secret could remain at the end.
    line = " ".join(scrub(text).split())
    printable = "".join(sign if sign.isprintable() else "\ufffd" for sign in line[:SHOWN])
    return printable if len(line) <= SHOWN else printable + "…"


def read_answer(content: bytes, sent: int) -> ServerAnswer:
    """Return the answer in the body of a chat completion.

    Reasoning in a field of its own (`reasoning_content` or `reasoning`) is kept apart from the text. The parser handles
    reasoning inside the text. If the server does not count tokens, or its counts are impossible, the number of bytes is
    used instead: a text never has more tokens than bytes.

    Args:
        content: Body of the server's answer.

    Raises:
        CallFailed: If the body is not a chat completion.
    """
    try:
        data = json.loads(content)
        choice = _first_choice(data["choices"])
        message, reason = choice["message"], _reason(choice.get("finish_reason"))
        text = _text(message.get("content"))
        missing = None if text.strip() or reason in CUT else _why_empty(message, reason)
        reasoning = next((words for name in REASONING if (words := _words(message.get(name)))), None)
        model = _model_id(data.get("model"))
    except UNREADABLE:
        start = printable_line(content.decode("utf-8", "replace"))
        raise CallFailed(GARBAGE, f"no chat completion in the server's answer: {start!r}", passing=True) from None
    if reason in FAILED:
        raise CallFailed(GARBAGE, f"the server ended its answer with the reason {reason!r}", passing=True)
    usage = data.get("usage")
    counts: Mapping[str, Any] = usage if isinstance(usage, Mapping) else {}
    return ServerAnswer(
        text=scrub(text),
        truncated=reason in CUT,
        prompt_tokens=_count(counts.get("prompt_tokens"), sent),
        completion_tokens=_count(counts.get("completion_tokens"), len(content)),
        no_text=missing,
        reasoning=scrub(reasoning),
        model=model,
    )


def _reason(value: object) -> str | None:
    """Return the reason why a server ended its answer in lower case, and report an unknown one once."""
    if not isinstance(value, str):
        return None
    reason = value.lower()
    unknown = reason not in WHOLE | CUT | FAILED | {FILTERED}
    # A server may send any text, and any number of them.
    if unknown and reason not in _reported and len(_reported) < MOST_REPORTED:
        _reported.add(reason)
        _LOG.warning(
            "A server ended its answer with finish_reason %s, which is unknown; it counts as whole.",
            repr(printable_line(value)),
        )
    return reason


def read_models(content: bytes, model: str) -> str | None:
    """Return the id behind a model's name in the body of `GET /models`, or None if the body does not show it.

    vLLM and SGLang state the loaded weights as `root`. A server with a single model answers under any name.
    """
    try:
        listed = {entry["id"]: entry for entry in json.loads(content)["data"]}
        entry = listed[model] if model in listed or len(listed) != 1 else next(iter(listed.values()))
        return _model_id(entry.get("root")) or _model_id(entry["id"])
    except UNREADABLE:
        return None


def _model_id(value: object) -> str | None:
    """Return the id of a model as one line, or None for anything but a text."""
    words = _words(value)
    if words is None:
        return None
    # A path differs between the machines that serve a model, but its last part does not.
    return printable_line(words.rstrip("/").rpartition("/")[2] if words.startswith("/") else words)


def _words(value: object) -> str | None:
    """Return a text that has words and can be encoded, or None for anything else."""
    if not isinstance(value, str) or not value.strip():
        return None
    return value.encode("utf-8", "replace").decode("utf-8")


def _first_choice(choices: Sequence[Any]) -> Mapping[str, Any]:
    """Return the choice with the lowest `index`; servers may send several, in any order."""
    indices = [choice.get("index") for choice in choices]
    # If a choice has no valid index, its position in the list counts.
    order = [index if type(index) is int else position for position, index in enumerate(indices)]
    first_choice: Mapping[str, Any] = choices[order.index(min(order))]
    return first_choice


def _text(content: object) -> str:
    """Return the text of a message's content, which is a string or a list of parts."""
    if content is None:
        return ""
    if isinstance(content, list):
        content = "".join(part if isinstance(part, str) else _part(part) for part in content)
    if not isinstance(content, str):
        raise TypeError("a message's content is no text")
    # JSON may contain half of a surrogate pair, which would fail later, when the text is written or sent.
    return content.encode("utf-8", "replace").decode("utf-8")


def _part(part: Any) -> str:
    if part.get("type", "text") not in TEXT_PARTS:
        return ""
    if not isinstance(part["text"], str):
        raise TypeError("a part's text is no text")
    return part["text"]


def _why_empty(message: Mapping[str, Any], reason: object) -> str:
    """Return the reason for an answer without text, one of `NO_TEXT`."""
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    refused = any(part.get("type") == "refusal" for part in parts if isinstance(part, Mapping))
    if refused or message.get("refusal") or reason == FILTERED:
        return REFUSAL
    return TOOL_CALLS if message.get("tool_calls") or message.get("function_call") else EMPTY


def _count(value: object, otherwise: int) -> int:
    """Return a server's count of tokens, or `otherwise` if it is not a plausible number."""
    # `type` instead of `isinstance`, because True is an int.
    return value if type(value) is int and 0 <= value <= MOST_TOKENS else min(otherwise, MOST_TOKENS)


def read_error(content: bytes) -> tuple[str, str]:
    """Return message and code of an error's body: `{"error": {"message": ..., "code": ...}}`, `{"detail": ...}`.

    If the body has no message, the message is the whole body. The code is empty if there is none.
    """
    try:
        body = json.loads(content)
    except UNREADABLE:
        body = None
    error = body.get("error") if isinstance(body, Mapping) else None
    code = error.get("code") if isinstance(error, Mapping) else None
    # Servers nest the message at different depths.
    while isinstance(body, Mapping):
        body = next((body[name] for name in ("message", "error", "detail") if body.get(name)), None)
    message = printable_line(body if isinstance(body, str) else content.decode("utf-8", "replace"))
    return message or "no message", code if isinstance(code, str) else ""


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of a `Retry-After` header (a number or a date), or None if it is missing or invalid."""
    text = headers.get("retry-after")
    if text is None:
        return None
    try:
        wait = float(text)
    except ValueError:
        try:
            at = parsedate_to_datetime(text)
            wait = (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() - time.time()
        # A year or a time zone may have any number of digits, which fails in several ways.
        except (ValueError, OverflowError, LookupError, TypeError):
            return None
    return None if math.isnan(wait) else max(0.0, wait)
