"""`mage suite`: runs of every row at every setting of a suite, in one folder.

F/suite.json                 suite, size, rows, and the roots of all runs after they were played
F/PANEL/ROW/                 a run, as `mage eval --out` stores it, at K = 3 and protocol adaptive
F/PANEL-k10-paper/ROW/       the same at other settings
F/table.txt, F/table.tsv     tables computed from the runs, as is F/report.html
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import typer

from mage_envs.benchmarks.evaluation.run.agents import Agent, PolicyAgent, SavedModelAgent, make_agent
from mage_envs.benchmarks.evaluation.run.controls import controlled
from mage_envs.benchmarks.evaluation.run.dry_run import NOTE
from mage_envs.benchmarks.evaluation.run.dry_run import dry_run as expect
from mage_envs.benchmarks.evaluation.run.measuring import ending, measure
from mage_envs.benchmarks.evaluation.run.options import PlayOptions, TsvOption
from mage_envs.benchmarks.evaluation.run.preflight import Price
from mage_envs.benchmarks.evaluation.scoring.scores import score_of
from mage_envs.benchmarks.evaluation.suites.adapt import DISPLAY, cell_of
from mage_envs.benchmarks.evaluation.suites.panels import QUICK, Size, full_name, named_panel
from mage_envs.benchmarks.evaluation.suites.paper import (
    EPISODES,
    PROTOCOLS,
    SUITES,
    Length,
    ProtocolName,
    Suite,
    named_suite,
    reported_panel,
)
from mage_envs.benchmarks.evaluation.suites.pool_texts import has_description
from mage_envs.benchmarks.evaluation.suites.rows import SuiteRow, read_rows
from mage_envs.benchmarks.evaluation.suites.setting import Setting
from mage_envs.benchmarks.evaluation.suites.suite_table import (
    SuiteCell,
    latex_table,
    markdown_table,
    of_models,
    parts,
    table_rows,
    text_blocks,
    tsv,
)
from mage_envs.benchmarks.evaluation.tables import summary_table
from mage_envs.benchmarks.records.canonical import digest_of
from mage_envs.benchmarks.records.identity import OtherRun
from mage_envs.benchmarks.records.record_store import ROOT, RUN, SUITE, read_suite
from mage_envs.benchmarks.report.document import REPORT, can_write_reports, write_report
from mage_envs.benchmarks.report.runs import read_runs
from mage_envs.cli.commands import JsonOption, print_json
from mage_envs.cli.tables import as_text, print_report
from mage_envs.files.atomic import output_path, write_atomically, write_json
from mage_envs.files.bounded import read_json_inside
from mage_envs.files.locking import LOCK, FolderLock
from mage_envs.loading.imports import names_from
from mage_envs.opponents.registry import portable_spec
from mage_envs.text.visible import one_line


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
        more = "" if self.episodes == EPISODES[0] else f"-k{self.episodes}"
        return f"{self.panel}{more}" + ("" if self.protocol == PROTOCOLS[0] else f"-{self.protocol}")

    @property
    def folder(self) -> str:
        return f"{self.block}/{self.row.name}"

    def to_json(self) -> dict[str, Any]:
        """Return the entry of suite.json. The fingerprint is None if it depends on another run."""
        return {"folder": self.folder, "fingerprint": None if self.row.source else self.setting.fingerprint}

    def played_in(self, out: Path) -> Setting:
        """Return the setting to play. A run that it copies memories from must already be below `out`."""
        if self.row.source is None:
            return self.setting
        source = str(out / self.block / self.row.source)
        return controlled(self.setting, self.row.control or "other", source, isinstance(self.agent, PolicyAgent))


def short_names(suite: Suite) -> dict[str, str]:
    """Return for each panel the shortest prefix of its name, in whole words, that is unique in the suite.

    A first word `paper` does not count, because all panels of a suite of the paper have it. Panels with sizes of their
    own are named by their last word.
    """
    if not suite.sized:
        return {panel: panel.rpartition("-")[2] for panel in suite.panels}
    found = {}
    names = {panel: panel.removeprefix("paper-") for panel in suite.panels}
    for panel, name in names.items():
        words = name.split("-")
        heads = ("-".join(words[:count]) for count in range(1, len(words) + 1))
        others = [other for other in names.values() if other != name]
        unique = (h for h in heads if not any(o == h or o.startswith(f"{h}-") for o in others))
        # A name that begins another one, such as kuhn-cfr and kuhn-cfr-second, has no unique prefix.
        found[panel] = next(unique, name)
    return found


def planned(
    suite: Suite,
    rows: Sequence[SuiteRow],
    size: int | None = None,
    protocols: Sequence[str] | None = None,
    lengths: Sequence[int] | None = None,
    quick: bool = False,
) -> list[PlannedRun]:
    """Return all runs of a suite, setting by setting. Panels whose data are absent have none.

    Args:
        suite: Suite to play.
        rows: Rows to measure.
        size: Meta-episodes per panel (default: those of each panel).
        protocols: Protocols to play (default: those of the suite).
        lengths: Numbers of episodes to play (default: those of the suite).
        quick: True for a trial, in which generated data replace absent ones.

    Raises:
        ValueError: If a run cannot be played with its options, or if the source of a row does not play a panel.
    """
    found: list[PlannedRun] = []
    shorts = short_names(suite)
    for protocol in protocols or suite.protocols:
        for episodes in lengths or suite.lengths:
            for panel, note in _present(suite, quick).items():
                short = shorts[panel]
                for row in rows:
                    for cell in _planned(_sized(panel, note, size), short, row, protocol, episodes, note):
                        if row.source and f"{cell.block}/{row.source}" not in {one.folder for one in found}:
                            raise ValueError(f"Row {row.name} copies from {row.source}, which does not play {short}.")
                        found.append(cell)
    return found


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


def _sized(panel: str, note: str, size: int | None) -> str:
    """Return the name of the panel to play with its size: a stand-in if there is a reason for one."""
    played = named_panel(panel).stand_in if note else panel
    return full_name(played) if size is None else f"{played}-{size}"


def _planned(
    panel: str, short: str, row: SuiteRow, protocol: str, episodes: int, reason: str = ""
) -> Iterator[PlannedRun]:
    """Yield the run, or nothing if the row is not measured at this panel."""
    spec = row.agent_at(short)
    if spec is None:
        return
    agent, named = make_agent(spec, row.sampling), named_panel(panel)
    own: dict[str, Any] = {}
    if isinstance(agent, SavedModelAgent):
        if agent.settings.env_id != named.env_id:
            return
        own = named.kept_of(agent.settings.env_kwargs)
        if cell_of(panel) is not None:
            # The lines of a cell are those of its own game and rules, whatever the model was trained on.
            own = {key: value for key, value in own.items() if key in DISPLAY}
    options = {**own, **row.env_kwargs, "protocol": protocol, "num_episodes": episodes}
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
    setting = Setting(named, panel, options)
    if row.control is not None and row.source is None:
        setting = controlled(setting, row.control, None, by_policy=isinstance(agent, PolicyAgent))
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


# -- mage suite ------------------------------------------------------------------------------------------------


def command(
    suite: Annotated[str, typer.Argument(metavar="NAME", help=", ".join(SUITES))],
    rows: Annotated[
        Path,
        typer.Option(
            "--rows", "--columns", metavar="FILE", help="YAML file of the rows: name, agent, memory, and so on"
        ),
    ],
    options: PlayOptions,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", parser=output_path, help="Folder for the runs; required to play")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option(help="Print the expected calls, tokens and price, and call no model")
    ] = False,
    quick: Annotated[
        bool,
        typer.Option(
            help=f"Play a trial: {QUICK} tasks per panel at the suite's first setting; its scores are not results"
        ),
    ] = False,
    protocol: Annotated[
        ProtocolName | None, typer.Option(help="Play one protocol (default: those of the suite)")
    ] = None,
    num_episodes: Annotated[Length | None, typer.Option(help="Play one length (default: those of the suite)")] = None,
    size: Annotated[
        Size | None, typer.Option(help="Meta-episodes per panel (default: 128 in the paper's suites, else 512)")
    ] = None,
    table_format: Annotated[
        Literal["text", "markdown", "latex"], typer.Option("--format", help="Format of the table (default: text)")
    ] = "text",
    print_tsv: TsvOption = False,
    as_json: JsonOption = False,
) -> None:
    """Evaluate several agents and memories at all settings of a suite, next to the paper's reported scores.

    The exit status is the most severe one of mage eval.

    Example: mage suite paper-table1 --rows rows.yaml --quick --out runs/t1
    """
    # The author of a suite file may not be the user. It may name files, but no module that the user did not import.
    with names_from(rows, paths=True):
        found = named_suite(suite)
        shorts = short_names(found)
        read = read_rows(rows, tuple(shorts.values()))
        if size is not None and not found.sized:
            raise ValueError(f"The panels of {suite} have sizes of their own. Remove --size.")
        cells = planned(
            found,
            read,
            QUICK if quick else size,
            [protocol] if protocol else found.protocols[: 1 if quick else None],
            [num_episodes] if num_episodes else found.lengths[: 1 if quick else None],
            quick,
        )
        for panel, reason in absent_panels(found, quick).items():
            sys.stderr.write(f"{shorts[panel]}: n/a, {reason}\n")
        if not cells:
            raise ValueError(f"{rows}: no row plays any panel of {suite}.")
        if dry_run:
            _print_expectations(cells, options)
            return
        if out is None:
            raise ValueError("Name the folder for the runs with --out, or print what to expect with --dry-run.")
        plan = plan_of(suite, quick, read, cells)
        with FolderLock(out):
            begin(out, plan, options.resume)
            done, statuses = play_runs(cells, out, options)
            finish(out, plan, cells)
            names = list(dict.fromkeys(one.model or one.name for one in read))
            models = of_models(done, {one.name: one.model for one in read if one.model})
            tables = list(parts(suite, models, names, list(shorts.items())))
            # The files with all numbers have the row of each run, then those of the models.
            every = done + [one for one in models if one not in done]
            write_atomically(out / "table.txt", as_text(text_blocks(tables)))
            write_atomically(out / "table.tsv", tsv(every))
            known = {out / cell.folder: one.summary for cell, one in zip(cells, done, strict=True)}
            if can_write_reports():
                write_report(out / REPORT, read_runs(list(known), known=known))
    if as_json:
        print_json(table_rows(every))
    elif print_tsv:
        sys.stdout.write(tsv(every))
    elif table_format == "text":
        print_report(text_blocks(tables))
    else:
        sys.stdout.write(markdown_table(tables) if table_format == "markdown" else latex_table(tables))
    if (out / REPORT).exists():
        sys.stderr.write(f"wrote {out / REPORT}\n")
    if any(statuses):
        raise SystemExit(min(status for status in statuses if status))


class Expected(NamedTuple):
    """Expected size of several runs: sums of means, without an interval."""

    calls: float
    prompt_tokens: float
    reply_tokens: float
    price: float | None


def expected_size(cells: Sequence[PlannedRun], price: Price | None, write: Callable[[str], object]) -> Expected | None:
    """Return the expected size of runs from random play, without a call of a model; None if no agent is a model.

    Args:
        cells: Runs.
        price: Price of tokens, or None.
        write: Function that receives one line per run.
    """
    found = []
    for cell in cells:
        expected, count = expect(cell.agent, cell.setting, price), len(cell.setting.tasks)
        name = f"{cell.folder}, {one_line(cell.agent.name)}"
        if expected is None:
            write(f"{name}: {count:,} meta-episodes, no model\n")
            continue
        write(f"{name}: {expected.text(count, 1)}\n")
        parts = (expected.calls, expected.prompt_tokens, expected.reply_tokens, expected.price)
        found.append([count * part.mean if part else 0.0 for part in parts])
    if not found:
        return None
    calls, prompts, replies, cost = map(sum, zip(*found, strict=True))
    return Expected(calls, prompts, replies, None if price is None else cost)


def _print_expectations(cells: Sequence[PlannedRun], options: PlayOptions) -> None:
    """Print the expected size of each run, and their sums."""
    sys.stdout.write(f"{NOTE}\n\n")
    expected = expected_size(cells, options.price, sys.stdout.write) or Expected(0, 0, 0, None)
    cost = "" if options.price is None else f", price {expected.price or 0:,.2f}"
    sys.stdout.write(f"\nSum of the means, without an interval: {expected.calls:,.0f} calls{cost}\n")


def play_runs(cells: Sequence[PlannedRun], out: Path, options: PlayOptions) -> tuple[list[SuiteCell], list[int]]:
    """Play all runs in folders below `out`. Return their scores and exit statuses."""
    done, statuses = [], []
    for number, cell in enumerate(cells, start=1):
        sys.stderr.write(f"[{number}/{len(cells)}] {cell.folder}\n")
        folder = out / cell.folder
        setting = cell.played_in(out)
        measured = measure(replace(options, out=folder), cell.agent, setting, cell.spec)
        summary_table.save(folder, measured.summary, figure=False)
        statuses.append(ending(setting, measured))
        if measured.summary.overall.meta_episodes:
            score = summary_table.number(score_of(measured.summary))
            sys.stderr.write(f"[{number}/{len(cells)}] {cell.folder}: {score}\n")
        done.append(
            SuiteCell(
                panel=cell.panel,
                protocol=cell.protocol,
                episodes=cell.episodes,
                row=cell.row.name,
                summary=measured.summary,
                note=cell.note,
                reported=reported_for(setting),
            )
        )
    return done, statuses


def reported_for(setting: Setting) -> str | None:
    """Return the panel whose reported scores may be shown next to a run of the setting, or None."""
    options = setting.resolved
    return reported_panel(setting.name, setting.fingerprint, options["memory"], options["context"])


def plan_of(suite: str, quick: bool, rows: Sequence[SuiteRow], cells: Sequence[PlannedRun]) -> dict[str, Any]:
    """Return the contents of suite.json before anything is played."""
    return {
        "schema": 1,
        "suite": suite,
        "quick": quick,
        "rows": [_portable(asdict(row)) for row in rows],
        "runs": [cell.to_json() for cell in cells],
    }


def _portable(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row without the addresses of models, so that a suite resumes with other servers."""
    agent = row["agent"]
    named = portable_spec(agent) if isinstance(agent, str) else {key: portable_spec(one) for key, one in agent.items()}
    # Absent unless set, as in the plans of older suites.
    return {key: value for key, value in row.items() if key not in ("model", "pool") or value} | {"agent": named}


