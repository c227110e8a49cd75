"""`mage-bench suite`: every column at every setting of a suite, each a run of its own below one folder.

F/suite.json                 suite, size, columns, and the roots of all runs once they were played
F/PANEL/COLUMN/              a run, as `mage-bench eval --out` keeps it, at K = 3 and protocol adaptive
F/PANEL-k10-paper/COLUMN/    the same at other settings
F/table.txt, F/table.tsv     made from the runs, as F/report.html is
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.evaluation import report
from benchmarks.evaluation.agents import Agent, SavedModelAgent, make_agent
from benchmarks.evaluation.command import add_play_arguments, ending, measure
from benchmarks.evaluation.controls import controlled
from benchmarks.evaluation.scores import Summary
from benchmarks.evaluation.suites.columns import Column, read_columns
from benchmarks.evaluation.suites.panels import QUICK, SIZES, named_panel
from benchmarks.evaluation.suites.paper import EPISODES, PROTOCOLS, SUITES, Suite, named_suite
from benchmarks.evaluation.suites.settings import Setting
from benchmarks.evaluation.suites.table import SuiteCell, text_table, tsv
from benchmarks.records.canonical import digest_of
from benchmarks.records.store import ROOT, RUN, SUITE, OtherRun, read_suite
from benchmarks.report.document import REPORT, write_report
from benchmarks.report.runs import read_runs
from mage_envs.durable import output_path, write_atomically
from mage_envs.imports import names_from
from mage_envs.locking import LOCK, FolderLock


@dataclass(frozen=True)
class _Planned:
    """A run that is to be played."""

    panel: str
    """Short name."""
    protocol: str
    episodes: int
    column: Column
    agent: Agent
    setting: Setting
    """Before the control `other`, which its source's run has to be played for."""

    @property
    def block(self) -> str:
        """The folder above it, without what is as by default."""
        more = "" if self.episodes == EPISODES[0] else f"-k{self.episodes}"
        return f"{self.panel}{more}" + ("" if self.protocol == PROTOCOLS[0] else f"-{self.protocol}")

    @property
    def folder(self) -> str:
        return f"{self.block}/{self.column.name}"

    def to_json(self) -> dict[str, Any]:
        """As suite.json plans it; no fingerprint where that depends on another run."""
        return {"folder": self.folder, "fingerprint": None if self.column.source else self.setting.fingerprint}

    def played_in(self, out: Path) -> Setting:
        """The setting, its source having been played below `out`."""
        if self.column.source is None:
            return self.setting
        return controlled(self.setting, "other", str(out / self.block / self.column.source))


def short_names(suite: Suite) -> dict[str, str]:
    """Panel to the shortest beginning of its name, by whole words, that no other panel of the suite has."""
    found = {}
    for panel in suite.panels:
        words = panel.split("-")
        heads = ("-".join(words[:count]) for count in range(1, len(words) + 1))
        others = [other for other in suite.panels if other != panel]
        found[panel] = next(h for h in heads if not any(o == h or o.startswith(f"{h}-") for o in others))
    return found


def planned(
    suite: Suite,
    columns: Sequence[Column],
    size: int,
    protocols: Sequence[str] = PROTOCOLS,
    lengths: Sequence[int] = EPISODES,
) -> list[_Planned]:
    """All runs of a suite, setting by setting. Raises what makes one of them impossible."""
    found: list[_Planned] = []
    for protocol in protocols:
        for episodes in lengths:
            for panel, short in short_names(suite).items():
                for column in columns:
                    for cell in _planned(f"{panel}-{size}", short, column, protocol, episodes):
                        if column.source and f"{cell.block}/{column.source}" not in {one.folder for one in found}:
                            raise ValueError(f"{column.name} is from {column.source}, which does not play {short}.")
                        found.append(cell)
    return found


def _planned(panel: str, short: str, column: Column, protocol: str, episodes: int) -> Iterator[_Planned]:
    """The run, or nothing where the column is not measured."""
    spec = column.agent_at(short)
    if spec is None:
        return
    agent, named = make_agent(spec, column.sampling), named_panel(panel)
    own: dict[str, Any] = {}
    if isinstance(agent, SavedModelAgent):
        if agent.settings.env_id != named.env_id:
            return
        own = {key: value for key, value in agent.settings.env_kwargs.items() if key not in named.env_kwargs}
    options = {**own, **column.env_kwargs, "protocol": protocol, "num_episodes": episodes}
    if column.memory is not None:
        options["memory"] = column.memory
    setting = Setting(named, panel, options)
    if column.control not in (None, "other"):
        setting = controlled(setting, column.control, None)
    _ = setting.fingerprint  # raises for options that do not go together, before anything is played
    yield _Planned(panel=short, protocol=protocol, episodes=episodes, column=column, agent=agent, setting=setting)


