"""`Evaluation`: the result of an agent at one setting, which prints, plots and saves. Played, or read from a record.

result = mage_envs.evaluate(reply, "KuhnPoker", opponents="kuhn/conservative,kuhn/aggressive")
print(result)
result.plot("curve.png")
result.save("runs/kuhn")
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any, cast
from weakref import finalize

from mage_envs.benchmarks.evaluation.run.agents import Agent, make_agent
from mage_envs.benchmarks.evaluation.run.function_agent import FunctionAgent
from mage_envs.benchmarks.evaluation.run.options import EvalOptions
from mage_envs.benchmarks.evaluation.run.panel_setting import setting_from
from mage_envs.benchmarks.evaluation.scoring.scores import Summary
from mage_envs.benchmarks.evaluation.suites.panels import list_panels, named_panel
from mage_envs.benchmarks.evaluation.suites.setting import Setting
from mage_envs.benchmarks.evaluation.tables import layout, summary_table
from mage_envs.benchmarks.runs.measuring import Measured, load_trajectories, measure_judged, score
from mage_envs.cli.tables import Block, as_text
from mage_envs.loading.arguments import nearest_name
from mage_envs.loading.imports import without_module
from mage_envs.registry import find_env, list_games

if TYPE_CHECKING:
    from mage_envs.benchmarks.scale.judged_play import JudgedAgent


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Scores of an agent at one setting, with the folder of its records."""

    setting: Setting
    measured: Measured
    judged: JudgedAgent | None
    """Level and adaptation, or None if decisions cannot be judged there exactly."""
    folder: Path | None
    """Folder of the records, or None if they were not stored."""

    @property
    def summary(self) -> Summary:
        """Return the scores by opponent and episode."""
        return self.measured.summary

    def __str__(self) -> str:
        """Return what `mage eval` prints."""
        return as_text(self.blocks()).rstrip("\n")

    def blocks(self, wide: bool = False) -> list[Block]:
        """Return the sentence, one table and the warnings; all tables if `wide`."""
        summary, blocks = self.summary, list[Block]()
        if self.judged is not None:
            blocks += [f"{self.judged.sentence()}.", ""]
        blocks += layout.heading(summary)
        if self.judged is not None:
            blocks += ["", f"{summary.unit.capitalize()} per hand", *self.judged.blocks()]
        if wide:
            # Its last lines are the warnings.
            return [*blocks, "", *summary_table.blocks(summary), *layout.kinds(summary), *layout.failures(summary)]
        if self.judged is None:
            blocks += layout.means(summary)
        return [*blocks, *layout.failures(summary), *summary.overall.warnings()]

    def to_json(self) -> dict[str, Any]:
        """Return all values as JSON values, as `mage eval --json` prints them."""
        return self.summary.to_json() | ({} if self.judged is None else {"scale": self.judged.to_json()})

    def plot(self, path: str | Path) -> Path:
        """Draw the curve of each opponent beside the exact lines, as PNG, PDF or SVG. Return the path.

        Raises:
            ImportError: If matplotlib is not installed.
        """
        curves = None if self.judged is None else self.judged.curves()
        summary_table.adaptation_figure(path, self.summary, judged_curves=curves)
        return Path(path)

    def save(self, folder: str | Path) -> list[Path]:
        """Store the records in a folder with scores, figure and report. Return the written files.

        Raises:
            FileExistsError: If another folder with files is there.
        """
        folder = Path(folder)
        if self.folder is not None and folder.resolve() != self.folder.resolve():
            if folder.exists() and any(folder.iterdir()):
                raise FileExistsError(f"{folder} is not empty. Name another folder, or remove it.")
            shutil.copytree(self.folder, folder, dirs_exist_ok=True)
        # Imported here and below, because most evaluations need no report and no stored run.
        from mage_envs.benchmarks.report.document import REPORT, UNJUDGED, Heading, can_write_reports, write_report
        from mage_envs.benchmarks.report.runs import read_runs
        from mage_envs.benchmarks.scale.judged_play import describe_agents

        curves = None if self.judged is None else self.judged.curves()
        written = summary_table.save(folder, self.summary, judged_curves=curves)
        if can_write_reports():
            written.append(folder / REPORT)
            head = UNJUDGED if self.judged is None else Heading(*describe_agents([self.judged]))
            write_report(written[-1], read_runs([folder], summaries={folder: self.summary}), head=head)
        return written


