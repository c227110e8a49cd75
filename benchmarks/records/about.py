"""Content of run.json, and the setting and agent of a run rebuilt from it."""

from __future__ import annotations

import platform
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from mage_envs.benchmarks.evaluation.run.agents import Agent, EndpointAgent, GeneratorAgent, SavedModelAgent, make_agent
from mage_envs.benchmarks.evaluation.run.hugging_face import HuggingFaceAgent
from mage_envs.benchmarks.evaluation.suites.panels import Panel, named_panel
from mage_envs.benchmarks.evaluation.suites.setting import DISPLAY, Setting
from mage_envs.benchmarks.records.lines import VERSION
from mage_envs.benchmarks.versions import package_versions
from mage_envs.core import Task
from mage_envs.loading.imports import load_modules, user_modules

_END = 2**16
"""Number of bytes at the end of a weight file that the identity of a model covers."""
_NOT_RECORDED = ("ids", "sizes", "defaults", "variable", "stand_in")
"""Fields of a panel that its tasks do not depend on, and the function of its task ids, which no file can hold."""


def about_run(agent: Agent, setting: Setting) -> dict[str, Any]:
    """Return the content of run.json as JSON values."""
    panel = {field.name: vars(setting.panel)[field.name] for field in fields(Panel) if field.name not in _NOT_RECORDED}
    if not isinstance(setting.panel.opponents, str):
        # Pairs keep the order of the opponents, which determines the tasks; run.json is written with sorted keys.
        panel["opponents"] = list(setting.panel.opponents.items())
    if panel["rows"] is None:
        del panel["rows"]
    else:
        panel["rows"] = [task.to_json() for task in panel["rows"]]
    return {
        "schema": VERSION,
        "agent": identity_of(agent, setting.game_name),
        "setting": setting.to_json(),
        "fingerprint": setting.fingerprint,
        "panel": panel | {"name": setting.name, "has_ids": setting.panel.ids is not None},
        "env_kwargs": dict(setting.env_kwargs),
        "imports": list(user_modules()),
        "versions": {"python": platform.python_version(), **package_versions()},
        "platform": platform.platform(),
        "commit": _commit(),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        # Without the addresses of models: reports show the command line.
        "argv": [re.sub(r"@https?://[^,@\s]+", "", word) for word in sys.argv[1:]],
    }


def setting_of(about: Mapping[str, Any]) -> Setting:
    """Return the setting of a run, rebuilt by this version from run.json.

    Raises:
        ValueError: If the panel reads its task ids from data and this version does not have it, or if the
            environment's id names a module.
        UntrustedName: Inside `names_from`, if the run needs a module that the user did not import.
    """
    load_modules(about["imports"], "run.json")
    panel_fields = dict(about["panel"])
    # gym.make would import the part before the colon.
    if ":" in panel_fields["env_id"]:
        raise ValueError(f"run.json: env_id={panel_fields['env_id']!r} must be a registered id, without a module.")
    name, has_ids = panel_fields.pop("name"), panel_fields.pop("has_ids")
    if not isinstance(panel_fields["opponents"], str):
        panel_fields["opponents"] = dict(panel_fields["opponents"])
    if "rows" in panel_fields:
        panel_fields["rows"] = tuple(Task(**row) for row in panel_fields["rows"])
    panel = named_panel(name) if has_ids else Panel(**panel_fields)
    return Setting(panel, name, about["env_kwargs"])


def identity_fields(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that two comparable runs share: tasks, weights and all options except `DISPLAY`."""
    setting = about["setting"]
    options = {key: value for key, value in setting["options"].items() if key not in DISPLAY}
    return {"options": options, "weights": setting["weights"], "tasks": setting["tasks"]}


def identity_of(agent: Agent, game_name: str) -> dict[str, Any]:
    """Return the identity of an agent: its name, the content of a saved model, its sampling and its limits."""
    return {
        "name": agent.name,
        "content": _content(agent),
        **_describe_sampling(agent, game_name),
        **_describe_server(agent, game_name),
    }


def agent_of(spec: str, identity: Mapping[str, Any], game_name: str) -> Agent:
    """Return the agent with an identity, rebuilt in a worker.

    Args:
        spec: Specification of the agent, which names the server of a model.
        identity: Identity, as in run.json.
        game_name: Name of the game to play.

    Raises:
        RuntimeError: If the worker has another model.
    """
    agent = make_agent(spec, identity.get("sampling"), identity["name"])
    if isinstance(agent, EndpointAgent):
        agent.look_up(game_name)
    # Another machine may have another model under the same path or address.
    if (current := identity_of(agent, game_name)) != identity:
        raise RuntimeError(f"On the worker, {agent.name} is another model: expected {identity}, got {current}.")
    return agent


def _content(agent: Agent) -> str | None:
    """Return a digest of a saved model over names, sizes and ends of its files, or None for other agents."""
    if not isinstance(agent, SavedModelAgent | HuggingFaceAgent):
        return None
    # Imported here, because only models have files.
    from mage_envs.trainer.backends.model_folder import open_model_file

    # Hashing all weights would take minutes. The beginning of a file may be equal for two models of one
    # architecture (names and shapes), so the end is hashed.
    digest = sha256()
    for path in sorted(path for path in agent.folder.iterdir() if path.suffix in (".json", ".safetensors", ".bin")):
        with open_model_file(agent.folder, path.name) as file:
            size = file.seek(0, 2)
            file.seek(max(size - _END, 0))
            digest.update(f"{path.name} {size} ".encode() + file.read())
    return digest.hexdigest()[:16]


def _describe_sampling(agent: Agent, game_name: str) -> dict[str, Any]:
    """Return the sampling that the user set, if any, and the effective sampling and limits, if known."""
    models = SavedModelAgent | HuggingFaceAgent | EndpointAgent
    sampling = agent.sampling if isinstance(agent, models | GeneratorAgent) else None
    description: dict[str, Any] = {"sampling": dict(sampling)} if sampling else {}
    if isinstance(agent, models):
        description["request"] = agent.request(game_name)
    return description


def _describe_server(agent: Agent, game_name: str) -> dict[str, Any]:
    """Return the requested model of an endpoint, and the id of the served one; empty for other agents."""
    if not isinstance(agent, EndpointAgent):
        return {}
    return {"model": agent.model, "served": agent.model_ids(game_name)}


@cache
def _commit() -> str | None:
    """Return the commit of the checkout that the code runs from, or None for an installed package."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    try:
        process = subprocess.run(
            ["git", "-C", str(root), "rev-parse", "HEAD"], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return process.stdout.strip()
