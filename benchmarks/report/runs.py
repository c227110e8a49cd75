"""Data of a report for each run, read from its records one run after the other."""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from sys import intern
from types import MappingProxyType
from typing import Any, NamedTuple

from mage_envs.benchmarks.canonical import digest_of
from mage_envs.benchmarks.evaluation.run.summary import summary_of
from mage_envs.benchmarks.evaluation.scoring.call_stats import without_texts
from mage_envs.benchmarks.evaluation.scoring.scores import ScoreRow, Summary, cluster_of, label, per_hand
from mage_envs.benchmarks.evaluation.suites.environments import game_of
from mage_envs.benchmarks.evaluation.suites.setting import Setting
from mage_envs.benchmarks.evaluation.tables.summary_table import SUMMARY, load
from mage_envs.benchmarks.records.about import identity_fields, setting_of
from mage_envs.benchmarks.records.record_store import ROOT, RUN, Shards, read_about, read_suite, reading, run_folders
from mage_envs.benchmarks.records.replay import replay
from mage_envs.benchmarks.report.blocks import Pages
from mage_envs.benchmarks.report.transcripts import outcomes, pack_transcript
from mage_envs.benchmarks.scale.decisions import Decision, decisions_of
from mage_envs.core import Game
from mage_envs.files.bounded import read_json_inside
from mage_envs.opponents.exact import Objective
from mage_envs.registry import headline
from mage_envs.text.parser import NO_TEXT
from mage_envs.text.visible import one_line
from mage_envs.wrappers.rollout.trajectory import EpisodeResult, Trajectory
from mage_envs.wrappers.rollout.trajectory_json import Line, trajectory_from_json

INVALID = "(no usable action)"


class Played(NamedTuple):
    """Meta-episode without its texts."""

    position: int
    """Index in the panel."""
    label: str
    """Group in the scores: the opponent or the category."""
    cluster: Hashable
    seat: int | None
    episodes: tuple[EpisodeResult, ...]
    outcomes: str
    failure: str | None
    calls: int
    invalid: int
    no_text: int
    """Number of calls for which the server sent no text. They do not count as invalid."""
    gain: float | None
    """Last episode minus first in the headline measure, or None if the meta-episode stopped early or failed."""


@dataclass(frozen=True, kw_only=True)
class ReportedRun:
    """Evaluated run with all data that the report shows."""

    key: str
    """Name in links: `run`, `run2` and so on."""
    folder: Path
    about: Mapping[str, Any]
    group: str
    """Key of comparable runs: equal if the tasks and all options except the memory are equal."""
    summary: Summary
    floors: tuple[ScoreRow, ...]
    meta_episodes: tuple[Played, ...]
    pages: Mapping[int, bytes]
    """Transcripts by index, as JSON."""
    choices: tuple[Counter[tuple[str, str]], ...]
    """Counts of (state, action) per episode."""
    tokens: tuple[int, int] | None
    seconds: float
    verified: str
    planned: int

    @property
    def method(self) -> str:
        """The agent, with its memory if there is one."""
        # A control names the run whose memories it reads; rows of the same control belong together.
        memory = re.sub(r"^(\w+)@\w+", r"\1", self.about["setting"]["options"]["memory"])
        name: str = self.about["agent"]["name"]
        return name if memory == "none" else f"{name} + {memory}"

    @property
    def setting(self) -> str:
        """The name of the setting, without the memory."""
        options = self.about["setting"]["options"]
        protocol = self.about["env_kwargs"].get("protocol", "adaptive")
        protocol_name = protocol if isinstance(protocol, str) else "own protocol"
        return f"{self.about['setting']['name']}, K = {options['num_episodes']}, {protocol_name}"

    @property
    def measure(self) -> str:
        """The name of the headline measure."""
        return "success" if self.summary.objective == "success" else f"{self.summary.unit} per hand"

    @property
    def failed(self) -> int:
        """Number of failed meta-episodes."""
        return sum(meta_episode.failure is not None for meta_episode in self.meta_episodes)

    @property
    def calls(self) -> int:
        """Number of calls of the agent."""
        return sum(meta_episode.calls for meta_episode in self.meta_episodes)

    @property
    def no_text(self) -> int:
        """Number of calls for which the server sent no text."""
        return sum(meta_episode.no_text for meta_episode in self.meta_episodes)


