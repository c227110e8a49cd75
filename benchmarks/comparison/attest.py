"""Attestation: checks by the verifier's own play that the agent of a run played it.

A policy or a saved model is executed: it plays the recorded tasks again, and every reply must be the recorded one. A
model behind an endpoint is challenged, because its replies cannot be repeated: it plays new tasks, and its scores must
agree. The seed of the new tasks is drawn after the run was committed, so they could not be chosen.
"""

from __future__ import annotations

import math
import secrets
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, NamedTuple

from mage_envs.benchmarks.evaluation.run.agents import NO_MODEL, Agent, EndpointAgent, SavedModelAgent, make_agent
from mage_envs.benchmarks.evaluation.run.evaluate import evaluate, progress_of
from mage_envs.benchmarks.evaluation.run.hugging_face import HuggingFaceAgent
from mage_envs.benchmarks.evaluation.run.summary import summary_of
from mage_envs.benchmarks.evaluation.scoring.estimates import Estimate
from mage_envs.benchmarks.evaluation.suites.setting import Setting
from mage_envs.benchmarks.records.about import about_run, identity_of, setting_of
from mage_envs.benchmarks.records.identity import differences
from mage_envs.benchmarks.records.lines import encode_line
from mage_envs.benchmarks.records.record_store import SUITE, Records, Writer, reading, run_folders
from mage_envs.benchmarks.records.schema import AttestationRecord
from mage_envs.benchmarks.records.validate import problems
from mage_envs.benchmarks.scale.judged_play import folder_or_temporary, judge_run, scale_of_setting
from mage_envs.benchmarks.scale.scale import ROUNDING, ScaleScore
from mage_envs.benchmarks.scale.stored_suites import restore_sources
from mage_envs.core import Task
from mage_envs.files.bounded import read_json_inside
from mage_envs.loading.arguments import parse
from mage_envs.opponents.registry import portable_spec
from mage_envs.random.streams import SEED_BITS
from mage_envs.text.visible import one_line
from mage_envs.wrappers.rollout.line_schema import problems_of
from mage_envs.wrappers.rollout.trajectory import Trajectory

VERSION = 1
"""Version of the schema of an attestation."""
ROWS = 8
"""Default number of meta-episodes of a challenge per opponent and first seat."""
Z_99 = 2.576
Z_95 = 1.96
"""Half width of a normal 99% and 95% interval in standard errors."""
Method = Literal["executed", "challenged"]


@dataclass(frozen=True, kw_only=True)
class Attestation:
    """The verifier's statement on a run."""

    schema: int = VERSION
    root: str
    """Root digest of the run."""
    fingerprint: str
    agent: str
    method: Method
    agreed: bool
    meta_episodes: int
    """Number of meta-episodes that the verifier played."""
    equal: int | None = None
    """Number of executed meta-episodes that equal the records, byte for byte."""
    nonce: str | None = None
    """Random text of the verifier. With the root, it gives the seed of a challenge (`challenge_seed`)."""
    measure: str | None = None
    """What a challenge compares: `level` if decisions can be judged exactly, else `last episode`."""
    recorded: float | None = None
    """Mean of the measure in the records, for a challenge."""
    found: float | None = None
    """Mean of the measure in the challenge."""
    half: float | None = None
    """Half of the 99% interval of the difference of both means."""

    def text(self) -> str:
        """Return the statement in one line."""
        name = f"{one_line(self.agent)}, root {self.root[:12]}"
        if self.method == "executed":
            return f"{name}: executed, {self.equal} of {self.meta_episodes} meta-episodes equal the records"
        verdict = "agrees with" if self.agreed else "contradicts"
        return (
            f"{name}: challenged on {self.meta_episodes} new meta-episodes, {self.measure} {self.found:.3f}, which "
            f"{verdict} the recorded {self.recorded:.3f} (99% interval of the difference: ±{self.half:.3f})"
        )


def challenge_seed(root: str, nonce: str) -> int:
    """Return the seed of a challenge. Neither side can choose it, because it depends on the root and on the nonce."""
    number = int(sha256(f"{root} {nonce}".encode()).hexdigest(), 16)
    # A shift instead of `2**SEED_BITS`, whose type mypy does not know.
    return number & ((1 << SEED_BITS) - 1)


