"""Stored suites of `mage adapt`, read as a stranger's: each run must be of its cell, all cells present, one agent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from mage_envs.benchmarks.evaluation.run.agents import NO_MODEL
from mage_envs.benchmarks.evaluation.suites.adapt import ADAPT_SUITES, ALL_CELLS, DISPLAY, NAMED, AdaptCell
from mage_envs.benchmarks.evaluation.suites.panels import full_name, named_panel
from mage_envs.benchmarks.evaluation.suites.paper import named_suite
from mage_envs.benchmarks.evaluation.suites.pool_texts import has_description
from mage_envs.benchmarks.evaluation.suites.rows import POOL
from mage_envs.benchmarks.evaluation.suites.setting import Setting
from mage_envs.benchmarks.records.about import setting_of
from mage_envs.benchmarks.records.controls import apply_control
from mage_envs.benchmarks.records.record_store import Records, read_about, read_suite, reading
from mage_envs.benchmarks.scale.adaptation import ScaledRun, load_cell_run, scale_of_cell
from mage_envs.benchmarks.suites.planning import short_names
from mage_envs.loading.arguments import parse
from mage_envs.wrappers.controls import SOURCED

NONE, OTHER, NEUTRAL = "none", "other", "neutral"


@dataclass(frozen=True, kw_only=True)
class StoredSuite:
    """The runs of one agent in a suite."""

    suite: str
    agent: str
    conditions: Mapping[str, Mapping[str, ScaledRun]]
    """Condition to its runs by cell."""
    missing: tuple[str, ...]
    """Cells of the suite that the main condition lacks."""


def read_stored_suite(folder: Path, *, partial: bool = False) -> StoredSuite:
    """Return a stored suite, with values that are computed again from its records.

    Args:
        folder: Folder of the suite.
        partial: If True, accept a suite that stopped early or lacks cells.

    Raises:
        ValueError: If the folder holds no complete suite of these cells and one agent, or if a run has another outcome
            in this version.
    """
    plan = read_suite(folder)
    suite = "" if plan is None else str(plan.get("suite", ""))
    if plan is None or suite not in ADAPT_SUITES or (plan.get("root") is None and not partial):
        raise ValueError(f"{folder} holds no complete suite. Play it with mage adapt … --out {folder}.")
    restore_sources(folder)
    panels = {short: full_name(panel) for panel, short in short_names(named_suite(suite)).items()}
    conditions: dict[str, dict[str, ScaledRun]] = {}
    agents: dict[str, dict[str, Any]] = {}
    for run in plan["runs"]:
        path = folder / run["folder"]
        name, _, condition = run["folder"].partition("/")
        records = Records(path)
        if name not in panels:
            raise ValueError(f"{path} is no run of a cell of {suite}: {', '.join(panels)}.")
        # The recorded options are the submitter's word. Those that this version rebuilds are what is executed.
        with reading(path):
            setting = setting_of(records.about)
        if different := next(differing_options(setting, panels[name], ALL_CELLS[name], condition), None):
            raise ValueError(f"{path} is no run of the cell {name} of {suite}: {different}.")
        agents[name] = records.about["agent"]
        scale = cell_scale(name)
        conditions.setdefault(condition, {})[name] = load_cell_run(records, ALL_CELLS[name], scale)
    if not conditions:
        raise ValueError(f"{folder} holds no run. Play it with mage adapt … --out {folder}.")
    agent = name_of_agent(folder, agents)
    main = conditions[main_condition(conditions)]
    missing = tuple(name for name in panels if name not in main and plays(agent, name, main_condition(conditions)))
    if missing and not partial:
        raise ValueError(
            f"{folder} holds {len(panels) - len(missing)} of {len(panels)} cells of {suite}; {missing[0]} is missing. "
            f"Play all of them with mage adapt … --out {folder} --resume."
        )
    return StoredSuite(suite=suite, agent=agent, conditions=conditions, missing=missing)


def restore_sources(folder: Path) -> None:
    """Put the memories that the runs of a suite copy from its main runs into this machine's cache.

    Without them these runs cannot be executed again. They are made from the records of the main runs.

    Args:
        folder: Folder of the suite.

    Raises:
        ValueError: If a run was played with other memories than those of the main run of its cell.
    """
    plan = read_suite(folder) or {"rows": [], "runs": []}
    sources = {row["name"]: row["source"] for row in plan["rows"] if row.get("source")}
    for run in plan["runs"]:
        name, _, condition = run["folder"].partition("/")
        if condition not in sources:
            continue
        main, path = folder / name / sources[condition], folder / run["folder"]
        memory = str(read_about(path)["env_kwargs"].get("memory"))
        with reading(main):
            about = read_about(main)
            setting, control = setting_of(about), memory.partition("@")[0]
            by_policy = parse(about["agent"]["name"]).name in NO_MODEL
            if (
                control not in SOURCED
                or apply_control(setting, control, str(main), by_policy).options["memory"] != memory
            ):
                raise ValueError(f"{path} was not played with the memories of {main}.")


@cache
def cell_scale(name: str) -> Any:
    """Return the scale of a cell by its name; it takes seconds, so it is computed once."""
    return scale_of_cell(ALL_CELLS[name])


def main_condition(conditions: Mapping[str, Any]) -> str:
    """Return the condition of the headline: the pool described, if it was played."""
    return POOL if POOL in conditions else next(iter(conditions))


def plays(agent: str, name: str, condition: str) -> bool:
    """Return True if a complete suite of the agent has the cell under this condition."""
    cell, reference = ALL_CELLS[name], agent.removeprefix("policy:")
    if condition == POOL and not has_description(cell.pool):
        return False
    return reference not in NAMED or agent == reference or cell.agent(reference) is not None


def name_of_agent(folder: Path, agents: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the name of the one agent of all runs, which may be a reference that plays each cell with its own pool.

    Raises:
        ValueError: If the runs are of several agents.
    """
    # The request holds the limits of each game, and so differs between cells.
    identities = [{key: value for key, value in about.items() if key != "request"} for about in agents.values()]
    if all(identity == identities[0] for identity in identities):
        return str(identities[0]["name"])
    for reference in NAMED:
        if all(about["name"] == ALL_CELLS[name].agent(reference) for name, about in agents.items()):
            return f"policy:{reference}"
    names = sorted({str(identity["name"]) for identity in identities})
    raise ValueError(
        f"{folder} mixes several agents ({', '.join(names)}), and a suite is played by one. "
        "Play it with mage adapt AGENT --out FOLDER."
    )