def folders_of(path: Path) -> list[Path]:
    """Return the run at a path, or all runs below it, in the order of the suite if there is one. Raise NoRun."""
    folders = run_folders(path)
    suite = None if folders == [path] else read_suite(path)
    planned = [] if suite is None else [path / run["folder"] for run in suite["runs"]]
    return sorted(folders, key=lambda folder: planned.index(folder) if folder in planned else len(planned))


def has_runs(path: Path) -> bool:
    """Return True if there is a run at a path or below it."""
    return (path / RUN).exists() or (path.is_dir() and next(path.rglob(RUN), None) is not None)


def read_runs(
    paths: Sequence[Path], sample: int = 0, summaries: Mapping[Path, Summary] = MappingProxyType({})
) -> list[ReportedRun]:
    """Read the runs at these paths and below them, grouped by setting.

    Args:
        paths: Folders of runs, or folders that contain runs.
        sample: Number of meta-episodes per run to replay.
        summaries: Scores by folder, if they were just computed from the same records.

    Raises:
        NoRun: If a path contains no run.
        ValueError: If a run has no records.
    """
    # A dict removes duplicates and keeps the order: paths may overlap.
    folders = list(dict.fromkeys(folder.resolve() for path in paths for folder in folders_of(path)))
    scores = {folder.resolve(): summary for folder, summary in summaries.items()}
    runs = [
        _read(folder, "run" if number == 0 else f"run{number + 1}", sample, scores.get(folder))
        for number, folder in enumerate(folders)
    ]
    groups = list(dict.fromkeys(run.group for run in runs))
    # The sort is stable, so runs of one setting keep their order.
    return sorted(runs, key=lambda run: groups.index(run.group))


def _read(folder: Path, key: str, sample: int, scored: Summary | None) -> ReportedRun:
    with reading(folder):
        return _build_run(folder, key, sample, scored)


def _build_run(folder: Path, key: str, sample: int, scored: Summary | None) -> ReportedRun:
    about = read_about(folder)
    setting = setting_of(about)
    game = game_of(setting.panel.env_id, setting.options)
    lines_by_index: dict[int, _Line] = {}
    decisions = decisions_of(folder)
    # Each line is reduced as it is read; the last line of an index replaces earlier ones.
    shards = Shards(folder, lambda line: lines_by_index.update({line["index"]: _reduce(line, game, decisions)}))
    if not lines_by_index:
        raise ValueError(f"{folder} has no record yet. Play it with mage eval … --out {folder} --resume.")
    lines = [line for _, line in sorted(lines_by_index.items())]
    summary = scored or summary_of(about["agent"]["name"], setting, [line.trajectory for line in lines])
    token_counts = [pair for line in lines for pair in line.tokens]
    return ReportedRun(
        key=key,
        folder=folder,
        about=about,
        group=digest_of(identity_fields(about)),
        summary=summary,
        floors=_floors(folder),
        meta_episodes=tuple(line.entry for line in lines),
        pages=Pages({line.entry.position: line.page for line in lines}),
        choices=_choices(lines),
        tokens=(sum(pair[0] for pair in token_counts), sum(pair[1] for pair in token_counts)) if token_counts else None,
        seconds=sum(sum(line.trajectory.seconds) for line in lines),
        verified=_describe_checks(shards, setting, sample),
        planned=shards.planned,
    )


class _Line(NamedTuple):
    """Data of one meta-episode for the report. All texts of a large run would not fit in memory."""

    entry: Played
    trajectory: Trajectory
    """Trajectory without texts."""
    page: bytes
    """Compressed transcript."""
    choices: tuple[tuple[int, str, str], ...]
    """Episode, state and action of each call of play."""
    tokens: tuple[tuple[int, int], ...]


