"""The runs of a suite: every row at every setting.

F/PANEL/ROW/                 a run, as `mage eval --out` stores it, at K = 3 and protocol adaptive
F/PANEL-k10-paper/ROW/       the same at other settings
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mage_envs.benchmarks.evaluation.run.agents import Agent, PolicyAgent, SavedModelAgent, keeps_state, make_agent
from mage_envs.benchmarks.evaluation.suites.adapt import cell_of
from mage_envs.benchmarks.evaluation.suites.panels import full_name, named_panel
from mage_envs.benchmarks.evaluation.suites.paper import EPISODES, PROTOCOLS, Suite
from mage_envs.benchmarks.evaluation.suites.pool_texts import has_description
from mage_envs.benchmarks.evaluation.suites.rows import SuiteRow
from mage_envs.benchmarks.evaluation.suites.setting import DISPLAY, Setting
from mage_envs.benchmarks.records.controls import apply_control


@dataclass(frozen=True)
class PlannedRun:
    """A run to be played."""

    panel: str
    """Short name."""
    protocol: str
    episodes: int
    row: SuiteRow
    spec: str
    """Specification of the agent."""
    agent: Agent
    setting: Setting
    """Setting before the control `other`, which requires that its source run was played."""
    note: str = ""
    """Remark on the tasks of the run; empty if they are those of the panel."""

    @property
    def block(self) -> str:
        """Return the name of the parent folder, which omits default settings."""
        suffix = "" if self.episodes == EPISODES[0] else f"-k{self.episodes}"
        return f"{self.panel}{suffix}" + ("" if self.protocol == PROTOCOLS[0] else f"-{self.protocol}")

    @property
    def folder(self) -> str:
        return f"{self.block}/{self.row.name}"

    def to_json(self) -> dict[str, Any]:
        """Return the entry of suite.json. The fingerprint is None if it depends on another run."""
        return {"folder": self.folder, "fingerprint": None if self.row.source else self.setting.fingerprint}

    def setting_in(self, out: Path) -> Setting:
        """Return the setting to play. A run that it copies memories from must already be below `out`."""
        if self.row.source is None:
            return self.setting
        source = str(out / self.block / self.row.source)
        return apply_control(self.setting, self.row.control or "other", source, isinstance(self.agent, PolicyAgent))


def short_names(suite: Suite) -> dict[str, str]:
    """Return for each panel the shortest prefix of its name, in whole words, that is unique in the suite.

    A first word `paper` does not count, because all panels of a suite of the paper have it. Panels with sizes of their
    own are named by their last word.
    """
    if not suite.sized:
        return {panel: panel.rpartition("-")[2] for panel in suite.panels}
    prefixes = {}
    names = {panel: panel.removeprefix("paper-") for panel in suite.panels}
    for panel, name in names.items():
        words = name.split("-")
        heads = ("-".join(words[:count]) for count in range(1, len(words) + 1))
        others = [other_name for other_name in names.values() if other_name != name]
        unique = (h for h in heads if not any(o == h or o.startswith(f"{h}-") for o in others))
        # A name that begins another one, such as kuhn-cfr and kuhn-cfr-second, has no unique prefix.
        prefixes[panel] = next(unique, name)
    return prefixes


def plan_runs(
    suite: Suite,
    rows: Sequence[SuiteRow],
    size: int | None = None,
    protocols: Sequence[str] | None = None,
    lengths: Sequence[int] | None = None,
    quick: bool = False,
    agent: Agent | None = None,
) -> list[PlannedRun]:
    """Return all runs of a suite, setting by setting. Panels whose data are absent have none.

    Args:
        size: Meta-episodes per panel (default: those of each panel).
        protocols: Protocols to play (default: those of the suite).
        lengths: Numbers of episodes to play (default: those of the suite).
        quick: True for a trial, in which generated data replace absent ones.
        agent: Agent of all rows (default: the agents that the rows name).

    Raises:
        ValueError: If a run cannot be played with its options, or if the source of a row does not play a panel.
    """
    runs: list[PlannedRun] = []
    shorts = short_names(suite)
    for protocol in protocols or suite.protocols:
        for episodes in lengths or suite.lengths:
            for panel, note in _present(suite, quick).items():
                short = shorts[panel]
                for row in rows:
                    cells = _plan_run(
                        _add_size(panel, note, size),
                        short,
                        row,
                        protocol,
                        episodes=episodes,
                        reason=note,
                        agent=agent,
                    )
                    for cell in cells:
                        if row.source and f"{cell.block}/{row.source}" not in {run.folder for run in runs}:
                            raise ValueError(f"Row {row.name} copies from {row.source}, which does not play {short}.")
                        runs.append(cell)
    return runs


def _present(suite: Suite, quick: bool) -> dict[str, str]:
    """Return the panels that can be played here, each with the reason for a stand-in, or an empty text."""
    absent = absent_panels(suite, quick)
    return {panel: named_panel(panel).missing() or "" for panel in suite.panels if panel not in absent}


def absent_panels(suite: Suite, quick: bool) -> dict[str, str]:
    """Return the panels that cannot be played here, each with the reason: absent data, or a missing engine."""
    reasons = {
        panel: (not quick and named_panel(panel).missing()) or named_panel(panel).obstacle() for panel in suite.panels
    }
    return {panel: reason for panel, reason in reasons.items() if reason}


def _add_size(panel: str, note: str, size: int | None) -> str:
    """Return the name of the panel to play with its size: a stand-in if there is a reason for one."""
    base = named_panel(panel).stand_in if note else panel
    return full_name(base) if size is None else f"{base}-{size}"


def _plan_run(
    panel: str, short: str, row: SuiteRow, protocol: str, *, episodes: int, reason: str, agent: Agent | None
) -> Iterator[PlannedRun]:
    """Yield the run, or nothing if the row is not measured at this panel."""
    spec = row.agent_at(short)
    if spec is None:
        return
    agent, base_panel = agent or make_agent(spec, row.sampling), named_panel(panel)
    model_options: dict[str, Any] = {}
    if isinstance(agent, SavedModelAgent):
        if agent.settings.env_id != base_panel.env_id:
            return
        model_options = base_panel.filter_options(agent.settings.env_kwargs)
        if cell_of(panel) is not None:
            # The lines of a cell are those of its own game and rules, whatever the model was trained on.
            model_options = {key: value for key, value in model_options.items() if key in DISPLAY}
    options = {**model_options, **row.env_kwargs, "protocol": protocol, "num_episodes": episodes}
    if row.pool is not None:
        cell = cell_of(panel)
        # A negative control without a description has no such run.
        if cell is not None and not has_description(cell.pool):
            return
        if cell is None:
            raise ValueError(f"Row {row.name}: pool: {row.pool} requires a panel of the suite adapt.")
        options["rules"] = cell.rules()
    if row.memory is not None:
        options["memory"] = row.memory
    setting = Setting(base_panel, panel, options)
    if row.control is not None and row.source is None:
        setting = apply_control(setting, row.control, None, own_memory=keeps_state(agent))
    # Resolving the options raises if they are incompatible, before anything is played.
    _ = setting.fingerprint
    notes = [f"other options ({', '.join(sorted(row.env_kwargs))})"] if row.env_kwargs else []
    notes += [f"generated data ({panel}), because {reason}"] if reason else []
    yield PlannedRun(
        panel=short,
        protocol=protocol,
        episodes=episodes,
        row=row,
        spec=spec,
        agent=agent,
        setting=setting,
        note="; ".join(notes),
    )
