"""Fields that a config file or a sweep file must not set, because the file may come from a stranger."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from mage_envs.files.bounded import parse_json

FLAGS_ONLY = ("trust_remote_code", "push_to_hub", "use_kernels", "log_completions_hub_repo", "trackio_space_id")
"""Fields that execute code of others or publish the run, as flags only. So do all fields that begin with `hub_`."""
SERVERS = ("vllm_server_base_url", "vllm_server_host")
"""Addresses that receive the prompts and the weights. A file may name this machine only."""
ENDPOINT = re.compile(r"@(https?://[^,\s'\"\]})]+)")
"""Address in the name of a model behind an endpoint, such as `llm:MODEL@URL`."""


def check_file_fields(fields: Mapping[Any, Any], file: str | Path) -> None:
    """Raise ValueError if a file sets a field, at any depth, that only a flag may set.

    Args:
        fields: Fields of the file, with mappings as values of some.
        file: The file, for the message.
    """
    for key, value in fields.items():
        name = str(key).replace("-", "_")
        # In a sweep, names and values become arguments.
        if not name.isidentifier() or any(str(item).startswith("--") for item in _items(value)):
            raise ValueError(f"{file}: {key}: {value!r} is not a field and its value.")
        if name == "env":
            raise ValueError(f"{file}: env sets variables of this process; set them in the shell instead.")
        if name in FLAGS_ONLY or name.startswith(("hub_", "push_to_hub")):
            raise ValueError(
                f"{file}: {name} must not be set in a file, because it runs code of others or publishes the run. Check "
                f"the model, remove the field, and add the flag --{name} {str(value).lower()}."
            )
        # transformers would download the kernel of this name from the hub, and run it.
        if name.endswith("attn_implementation") and "/" in str(value):
            raise ValueError(
                f"{file}: {name}: {value} names code on the hub. Remove the field, and add the flag --{name} {value}."
            )
        if name in SERVERS and not _is_local(str(value)):
            raise ValueError(
                f"{file}: {name}: {value} is another machine, which would receive the weights. Remove the field, and "
                f"add the flag --{name} {value}."
            )
        for address in ENDPOINT.findall(str(value)):
            # A model behind it would receive the prompts, and the key of the user's account.
            if not _is_local(address):
                raise ValueError(
                    f"{file}: {name} names the server {address}. Check it, remove the field, and add the flag --{name}."
                )
        for item in _items(value):
            # The parser reads a mapping in a text, too.
            inner = _parse(item) if isinstance(item, str) else item
            if isinstance(inner, Mapping):
                check_file_fields(inner, file)


def _items(value: Any) -> Sequence[Any]:
    """Return the elements of a list, or the value itself as the only one."""
    return value if isinstance(value, list) else [value]


def _parse(text: str) -> Any:
    """Return the JSON value in a text, or None if it has none."""
    try:
        return parse_json(text)
    except ValueError:
        return None


def _is_local(address: str) -> bool:
    """Return True if a URL or a host is this machine."""
    try:
        host = urlsplit(address if "//" in address else f"//{address}").hostname or ""
        return host in ("localhost", "0.0.0.0") or ip_address(host).is_loopback
    except ValueError:
        return False
