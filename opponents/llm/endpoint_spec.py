"""The opponent `llm:model@url`: parser of its specification, and its endpoint, which is made once per process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

from mage_envs.core import Game
from mage_envs.loading.arguments import Rest
from mage_envs.opponents.llm.budget import Budget
from mage_envs.opponents.llm.cache import AnswerCache, cache_path
from mage_envs.opponents.llm.endpoint import EndpointGenerator
from mage_envs.opponents.llm.names import (
    SENT,
    EndpointOptions,
    form_error,
    parts,
    portable_name,
    read_endpoint,
    read_servers,
)
from mage_envs.opponents.llm.opponent import NOT_RECORDED, LanguageModelPolicy, replays_records, settings_for
from mage_envs.opponents.registry import UnknownServer
from mage_envs.text.generation import Completion, Prompt
from mage_envs.text.styles import DEFAULT_STYLE, as_style

_OWN = ("temperature", "max_tokens", "deadline", "attempts", "concurrency", "namespace", "key_variable")
"""Options that are arguments of EndpointGenerator."""
_LOCK = Lock()


class SharedEndpoint(EndpointGenerator):
    """An endpoint that is pickled as its specification, so that a copy is the process's shared endpoint."""

    spec: tuple[str, str, EndpointOptions]
    """Model, URL and options."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _endpoint, self.spec


def shared_endpoints(endpoint: str) -> list[SharedEndpoint]:
    """Return the endpoint of each URL of `model@url@url,option=value,...`.

    An endpoint is the same, with its budget, in the whole process.
    """
    model, urls, options = read_endpoint(endpoint)
    return [_endpoint(model, url, options) for url in dict.fromkeys(urls)]


def _endpoint(model: str, url: str, options: EndpointOptions) -> SharedEndpoint:
    # `functools.cache` may call a function twice from two threads, which would make two budgets.
    with _LOCK:
        return _build_endpoint(model, url, options, cache_path())


@cache
def _build_endpoint(model: str, url: str, options: EndpointOptions, cache_file: Path) -> SharedEndpoint:
    values = {name: value for name, value in vars(options).items() if value is not None}
    arguments = {name: values[name] for name in _OWN if name in values}
    parameters = {name: values[name] for name in SENT if name in values}
    if options.max_completion_tokens is not None:
        arguments["max_tokens"] = None
    if options.thinking is not None:
        parameters["chat_template_kwargs"] = {"enable_thinking": options.thinking}
    endpoint = SharedEndpoint(
        model,
        url,
        parameters=parameters,
        send_seed=options.seed,
        # An evaluation sets these two limits for each game, and the games share the budget.
        budget=_budget(model, url, replace(options, max_tokens=None, deadline=None)),
        cache=AnswerCache(cache_file) if options.cache else None,
        **arguments,
    )
    endpoint.spec = (model, url, options)
    return endpoint


@cache
def _budget(model: str, url: str, options: EndpointOptions) -> Budget:
    """Return the budget of a specification, shared by its endpoints for all games."""
    return Budget(options.max_calls, options.max_total_tokens)


def language_model(game: Game, endpoint: Rest) -> LanguageModelPolicy:
    """Return the opponent `llm:model@url[,option=value]...`, with prompts in the default style or in `style`.

    Without a URL it is the opponent of `without_servers`, or the one of records that are played again.

    Raises:
        UnknownServer: If the URL is missing, and no server is known.
        ValueError: If the specification is invalid, or names several URLs.
    """
    name = portable_name(endpoint)
    if "@http" not in endpoint and not replays_records():
        if endpoint not in (servers := read_servers()):
            raise UnknownServer(f"{form_error(endpoint)} Its server is not known here.")
        endpoint = servers[endpoint]
    model, urls, options = read_endpoint(endpoint) if "@http" in endpoint else parts(endpoint)
    if len(urls) > 1:
        raise ValueError(f"Opponent 'llm:{model}' must name one URL, got {len(urls)}.")
    return LanguageModelPolicy(
        # Records hold all answers, so that their opponents need no server.
        _endpoint(model, urls[0], replace(options, style=None)) if urls else _NoServer(),
        game.spec,
        as_style(options.style or DEFAULT_STYLE, game.spec),
        settings=settings_for(game.spec),
        name=name,
    )


class _NoServer:
    """Generator of an opponent whose answers are all recorded."""

    def generate(self, prompts: Sequence[Prompt]) -> list[Completion]:
        return [Completion("", error=NOT_RECORDED) for _ in prompts]
