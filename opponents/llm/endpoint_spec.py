"""The opponent `llm:model@url`: parser of its specification, and its endpoint, which is made once per process."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

from mage_envs.core import Game
from mage_envs.loading.arguments import Rest, Spec, call
from mage_envs.text.prose import Prose
from opponents.llm.budget import Budget
from opponents.llm.cache import AnswerCache, cache_path
from opponents.llm.endpoint import EndpointGenerator
from opponents.llm.opponent import LanguageModelPolicy, settings_for

FORM = "llm:model@url"
EXAMPLE = "llm:qwen3:4b@http://localhost:11434/v1,max_tokens=512"
_SENT = ("top_p", "top_k", "max_completion_tokens", "reasoning_effort")
"""Options that are sent to the server unchanged."""
_OWN = ("temperature", "max_tokens", "deadline", "attempts", "concurrency", "namespace", "key_variable")
"""Options that are arguments of EndpointGenerator."""
_ANSWERS = ("temperature", "max_tokens", *_SENT, "thinking", "seed")
"""Options that affect answers. The others concern servers, limits of time and money, and the cache."""
_LOCK = Lock()


@dataclass(frozen=True, kw_only=True)
class EndpointOptions:
    """Options of `llm:model@url,option=value,...`. None means the default of `EndpointGenerator`."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    reasoning_effort: str | None = None
    thinking: bool | None = None
    seed: bool = True
    deadline: float | None = None
    attempts: int | None = None
    concurrency: int | None = None
    max_calls: int | None = None
    max_total_tokens: int | None = None
    cache: bool = True
    namespace: str | None = None
    key_variable: str | None = None


def read_endpoint(endpoint: str) -> tuple[str, list[str], EndpointOptions]:
    """Return the model, its URLs and the options of `model@url@url,option=value,...`.

    Raises:
        ValueError: If the text is invalid.
    """
    place, comma, rest = endpoint.partition(",")
    # A model's name may contain an @, so only one in front of a URL separates.
    model, *urls = re.split(r"@(?=https?://)", place)
    if not model or not urls:
        raise ValueError(f"Model 'llm:{place}' must have the form {FORM}, as in {EXAMPLE}.")
    # The label has no URL, which could contain a password.
    label = f"Model 'llm:{model}'"
    options = call(label, Spec(place, rest if comma else None), EndpointOptions)
    if options.max_tokens is not None and options.max_completion_tokens is not None:
        raise ValueError(f"{label}: max_tokens and max_completion_tokens are the same limit. Set one.")
    return model, urls, options


def portable_name(endpoint: str) -> str:
    """Return `model[,option=value]...` with the options that affect answers, and without the servers.

    Args:
        endpoint: `model@url@url,option=value,...`.

    Raises:
        ValueError: If the text is invalid.
    """
    model, _, options = read_endpoint(endpoint)
    # A default needs no mention, so that equal endpoints have equal names.
    changed = {name: value for name, value in vars(options).items() if value != vars(EndpointOptions())[name]}
    return ",".join([model, *(f"{name}={_written(changed[name])}" for name in _ANSWERS if name in changed)])


def _written(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else str(value)


class SharedEndpoint(EndpointGenerator):
    """An endpoint that is pickled as its specification, so that a copy is the process's shared endpoint."""

    named: tuple[str, str, EndpointOptions]
    """Model, URL and options."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _endpoint, self.named


def shared_endpoints(endpoint: str) -> list[SharedEndpoint]:
    """Return the endpoint of each URL of `model@url@url,option=value,...`.

    An endpoint is the same, with its budget, in the whole process.
    """
    model, urls, options = read_endpoint(endpoint)
    return [_endpoint(model, url, options) for url in dict.fromkeys(urls)]


def _endpoint(model: str, url: str, options: EndpointOptions) -> SharedEndpoint:
    # `functools.cache` may call a function twice from two threads, which would make two budgets.
    with _LOCK:
        return _shared(model, url, options, cache_path())


@cache
def _shared(model: str, url: str, options: EndpointOptions, kept_in: Path) -> SharedEndpoint:
    given = {name: value for name, value in vars(options).items() if value is not None}
    own = {name: given[name] for name in _OWN if name in given}
    parameters = {name: given[name] for name in _SENT if name in given}
    if options.max_completion_tokens is not None:
        own["max_tokens"] = None
    if options.thinking is not None:
        parameters["chat_template_kwargs"] = {"enable_thinking": options.thinking}
    made = SharedEndpoint(
        model,
        url,
        parameters=parameters,
        send_seed=options.seed,
        # An evaluation sets these two limits for each game, and the games share the budget.
        budget=_budget(model, url, replace(options, max_tokens=None, deadline=None)),
        cache=AnswerCache(kept_in) if options.cache else None,
        **own,
    )
    made.named = (model, url, options)
    return made


@cache
def _budget(model: str, url: str, options: EndpointOptions) -> Budget:
    """Return the budget of a specification, shared by its endpoints for all games."""
    return Budget(options.max_calls, options.max_total_tokens)


def language_model(game: Game, endpoint: Rest) -> LanguageModelPolicy:
    """Return the opponent `llm:model@url[,option=value]...`, with prompts in the style `prose`."""
    shared, *others = shared_endpoints(endpoint)
    name = endpoint.partition(",")[0]
    if others:
        raise ValueError(f"Opponent 'llm:{shared.model}' must name one URL, got {1 + len(others)}.")
    return LanguageModelPolicy(shared, game.spec, Prose(), settings=settings_for(game.spec), name=name)
