"""Names of models behind endpoints, `llm:model@url,option=value`: their parser, and their form without servers."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from mage_envs.loading.arguments import Spec, call

FORM = "llm:model@url"
EXAMPLE = "llm:qwen3:4b@http://localhost:11434/v1,max_tokens=512"
SENT = ("top_p", "top_k", "max_completion_tokens", "reasoning_effort")
"""Options that are sent to the server unchanged."""
_ANSWERS = ("temperature", "max_tokens", *SENT, "thinking", "seed", "style")
"""Options that affect answers. The others concern servers, limits of time and money, and the cache."""
SERVERS = "MAGE_ENVS_LLM_SERVERS"
"""Environment variable with the servers of opponents by their names, as JSON. Worker processes inherit it."""


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
    style: str | None = None
    """Style of an opponent's prompts. The prompts of an agent have the style of its environment."""


def read_endpoint(endpoint: str) -> tuple[str, list[str], EndpointOptions]:
    """Return the model, its URLs and the options of `model@url@url,option=value,...`.

    Raises:
        ValueError: If the text is invalid.
    """
    model, urls, options = parts(endpoint)
    if not model or not urls:
        raise ValueError(form_error(endpoint))
    return model, urls, options


def form_error(endpoint: str) -> str:
    """Return the message for a name without a model or a URL."""
    return f"Model 'llm:{endpoint.partition(',')[0]}' must have the form {FORM}, as in {EXAMPLE}."


def parts(endpoint: str) -> tuple[str, list[str], EndpointOptions]:
    """Return what `read_endpoint` returns, also for a name without a URL."""
    target, comma, option_text = endpoint.partition(",")
    # A model's name may contain an @, so only one in front of a URL separates.
    model, *urls = re.split(r"@(?=https?://)", target)
    # The label has no URL, which could contain a password.
    label = f"Model 'llm:{model}'"
    options = call(label, Spec(target, option_text if comma else None), EndpointOptions)
    if options.max_tokens is not None and options.max_completion_tokens is not None:
        raise ValueError(f"{label}: max_tokens and max_completion_tokens are the same limit. Set one.")
    return model, urls, options


def portable_name(endpoint: str) -> str:
    """Return `model[,option=value]...` with the options that affect answers, and without the servers.

    Args:
        endpoint: `model@url@url,option=value,...`. The servers may be missing.

    Raises:
        ValueError: If the text is invalid.
    """
    model, _, options = parts(endpoint)
    # A default needs no mention, so that equal endpoints have equal names.
    changed = {name: value for name, value in vars(options).items() if value != vars(EndpointOptions())[name]}
    return ",".join([model, *(f"{name}={_format_option(changed[name])}" for name in _ANSWERS if name in changed)])


def read_servers() -> dict[str, str]:
    """Return `model@url,option=value,...` of each opponent's portable name."""
    servers: dict[str, str] = json.loads(os.environ.get(SERVERS, "{}"))
    return servers


def remember_servers(servers: Mapping[str, str]) -> None:
    """Remember the servers of opponents, as `read_servers` returns them."""
    os.environ[SERVERS] = json.dumps({**read_servers(), **servers})


def _format_option(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else str(value)