def differing_options(setting: Setting, panel: str, cell: AdaptCell, condition: str) -> Iterator[str]:
    """Yield each option in which a recorded run differs from its cell, as a text with both values.

    The agent may choose the options of `DISPLAY`: its memory, and the context and style of its prompts.

    Args:
        setting: Setting of the run.
        panel: Full name of the cell's panel.
        cell: The cell.
        condition: Condition that the run claims to be played under.
    """
    recorded = setting.to_json()
    expected_kwargs: dict[str, Any] = {"protocol": "adaptive", "num_episodes": cell.env_kwargs()["num_episodes"]}
    if condition == POOL or (condition in (NONE, OTHER) and "rules" in recorded["options"]["further"]):
        expected_kwargs["rules"] = cell.rules()
    expected = Setting(named_panel(panel), panel, expected_kwargs).to_json()
    if setting.name != panel:
        yield f"its panel is {setting.name!r}, expected {panel!r}"
    for key in ("weights", "meta_episodes", "tasks"):
        if recorded[key] != expected[key]:
            yield f"its {key} are not those of {panel}"
    options, expected_options = _flat(recorded["options"]), _flat(expected["options"])
    # The text of the rules follows from the other options, so it is named only if it is all that differs.
    for key in sorted(expected_options, key=lambda key: key == "rules"):
        if key not in DISPLAY and options.get(key) != expected_options[key]:
            yield f"{key}={options.get(key)!r}, expected {expected_options[key]!r}"
    for key in sorted(options.keys() - expected_options.keys()):
        # The question for the opponent names the cell's pool, and no later prompt shows it or its answer.
        if key == "further.elicit" and tuple(options[key]) == tuple(expected["weights"]):
            continue
        yield f"{key}={options[key]!r}, expected no such option"
    memory = str(recorded["options"]["memory"])
    control = memory.partition("/")[0].partition("@")[0] if "/" in memory else memory
    if condition in (NONE, OTHER) and control != condition:
        yield f"memory={memory!r}, expected the control {condition}"
    if condition not in (NONE, OTHER, "same") and control in (NONE, OTHER, "same"):
        yield f"memory={memory!r}, expected no control"
    if (recorded["options"]["style"] == NEUTRAL) != (condition == NEUTRAL):
        yield f"style={recorded['options']['style']!r} under the condition {condition}"


def _flat(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested options with dotted keys."""
    flat: dict[str, Any] = {}
    for key, value in options.items():
        if isinstance(value, Mapping):
            flat |= {f"{key}.{name}": inner for name, inner in _flat(value).items()}
        else:
            flat[key] = value
    return flat