def begin(out: Path, plan: Mapping[str, Any], resume: bool) -> None:
    """Write the plan, or compare it with an existing one. Raise OtherRun if the folder holds anything else."""
    path = out / SUITE
    if path.exists() and next(out.rglob(RUN), None) is None:
        # A plan without any run can be replaced.
        path.unlink()
    if path.exists():
        if not resume:
            raise OtherRun(f"{out} already holds a suite. Continue it with --resume, or use another folder.")
        there = read_suite(out) or {}
        # The round trip through JSON turns tuples into lists, as they are in the stored plan.
        told = [key for key, value in json.loads(json.dumps(plan)).items() if _unplayed(there).get(key) != value]
        if told:
            raise OtherRun(f"{out} holds another suite: {', '.join(told)} differ. Use another folder.")
    elif {*out.iterdir()} - {out / LOCK}:
        raise OtherRun(f"{out} is not empty and holds no suite. Use another folder.")
    else:
        write_json(path, plan)


def _unplayed(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plan without the roots of its runs."""
    runs = [{key: one[key] for key in ("folder", "fingerprint")} for one in plan["runs"]]
    rows = [_portable(row) for row in plan["rows"]]
    return {key: value for key, value in plan.items() if key != "root"} | {"rows": rows, "runs": runs}


def finish(out: Path, plan: Mapping[str, Any], cells: Sequence[PlannedRun]) -> None:
    """Add the roots of the runs, and the digest of all roots, to the plan."""
    roots = [read_json_inside(out / cell.folder, ROOT)["root"] for cell in cells]
    runs = [{**one, "root": root} for one, root in zip(plan["runs"], roots, strict=True)]
    write_json(out / SUITE, {**plan, "runs": runs, "root": digest_of(roots)})
