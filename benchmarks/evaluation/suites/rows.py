"""Rows of a suite from a YAML file. Each row has a name, an agent and a memory.

- name: reflexion
  agent: llm:qwen3:4b@http://localhost:11434/v1
  memory: reflexion:window=2
  sampling: paper
- name: MAGE
  agent: {kuhn: runs/mage-kuhn, webshop: runs/mage-webshop}     # one model per panel; other panels are skipped
- {name: MAGE-other, agent: {kuhn: runs/mage-kuhn}, control: other, from: MAGE}
- {name: described, agent: runs/mage-kuhn, pool: described}     # its prompts describe the pool after the rules
- {name: seed-0, agent: {kuhn: runs/kuhn-0}, model: words}       # the rows of one model share a line of the table
- {name: seed-1, agent: {kuhn: runs/kuhn-1}, model: words}
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mage_envs.benchmarks.evaluation.suites.sampling import read_sampling, validate_sampling
from mage_envs.files.bounded import read_yaml
from mage_envs.loading.arguments import nearest_name
from mage_envs.loading.extras import requires
from mage_envs.wrappers.controls import CONTROLS, SOURCED

KEYS = ("name", "agent", "memory", "env_kwargs", "sampling", "control", "from", "model", "pool")
_SHARED = ("memory", "env_kwargs", "sampling", "control", "pool")
"""Keys that all runs of one model share."""
POOL = "described"
"""Value of the key `pool`, under which prompts describe the pool."""
SET = ("protocol", "num_episodes", "memory")
"""Options that `env_kwargs` of a row must not set: the suite sets two of them, and the memory has its own key."""


@dataclass(frozen=True)
class SuiteRow:
    """Agent, memory and options of one row."""

    name: str
    """Name of the row and of its folder."""
    agent: str | Mapping[str, str]
    """Agent for all panels, or short name of a panel to its agent. Other panels are skipped."""
    memory: str | None = None
    """Memory; None for that of a saved model, else the default."""
    env_kwargs: Mapping[str, Any] = field(default_factory=dict)
    sampling: Mapping[str, float] | None = None
    control: str | None = None
    """`none`, one of `CONTROLS`, or None for no control."""
    source: str | None = None
    """Value of the key `from`: the earlier row from whose runs the control `other` copies memories."""
    model: str | None = None
    """Name of the line that shows the rows of one model together, such as those of its training seeds."""
    pool: str | None = None
    """`POOL` if the prompts describe the pool, else None."""

    def agent_at(self, panel: str) -> str | None:
        """Return the agent for a panel, or None if the row skips the panel."""
        return self.agent if isinstance(self.agent, str) else self.agent.get(panel)


def read_rows(path: Path, panels: tuple[str, ...]) -> tuple[SuiteRow, ...]:
    """Return the rows in their order. `panels` holds the short names of the suite's panels.

    Raises:
        OSError: If the file cannot be read.
        ImportError: If PyYAML is not installed.
        ValueError: If the file is not YAML or a row is malformed. The message names the place and the remedy.
    """
    with requires("--rows", "records", "PyYAML"):
        values = read_yaml(path)
    if not isinstance(values, list) or not values:
        raise ValueError(f"{path} must be a list of rows, each with the keys {', '.join(KEYS)}.")
    rows = tuple(_row(f"{path}, row {number}", value, panels) for number, value in enumerate(values, start=1))
    names = [row.name for row in rows]
    if doubled := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"{path} has two rows named {doubled!r}. Names must differ.")
    for index, row in enumerate(rows):
        # Rows are played in their order, so the source must be played first.
        if row.source is not None and row.source not in names[:index]:
            hint = nearest_name(row.source, names[:index])
            raise ValueError(f"{path}: {row.name} is from {row.source!r}, which must be a row above it.{hint}")
        if row.model in names:
            raise ValueError(f"{path}: model {row.model!r} of {row.name} is the name of a row. Rename one.")
        first_run = next(other_row for other_row in rows if other_row.model == row.model)
        differing_keys = [key for key in _SHARED if row.model and vars(row)[key] != vars(first_run)[key]]
        if differing_keys:
            raise ValueError(
                f"{path}: {first_run.name} and {row.name} are runs of one model, but their "
                f"{', '.join(differing_keys)} differ."
            )
    return rows


def _row(where: str, fields: Any, panels: tuple[str, ...]) -> SuiteRow:
    """Return a row from its YAML value. Raise ValueError if it is malformed."""
    if not isinstance(fields, dict):
        raise ValueError(f"{where}: it must have the keys {', '.join(KEYS)}, got {fields!r}.")
    for key in fields:
        if key not in KEYS:
            raise ValueError(f"{where}: unknown key {key!r}.{nearest_name(str(key), KEYS)} Keys: {', '.join(KEYS)}.")
    name, agent = fields.get("name"), fields.get("agent")
    # The name becomes a folder below --out and must not lead out of it.
    if not isinstance(name, str) or not re.fullmatch(r"[\w.+-]+", name) or name.startswith("."):
        raise ValueError(f"{where}: name must consist of letters, digits and . _ + -, got {name!r}.")
    if isinstance(agent, dict):
        for panel in agent:
            if panel not in panels:
                hint = nearest_name(str(panel), panels)
                raise ValueError(f"{where}: unknown panel {panel!r}.{hint} Panels here: {', '.join(panels)}.")
    parts = list(agent.values()) if isinstance(agent, dict) else [agent]
    if agent is None or not parts or not all(isinstance(part, str) for part in parts):
        raise ValueError(f"{where}: agent must name an agent, or one for each panel, got {agent!r}.")
    memory, kwargs = fields.get("memory"), fields.get("env_kwargs") or {}
    if not isinstance(memory, str | None):
        raise ValueError(f"{where}: memory must be a name, got {memory!r}.")
    if not isinstance(kwargs, dict):
        raise ValueError(f"{where}: env_kwargs must be a mapping of options, got {kwargs!r}.")
    if fixed_key := next((key for key in SET if key in kwargs), None):
        raise ValueError(f"{where}: env_kwargs must not set {fixed_key}. The suite or the key memory sets it.")
    model = fields.get("model")
    if not isinstance(model, str | None) or model == "":
        raise ValueError(f"{where}: model must be a name, got {model!r}.")
    pool = fields.get("pool")
    if pool not in (None, POOL):
        raise ValueError(f"{where}: pool must be {POOL} or absent, got {pool!r}.")
    control, source = fields.get("control"), fields.get("from")
    if control is not None and control not in ("none", *CONTROLS):
        hint = nearest_name(str(control), CONTROLS)
        raise ValueError(f"{where}: unknown control {control!r}.{hint} Use none, {', '.join(CONTROLS)}.")
    if (control in SOURCED) != isinstance(source, str):
        raise ValueError(
            f"{where}: control {' or '.join(SOURCED)} requires from, the name of a row above it; the others do not "
            "accept it."
        )
    return SuiteRow(
        name=name,
        agent=agent,
        memory=memory,
        env_kwargs=kwargs,
        sampling=_sampling(where, fields),
        control=control,
        source=source,
        model=model,
        pool=pool,
    )


def _sampling(where: str, fields: Mapping[str, Any]) -> dict[str, float] | None:
    """Return the sampling of a row, or None. Raise ValueError if it is malformed."""
    sampling = fields.get("sampling")
    if sampling is None:
        return None
    try:
        return validate_sampling(sampling) if isinstance(sampling, dict) else read_sampling(str(sampling))
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error