def evaluate(
    agent: Agent | Callable[..., Any] | str,
    game: str,
    *,
    opponents: str | Sequence[str] | None = None,
    rows: int | None = None,
    seed: int | None = None,
    episodes: int | None = None,
    memory: str | None = None,
    controls: bool | None = None,
    options: Mapping[str, Any] | None = None,
    name: str | None = None,
    batch: int = EvalOptions.batch,
    out: str | Path | None = None,
    resume: bool = False,
) -> Evaluation:
    """Evaluate an agent as `mage eval` does.

    Args:
        agent: Function from a list of messages to a text, sync or async; class with such a method `reply`, of which
            each meta-episode has an instance; or the name of an agent, as `mage list agents` prints them.
        game: Game, environment id or panel, such as `KuhnPoker` or `kuhn-paper-128`.
        opponents: Opponents, or `pool:NAME` (default: those of the game). A panel has its own.
        rows: Meta-episodes per opponent and first seat (default: 64). A panel has its own.
        seed: Seed of the tasks (default: 0). A panel has its own.
        episodes: Episodes of a meta-episode (default: the environment's).
        memory: Memory of the environment, as `mage list memories` prints them (default: the environment's).
        controls: True to play the runs without memory and with another opponent's, too, which the verdict needs
            (default: only for a policy).
        options: Further options of the environment.
        name: Name of the agent in tables (default: its own).
        batch: Maximum number of meta-episodes in flight.
        out: Folder for the records (default: a temporary one, until `save`).
        resume: True to continue the run in `out`.

    Raises:
        ValueError: If an argument or their combination is wrong.
        RuntimeError: If every meta-episode failed.
    """
    if rows is not None and (type(rows) is not int or rows < 1):
        raise ValueError(f"rows must be a whole number of at least 1, got {rows!r}.")
    env_id, env_options = find_env(without_module(game))
    is_panel = "/" not in env_id
    if is_panel:
        _check_panel(game)
    if resume and out is None:
        raise ValueError("resume=True continues the run of a folder. Name it with out.")
    folder = Path(mkdtemp(prefix="mage-evaluate-") if out is None else out)
    made = as_agent(agent, name)
    eval_options = EvalOptions(
        agents=(made.name,),
        env=None if is_panel else env_id,
        panel=game if is_panel else None,
        game_options={**env_options, **(options or {})} or None,
        opponents=opponents if isinstance(opponents, str | None) else _as_text(opponents),
        rows=rows,
        seed=seed,
        episodes=episodes,
        memory=memory,
        controls=controls,
        batch=batch,
        out=folder,
        resume=resume,
    )
    try:
        evaluation = evaluate_at(eval_options, made, setting_from(eval_options, made))
    except BaseException:
        if out is None:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    if out is None:
        # The temporary folder lives as long as the result.
        finalize(evaluation, shutil.rmtree, folder, ignore_errors=True)
    return evaluation


def _as_text(opponents: Sequence[str]) -> str:
    """Return a list of opponents as one text, as `--opponents` takes it. Raises ValueError if it is empty."""
    if not opponents:
        raise ValueError("opponents must name an opponent. Leave it out for those of the game.")
    # Names with commas are separated by semicolons, which a single one needs at its end.
    has_commas = any("," in name for name in opponents)
    return "".join(f"{name};" for name in opponents) if has_commas else ",".join(opponents)


def _check_panel(name: str) -> None:
    """Raise ValueError if the name is that of no panel, and therefore neither of a game."""
    try:
        named_panel(name)
    except ValueError:
        hint = nearest_name(name, [*list_games(), *list_panels()])
        raise ValueError(
            f"{name!r} is neither a game, an environment id nor a panel.{hint} mage list prints all names."
        ) from None


def as_agent(agent: Agent | Callable[..., Any] | str, name: str | None = None) -> Agent:
    """Return an agent for a name, a function, a class, or an agent.

    Args:
        agent: The agent, or what it is made of.
        name: Name in records and tables (default: its own).
    """
    if isinstance(agent, str):
        return make_agent(agent, name=name)
    # A class of agents has the method too, but is not an agent itself.
    if not isinstance(agent, type) and hasattr(agent, "generator"):
        return cast(Agent, agent)
    return FunctionAgent(agent, name)


def evaluate_at(options: EvalOptions, agent: Agent, setting: Setting) -> Evaluation:
    """Return the result of an agent at a setting, with its records in `options.out` if that is set."""
    measured, judged = measure_judged(options, agent, setting)
    return Evaluation(setting=setting, measured=measured, judged=judged, folder=options.out)


def read_evaluation(folder: Path) -> Evaluation:
    """Return the result of a stored run, whatever played it.

    Raises:
        NoRun: If the folder holds no run.
        ValueError: If the run cannot be read or scored, or holds no meta-episode.
    """
    from mage_envs.benchmarks.records.about import setting_of
    from mage_envs.benchmarks.records.record_store import RUN, SUITE, NoRun, read_about, reading
    from mage_envs.benchmarks.scale.judged_play import judge_folder

    if not (folder / RUN).exists() and (folder / SUITE).exists():
        raise NoRun(f"{folder} holds the runs of a suite. Name one of them, or read all with mage adapt {folder}.")
    about = read_about(folder)
    with reading(folder):
        setting = setting_of(about)
        if not (trajectories := load_trajectories(folder)):
            raise ValueError(f"{folder} holds no finished meta-episode.")
        measured = score(EvalOptions(), about["agent"]["name"], setting, trajectories)
    return Evaluation(setting=setting, measured=measured, judged=judge_folder(folder), folder=folder)
