"""The opponent `llm:model@url`: its name read, its endpoint made once per process."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

from mage_envs.core import Game
from mage_envs.text.prompts import Prose
from opponents.language_model import LanguageModelPolicy, settings_for
from opponents.llm.budget import Budget
from opponents.llm.cache import AnswerCache, cache_path
from opponents.llm.endpoint import EndpointGenerator

FORM = "llm:model@url"
EXAMPLE = "llm:qwen3:4b@http://localhost:11434/v1,max_tokens=512"


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError
    return value


def _switch(text: str) -> bool:
    return {"on": True, "off": False}[text]


NUMBER = (_number, "a number")
WHOLE = (int, "a whole number")
SWITCH = (_switch, "on or off")
TEXT = (str, "a text")

OPTIONS: Mapping[str, tuple[Callable[[str], Any], str]] = {
    "temperature": NUMBER,
    "top_p": NUMBER,
    "top_k": WHOLE,
    "max_tokens": WHOLE,
    "max_completion_tokens": WHOLE,
    "reasoning_effort": TEXT,
    "thinking": SWITCH,
    "seed": SWITCH,
    "deadline": NUMBER,
    "attempts": WHOLE,
    "concurrency": WHOLE,
    "max_calls": WHOLE,
    "max_total_tokens": WHOLE,
    "cache": SWITCH,
    "namespace": TEXT,
    "key_variable": TEXT,
}
"""Name of an option to its reader and what to call that in messages."""
_SENT = ("top_p", "top_k", "max_completion_tokens", "reasoning_effort")
"""Options that go to the server as they are."""
_OWN = ("temperature", "max_tokens", "deadline", "attempts", "concurrency", "namespace", "key_variable")
"""Options of EndpointGenerator of the same name."""
_PER_GAME = ("max_tokens", "deadline")
"""Options that an evaluation sets by the game unless they are given."""
_LOCK = Lock()


def read_spec(endpoint: str, options: tuple[str, ...]) -> tuple[str, str, dict[str, Any]]:
    """Model, url and options of `llm:<endpoint>,<options>`; raises ValueError with the remedy."""
    at = max(endpoint.rfind("@http://"), endpoint.rfind("@https://"))
    if at < 1:
        raise ValueError(f"Model 'llm:{endpoint}' lacks a model or a server's url; write {FORM}, as in {EXAMPLE}.")
    model, url = endpoint[:at], endpoint[at + 1 :]
    values: dict[str, Any] = {}
    for option in options:
        name, equals, text = option.partition("=")
        if name not in OPTIONS or not equals:
            near = get_close_matches(name, OPTIONS, n=1)
            hint = f"Did you mean {near[0]}? " if near else ""
            raise ValueError(f"Model 'llm:{model}' has no option {option!r}. {hint}It takes {', '.join(OPTIONS)}.")
        if name in values:
            raise ValueError(f"Model 'llm:{model}' is given {name} twice.")
        reader, kind = OPTIONS[name]
        try:
            values[name] = reader(text)
        except (ValueError, KeyError):
            raise ValueError(f"Model 'llm:{model}': {name} must be {kind}, got {text!r}.") from None
    if "max_tokens" in values and "max_completion_tokens" in values:
        raise ValueError(f"Model 'llm:{model}': max_tokens and max_completion_tokens say the same; give one.")
    return model, url, values


class SharedEndpoint(EndpointGenerator):
    """The endpoint of a name; a pickle of it is that name."""

    named: tuple[str, ...]

    def __reduce__(self) -> tuple[Any, ...]:
        return shared_endpoint, self.named


def shared_endpoint(endpoint: str, *options: str) -> SharedEndpoint:
    """The endpoint of `llm:<endpoint>,<options>`, the same (and the same budget) throughout this process."""
    with _LOCK:
        return _shared(endpoint, options, cache_path())


@cache
def _shared(endpoint: str, options: tuple[str, ...], kept_in: Path) -> SharedEndpoint:
    model, url, values = read_spec(endpoint, options)
    own = {name: values[name] for name in _OWN if name in values}
    parameters = {name: values[name] for name in _SENT if name in values}
    if "max_completion_tokens" in values:
        own["max_tokens"] = None
    if "thinking" in values:
        parameters["chat_template_kwargs"] = {"enable_thinking": values["thinking"]}
    made = SharedEndpoint(
        model,
        url,
        parameters=parameters,
        send_seed=values.get("seed", True),
        budget=_budget(endpoint, tuple(one for one in options if one.partition("=")[0] not in _PER_GAME)),
        cache=AnswerCache(kept_in) if values.get("cache", True) else None,
        **own,
    )
    made.named = (endpoint, *options)
    return made


@cache
def _budget(endpoint: str, options: tuple[str, ...]) -> Budget:
    """Return the budget of a name, the same for its requests in every game, whose limits differ."""
    _, _, values = read_spec(endpoint, options)
    return Budget(values.get("max_calls"), values.get("max_total_tokens"))


def language_model(game: Game, endpoint: str, *options: str) -> LanguageModelPolicy:
    """The opponent `llm:model@url[,option=value]...`, asked in prose."""
    model = shared_endpoint(endpoint, *options)
    return LanguageModelPolicy(model, game.facts, Prose(), settings=settings_for(game.facts), name=endpoint)
