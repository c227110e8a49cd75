"""The columns of a suite, from a YAML file: what is compared there, each with a name, an agent and a memory.

- name: reflexion
  agent: llm:qwen3:4b@http://localhost:11434/v1
  memory: reflexion:window=2
  sampling: paper
- name: MAGE
  agent: {kuhn: runs/mage-kuhn, webshop: runs/mage-webshop}     # a model for each panel; no other is measured
- {name: MAGE-other, agent: {kuhn: runs/mage-kuhn}, control: other, from: MAGE}
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.evaluation.sampling import checked, read_sampling
from mage_envs.arguments import nearest_name
from wrappers.controls import CONTROLS

KEYS = ("name", "agent", "memory", "env_kwargs", "sampling", "control", "from")
SET = ("protocol", "num_episodes", "memory")
"""Options that a column's `env_kwargs` do not take: the suite sets two of them, and the memory has a key of its own."""


@dataclass(frozen=True)
class Column:
    """What one column measures."""

    name: str
    """A folder's name too."""
    agent: str | Mapping[str, str]
    """As `make_agent` reads it, or one for each panel of the suite that it plays, by the panel's short name."""
    memory: str | None = None
    """None: a saved model's own, else the default."""
    env_kwargs: Mapping[str, Any] = field(default_factory=dict)
    sampling: Mapping[str, float] | None = None
    control: str | None = None
    """`none`, or one of `CONTROLS`."""
    source: str | None = None
    """The key `from`: the column before it whose runs the control `other` takes its memories from."""

    def agent_at(self, panel: str) -> str | None:
        """The agent at a panel; None where the column is not measured there."""
        return self.agent if isinstance(self.agent, str) else self.agent.get(panel)


def read_columns(path: Path, panels: tuple[str, ...]) -> tuple[Column, ...]:
    """The columns in their order; `panels`: short names of the suite's.

    Raises OSError, ImportError, or ValueError that names the place and the remedy.
    """
    try:
        import yaml
    except ModuleNotFoundError as error:
        raise ImportError('--columns needs PyYAML. Install it with: pip install "mage-envs[records]"') from error
    try:
        told = yaml.safe_load(path.read_text("utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is no YAML: {' '.join(str(error).split())}.") from error
    if not isinstance(told, list) or not told:
        raise ValueError(f"{path} must be a list of columns, each with the keys {', '.join(KEYS)}.")
    columns = tuple(_column(f"{path}, column {number}", one, panels) for number, one in enumerate(told, start=1))
    names = [column.name for column in columns]
    if doubled := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"{path} has two columns named {doubled!r}; give each a name of its own.")
    for place, column in enumerate(columns):
        if column.source is not None and column.source not in names[:place]:
            hint = nearest_name(column.source, names[:place])
            raise ValueError(f"{path}: {column.name} is from {column.source!r}, which is no column above it.{hint}")
    return columns


def _column(where: str, told: Any, panels: tuple[str, ...]) -> Column:
    if not isinstance(told, dict):
        raise ValueError(f"{where}: it must have the keys {', '.join(KEYS)}, got {told!r}.")
    for key in told:
        if key not in KEYS:
            raise ValueError(f"{where}: unknown key {key!r}.{nearest_name(str(key), KEYS)} Keys: {', '.join(KEYS)}.")
    name, agent = told.get("name"), told.get("agent")
    if not isinstance(name, str) or not re.fullmatch(r"[\w.+-]+", name) or name.startswith("."):
        raise ValueError(f"{where}: name must be of letters, digits and . _ + -, got {name!r}.")
    if isinstance(agent, dict):
        for panel in agent:
            if panel not in panels:
                hint = nearest_name(str(panel), panels)
                raise ValueError(f"{where}: unknown panel {panel!r}.{hint} Panels here: {', '.join(panels)}.")
    parts = list(agent.values()) if isinstance(agent, dict) else [agent]
    if agent is None or not parts or not all(isinstance(part, str) for part in parts):
        raise ValueError(f"{where}: agent must name an agent, or one for each panel, got {agent!r}.")
    memory, kwargs = told.get("memory"), told.get("env_kwargs") or {}
    if not isinstance(memory, str | None):
        raise ValueError(f"{where}: memory must be a name, got {memory!r}.")
    if not isinstance(kwargs, dict):
        raise ValueError(f"{where}: env_kwargs must be a mapping of options, got {kwargs!r}.")
    if taken := next((key for key in SET if key in kwargs), None):
        raise ValueError(f"{where}: env_kwargs may not set {taken}; the suite does, or the key memory.")
    control, source = told.get("control"), told.get("from")
    if control is not None and control not in ("none", *CONTROLS):
        hint = nearest_name(str(control), CONTROLS)
        raise ValueError(f"{where}: unknown control {control!r}.{hint} Choose none, {', '.join(CONTROLS)}.")
    if (control == "other") != isinstance(source, str):
        raise ValueError(f"{where}: control other, and no other one, needs from: the name of a column above it.")
    return Column(
        name=name,
        agent=agent,
        memory=memory,
        env_kwargs=kwargs,
        sampling=_sampling(where, told),
        control=control,
        source=source,
    )


def _sampling(where: str, told: Mapping[str, Any]) -> dict[str, float] | None:
    given = told.get("sampling")
    if given is None:
        return None
    try:
        return checked(given) if isinstance(given, dict) else read_sampling(str(given))
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error