# -- mage-bench suite ------------------------------------------------------------------------------------------


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `mage-bench suite`."""
    parser.epilog = "Example: mage-bench suite paper-table1 --columns columns.yaml --quick --out runs/t1"
    parser.add_argument("suite", metavar="NAME", help=", ".join(SUITES))
    parser.add_argument("--columns", metavar="FILE", required=True, help="YAML: name, agent, memory, and so on")
    parser.add_argument("--out", type=output_path, metavar="FOLDER", required=True, help="where the runs are kept")
    parser.add_argument(
        "--quick",
        action="store_true",
        help=f"a trial: {QUICK} tasks a panel, K = 3, adaptive; no results",
    )
    parser.add_argument("--protocol", choices=PROTOCOLS, help="one of the two alone")
    parser.add_argument("--num-episodes", type=int, choices=EPISODES, help="one of the two lengths alone")
    parser.add_argument("--size", type=int, choices=SIZES, default=SIZES[0], help="meta-episodes a panel (512)")
    parser.add_argument("--resume", action="store_true", help="play what is missing or failed in --out")
    parser.add_argument("--tsv", action="store_true", help="unaligned, with tabs between the fields")
    add_play_arguments(parser)


def run(arguments: argparse.Namespace) -> None:
    """Plays the suite, and writes its table to stdout; ends as `mage-bench eval` does, with its gravest status."""
    # A suite file may come from a stranger: it may name files, but no module that the user did not import.
    with names_from(arguments.columns, paths=True):
        _run_suite(arguments)


def _run_suite(arguments: argparse.Namespace) -> None:
    suite = named_suite(arguments.suite)
    columns = read_columns(Path(arguments.columns), tuple(short_names(suite).values()))
    cells = planned(
        suite,
        columns,
        QUICK if arguments.quick else arguments.size,
        [arguments.protocol] if arguments.protocol else PROTOCOLS[: 1 if arguments.quick else None],
        [arguments.num_episodes] if arguments.num_episodes else EPISODES[: 1 if arguments.quick else None],
    )
    if not cells:
        raise ValueError(f"{arguments.columns}: no column plays any panel of {arguments.suite}.")
    with FolderLock(arguments.out):
        _play(arguments, columns, cells)


def _play(arguments: argparse.Namespace, columns: Sequence[Column], cells: Sequence[_Planned]) -> None:
    """Play all cells, and write their table."""
    suite = named_suite(arguments.suite)
    out: Path = arguments.out
    plan = _plan(arguments, columns, cells)
    _begin(out, plan, arguments.resume)
    done: list[SuiteCell] = []
    scores: dict[Path, Summary] = {}
    statuses = []
    for number, cell in enumerate(cells, start=1):
        sys.stderr.write(f"[{number}/{len(cells)}] {cell.folder}\n")
        folder = out / cell.folder
        own = argparse.Namespace(**{**vars(arguments), "out": folder})
        setting = cell.played_in(out)
        measured = measure(own, cell.agent, setting)
        report.save(folder, measured.summary, figure=False)
        scores[folder] = measured.summary
        statuses.append(ending(setting, measured))
        done.append(
            SuiteCell(
                panel=cell.panel,
                protocol=cell.protocol,
                episodes=cell.episodes,
                column=cell.column.name,
                summary=measured.summary,
            )
        )
    _finish(out, plan, cells)
    text = text_table(arguments.suite, done, [c.name for c in columns], list(short_names(suite).items()))
    unaligned = tsv(done)
    write_atomically(out / "table.txt", text)
    write_atomically(out / "table.tsv", unaligned)
    write_report(out / REPORT, read_runs(list(scores), known=scores))
    sys.stdout.write(unaligned if arguments.tsv else text)
    sys.stderr.write(f"wrote {out / REPORT}\n")
    if any(statuses):
        raise SystemExit(min(status for status in statuses if status))


def _plan(arguments: argparse.Namespace, columns: Sequence[Column], cells: Sequence[_Planned]) -> dict[str, Any]:
    """What suite.json tells before anything was played."""
    return {
        "schema": 1,
        "suite": arguments.suite,
        "quick": arguments.quick,
        "columns": [asdict(column) for column in columns],
        "runs": [cell.to_json() for cell in cells],
    }


def _begin(out: Path, plan: Mapping[str, Any], resume: bool) -> None:
    """Writes the plan, or compares it with the one that is there. Raises OtherRun."""
    path = out / SUITE
    if path.exists() and next(out.rglob(RUN), None) is None:
        path.unlink()  # nothing was played
    if path.exists():
        if not resume:
            raise OtherRun(f"{out} holds a suite; go on with it (--resume), or take another folder.")
        there = read_suite(out) or {}
        told = [key for key, value in json.loads(json.dumps(plan)).items() if _unplayed(there).get(key) != value]
        if told:
            raise OtherRun(f"{out} holds another suite: {', '.join(told)} differ; take another folder.")
    elif {*out.iterdir()} - {out / LOCK}:
        raise OtherRun(f"{out} is not empty, and holds no suite; take another folder.")
    else:
        write_atomically(path, json.dumps(plan, indent=2) + "\n")


def _unplayed(plan: Mapping[str, Any]) -> dict[str, Any]:
    """The plan as it was before its runs had roots."""
    runs = [{key: one[key] for key in ("folder", "fingerprint")} for one in plan["runs"]]
    return {key: value for key, value in plan.items() if key != "root"} | {"runs": runs}


def _finish(out: Path, plan: Mapping[str, Any], cells: Sequence[_Planned]) -> None:
    """Adds the roots of the runs to the plan, and the digest of all of them."""
    roots = [json.loads((out / cell.folder / ROOT).read_text("utf-8"))["root"] for cell in cells]
    runs = [{**one, "root": root} for one, root in zip(plan["runs"], roots, strict=True)]
    write_atomically(out / SUITE, json.dumps({**plan, "runs": runs, "root": digest_of(roots)}, indent=2) + "\n")