def _reduce(line: Line, game: Game, decisions: Mapping[int, Sequence[Decision]]) -> _Line:
    trajectory = trajectory_from_json(line)
    plays = [call for call in line["calls"] if call["phase"] == "play"]
    states = [call["information_state"] or call["observation"] for call in plays]
    return _Line(
        entry=_build_entry(line, trajectory, game, headline(game)),
        trajectory=without_texts(trajectory),
        # Level 1 is fast; the file is compressed again in larger blocks.
        page=zlib.compress(pack_transcript(line, decisions.get(line["index"], ())), 1),
        # Interned, because the same states and actions occur in thousands of calls.
        choices=tuple(
            (call["episode"], intern(state), intern(call["action"] or INVALID))
            for call, state in zip(plays, states, strict=True)
        ),
        tokens=tuple((call["tokens"][0], call["tokens"][1]) for call in line["calls"] if call["tokens"] is not None),
    )


def _floors(folder: Path) -> tuple[ScoreRow, ...]:
    """Return the baselines from summary.json, or none if it does not exist. The records do not contain them."""
    try:
        return load(folder).floors
    except FileNotFoundError:
        return ()
    except ValueError as error:
        remedy = "remove it, or --resume the run"
        raise ValueError(f"{folder / SUMMARY} is not readable as a summary ({one_line(error)}); {remedy}.") from error


def _build_entry(line: Line, trajectory: Trajectory, game: Game, objective: Objective) -> Played:
    return Played(
        position=line["index"],
        label=label(trajectory),
        cluster=cluster_of(trajectory, game),
        seat=line["seat0"],
        episodes=trajectory.episodes,
        outcomes=outcomes(line),
        failure=line["failure"],
        calls=len(line["calls"]),
        invalid=sum(call["invalid_reason"] not in (None, *NO_TEXT) for call in line["calls"]),
        no_text=sum(call["invalid_reason"] in NO_TEXT for call in line["calls"]),
        gain=_gain(trajectory, objective),
    )


def _gain(trajectory: Trajectory, objective: Objective) -> float | None:
    episodes = trajectory.episodes
    if len(episodes) < max(trajectory.num_episodes, 2) or trajectory.failure is not None:
        return None
    if objective == "success":
        return float(episodes[-1].success) - float(episodes[0].success)
    return per_hand(episodes[-1]) - per_hand(episodes[0])


def _choices(lines: Sequence[_Line]) -> tuple[Counter[tuple[str, str]], ...]:
    choices: dict[int, Counter[tuple[str, str]]] = {}
    for line in lines:
        for episode, state, action in line.choices:
            choices.setdefault(episode, Counter())[state, action] += 1
    return tuple(choices[k] for k in sorted(choices))


def _describe_checks(shards: Shards, setting: Setting, sample: int) -> str:
    """Return a description of the checks of a run and their results."""
    description = f"{len(shards.kept)} digests"
    try:
        root = read_json_inside(shards.folder, ROOT)
        description += " and root agree" if root == shards.root() else "; root.json DISAGREES with the records"
    except (OSError, ValueError):
        description += " agree; no readable root.json"
    if setting.fingerprint != shards.about["fingerprint"]:
        description += "; its data or this version are OTHERS than those it was played with"
    if shards.problems:
        description += f"; {len(shards.problems)} lines are DAMAGED"
    if not sample:
        return f"{description}; not executed again"
    indices = sorted(shards.kept)
    count = min(sample, len(indices))
    # The shards are read a second time for the sample, because the first reading kept no texts.
    sampled_indices = {indices[k * len(indices) // count] for k in range(count)}
    sampled_lines: dict[int, Line] = {}
    Shards(
        shards.folder,
        lambda line: sampled_lines.update({line["index"]: line} if line["index"] in sampled_indices else {}),
    )
    mismatches = replay([line for _, line in sorted(sampled_lines.items())], setting)
    outcome = f"{len(mismatches)} of {count} came out OTHERWISE" if mismatches else "all as recorded"
    return f"{description}; {count} executed again, {outcome}"