def attest(
    folder: Path, agent: str | None = None, *, out: Path | None = None, sample: int | None = None, rows: int = ROWS
) -> Attestation:
    """Play for a run as its verifier, and return the statement.

    Args:
        agent: Specification of the agent. Required for a model, whose folder or server only the verifier names.
        out: Folder for the records of a challenge, or None to keep none.
        sample: Number of meta-episodes to execute again, evenly spread (default: all).
        rows: Meta-episodes of a challenge per opponent and first seat.

    Raises:
        ValueError: If the run is not valid, if the agent is another one, or if there is nothing to compare.
    """
    if wrong := problems(folder):
        raise ValueError(f"{folder} is not valid: {wrong[0]}; mage verify {folder} prints all problems.")
    records = Records(folder)
    # All play is inside, because names in the record must resolve to registered ones only.
    with reading(folder):
        setting = setting_of(records.about)
        recorded = records.about["agent"]
        if agent is None and parse(recorded["name"]).name not in NO_MODEL:
            raise ValueError(
                f"{recorded['name']} is a model. Name your copy with --agent, as in model:FOLDER or llm:MODEL@URL."
            )
        player = make_agent(agent or recorded["name"], recorded.get("sampling") or None)
        check_agent(folder, recorded, player, setting)
        if isinstance(player, EndpointAgent):
            return challenge_agent(records, setting, player, out, rows)
        return replay_agent(records, setting, player, sample)


def check_agent(folder: Path, recorded: Mapping[str, Any], player: Agent, setting: Setting) -> None:
    """Raise ValueError if the verifier's agent is not the one of the run, as far as both are known."""
    if isinstance(player, EndpointAgent):
        player.look_up(setting.game_name)
    current = identity_of(player, setting.game_name)
    # A model is identified by its files or by the served id, and its folder may have any name.
    by_name = not isinstance(player, SavedModelAgent | HuggingFaceAgent)
    keys = ["content", "model", "request", *(["name"] if by_name and not isinstance(player, EndpointAgent) else [])]
    for key in keys:
        if key in recorded or key in current:
            for path, theirs, ours in differences(recorded.get(key), current.get(key), key):
                raise ValueError(f"{folder} was played by another agent: {path} is {theirs!r} there and {ours!r} here.")
    if isinstance(player, EndpointAgent) and portable_spec(player.name).partition(",")[0] != recorded["name"]:
        # A run may have any --name; the model that it requested is compared above.
        sys.stderr.write(f"mage: the run calls its agent {one_line(recorded['name'])}\n")


