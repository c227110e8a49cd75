"""The opponent `llm:model@url`: parser of its specification, and its endpoint, which is made once per process."""

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
from opponents.llm.budget import Budget
from opponents.llm.cache import AnswerCache, cache_path
from opponents.llm.endpoint import EndpointGenerator
from opponents.llm.opponent import LanguageModelPolicy, settings_for

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
"""Map from the name of an option to its reader and the description of its type in messages."""
_SENT = ("top_p", "top_k", "max_completion_tokens", "reasoning_effort")
"""Options that are sent to the server unchanged."""
_OWN = ("temperature", "max_tokens", "deadline", "attempts", "concurrency", "namespace", "key_variable")
"""Options that are arguments of EndpointGenerator."""
_PER_GAME = ("max_tokens", "deadline")
"""Options that an evaluation sets for each game, unless the specification contains them."""
_LOCK = Lock()


def read_spec(endpoint: str, options: tuple[str, ...]) -> tuple[str, str, dict[str, Any]]:
    """Return model, URL and options of `llm:<endpoint>,<options>`; raise ValueError if it is invalid."""
    # The last match, because a model's name may contain an @.
    at = max(endpoint.rfind("@http://"), endpoint.rfind("@https://"))
    if at < 1:
        raise ValueError(f"Model 'llm:{endpoint}' must have the form {FORM}, as in {EXAMPLE}.")
    model, url = endpoint[:at], endpoint[at + 1 :]
    values: dict[str, Any] = {}
    for option in options:
        name, equals, text = option.partition("=")
        if name not in OPTIONS or not equals:
            near = get_close_matches(name, OPTIONS, n=1)
            hint = f"Did you mean {near[0]}? " if near else ""
            raise ValueError(f"Model 'llm:{model}' has no option {option!r}. {hint}Options: {', '.join(OPTIONS)}.")
        if name in values:
            raise ValueError(f"Model 'llm:{model}' has the option {name} twice. Remove one.")
        reader, kind = OPTIONS[name]
        try:
            values[name] = reader(text)
        except (ValueError, KeyError):
            raise ValueError(f"Model 'llm:{model}': {name} must be {kind}, got {text!r}.") from None
    if "max_tokens" in values and "max_completion_tokens" in values:
        raise ValueError(f"Model 'llm:{model}': max_tokens and max_completion_tokens are the same limit. Set one.")
    return model, url, values


class SharedEndpoint(EndpointGenerator):
    """An endpoint that is pickled as its specification, so that a copy is the process's shared endpoint."""

    named: tuple[str, ...]
    """Arguments of `shared_endpoint`."""

    def __reduce__(self) -> tuple[Any, ...]:
        return shared_endpoint, self.named


def shared_endpoint(endpoint: str, *options: str) -> SharedEndpoint:
    """Return the endpoint of `llm:<endpoint>,<options>`, which is the same, with its budget, in the whole process."""
    # `functools.cache` may call a function twice from two threads, which would make two budgets.
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
    """Return the budget of a specification, shared by its endpoints for all games, which have different limits."""
    _, _, values = read_spec(endpoint, options)
    return Budget(values.get("max_calls"), values.get("max_total_tokens"))


def language_model(game: Game, endpoint: str, *options: str) -> LanguageModelPolicy:
    """Return the opponent `llm:model@url[,option=value]...`, with prompts in the style `prose`."""
    model = shared_endpoint(endpoint, *options)
    return LanguageModelPolicy(model, game.spec, Prose(), settings=settings_for(game.spec), name=endpoint)