def replay_agent(records: Records, setting: Setting, player: Agent, sample: int | None) -> Attestation:
    """Return the statement on an agent that plays the recorded tasks again.

    Args:
        sample: Number of meta-episodes, or None for all.
    """
    # A retry has another sampling key, and a failure may have been the machine's.
    lines = [line for _, line in sorted(records.lines.items()) if line["failure"] is None and not line["retries"]]
    if not lines:
        raise ValueError(f"{records.folder} has no meta-episode to play again.")
    count = len(lines) if sample is None else min(sample, len(lines))
    sampled_lines = [lines[k * len(lines) // count] for k in range(count)]
    tasks = [Task(**line["task"]) for line in sampled_lines]
    trajectories = evaluate(player, tasks, setting.options, on_step=progress_of(player.name))
    equal = sum(
        encode_line(line["index"], trajectory).digest == line["digest"]
        for line, trajectory in zip(sampled_lines, trajectories, strict=True)
    )
    return Attestation(
        root=records.root()["root"],
        fingerprint=records.about["fingerprint"],
        agent=records.about["agent"]["name"],
        method="executed",
        agreed=equal == count,
        meta_episodes=count,
        equal=equal,
    )


def challenge_agent(records: Records, setting: Setting, player: Agent, out: Path | None, rows: int) -> Attestation:
    """Return the statement on an agent that plays new tasks of the same setting.

    Args:
        out: Folder for the records of the challenge, or None.
        rows: Meta-episodes per opponent and first seat.

    Raises:
        ValueError: If the tasks are a fixed list.
    """
    if setting.panel.ids is not None or not setting.panel.weights():
        raise ValueError(f"{setting.name} is a fixed list of tasks, so no new ones can be drawn for a challenge.")
    root, nonce = records.root()["root"], secrets.token_hex(16)
    seed = challenge_seed(root, nonce)
    panel = replace(setting.panel, seed=seed, rows_per_cell=rows, size=0, about="")
    new = Setting(panel, f"challenge of {root[:12]}", setting.env_kwargs)
    with folder_or_temporary(None if out is None else out / f"challenge-{root[:12]}") as folder:
        writer = Writer(folder, about_run(player, new), resume=False)
        trajectories = evaluate(
            player, new.tasks, new.options, on_step=progress_of(player.name), on_finished=writer.add
        )
        writer.close()
        measure, (recorded, challenge) = _compare_with_challenge(records, setting, Records(folder), new)
    half, agreed = compare_means(recorded, challenge)
    return Attestation(
        root=root,
        fingerprint=records.about["fingerprint"],
        agent=records.about["agent"]["name"],
        method="challenged",
        agreed=agreed,
        meta_episodes=len(trajectories),
        nonce=nonce,
        measure=measure,
        recorded=recorded.mean,
        found=challenge.mean,
        half=half,
    )


class ComparedMean(NamedTuple):
    """Mean of a measure, and half of its 95% interval."""

    mean: float
    half: float


def compare_means(recorded: ComparedMean, challenge: ComparedMean) -> tuple[float, bool]:
    """Return half of the 99% interval of the difference of two means, and True if it contains 0."""
    half = math.hypot(recorded.half, challenge.half) * Z_99 / Z_95
    # A player without luck in its level has the same one in both, up to rounding.
    return half, abs(recorded.mean - challenge.mean) <= half + ROUNDING


def level_mean(level: ScaleScore | None) -> ComparedMean | None:
    """Return a level with half of its interval, or None if it has none, or if meta-episodes failed."""
    if level is None or not level.is_complete or level.high is None:
        return None
    # The upper end has no allowance for slips that were not seen.
    return ComparedMean(level.mean, level.high - level.mean)


def _compare_with_challenge(
    records: Records, setting: Setting, challenge: Records, new: Setting
) -> tuple[str, tuple[ComparedMean, ComparedMean]]:
    """Return what is compared, and its mean in the records and in the challenge.

    The level is luck-adjusted, so it tells players apart that raw values of a few episodes do not.

    Raises:
        ValueError: If one of them has no interval, or if meta-episodes failed in a judged setting.
    """
    scale = scale_of_setting(setting)
    if scale is None:
        estimates = [
            estimate
            for run_setting, run in ((setting, records), (new, challenge))
            if (estimate := _last(run_setting, run.trajectories())).half is not None
        ]
        measured = [ComparedMean(estimate.mean, estimate.half or 0.0) for estimate in estimates]
    else:
        levels = [
            judge_run(run, run_setting, scale).level() for run_setting, run in ((setting, records), (new, challenge))
        ]
        measured = [mean for level in levels if (mean := level_mean(level)) is not None]
    if len(measured) < 2:
        raise ValueError(
            "Both the run and the challenge need an interval and no failures. Use more --rows, or --resume."
        )
    return "last episode" if scale is None else "level", (measured[0], measured[1])


def _last(setting: Setting, trajectories: Sequence[Trajectory]) -> Estimate:
    """Return the measure of the last episode over all opponents."""
    summary = summary_of("", setting, trajectories)
    return summary.overall.episodes[-1].measure(summary.objective).estimate


def attestations_in(folder: Path) -> dict[str, Attestation]:
    """Return the verifier's statements in a folder by the root of their run. Raise ValueError if one is malformed."""
    return {attestation.root: attestation for attestation in _read(folder)}


def _read(folder: Path) -> Iterator[Attestation]:
    if not folder.is_dir():
        raise ValueError(f"{folder} is no folder of attestations. Use mage verify RUN --challenge --out {folder}.")
    for path in sorted(folder.glob("*.json")):
        fields = read_json_inside(folder, path.name)
        if problem := next(problems_of(AttestationRecord, fields), None):
            raise ValueError(f"{path} is no attestation ({problem}).")
        yield Attestation(**fields)


def runs_to_attest(folder: Path) -> list[Path]:
    """Return the runs of a folder or of a suite. The memories that runs of a suite copy are restored first."""
    if (folder / SUITE).exists():
        restore_sources(folder)
    return run_folders(folder)
