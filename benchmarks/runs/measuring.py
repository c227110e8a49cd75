"""Play of one agent at one setting with its records, and its level and adaptation if decisions can be judged."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mage_envs.benchmarks.evaluation.run.agents import (
    Agent,
    EndpointAgent,
    PolicyAgent,
    SavedModelAgent,
    keeps_state,
)
from mage_envs.benchmarks.evaluation.run.baselines import baseline_rows
from mage_envs.benchmarks.evaluation.run.budget import Limits
from mage_envs.benchmarks.evaluation.run.evaluate import (
    account,
    evaluate,
    failure_log_in,
    is_out_of_budget,
    progress_of,
)
from mage_envs.benchmarks.evaluation.run.hugging_face import HuggingFaceAgent
from mage_envs.benchmarks.evaluation.run.options import EvalOptions, PlayOptions
from mage_envs.benchmarks.evaluation.run.preflight import CutReplies, Preflight
from mage_envs.benchmarks.evaluation.run.summary import summary_of
from mage_envs.benchmarks.evaluation.scoring.call_stats import without_texts
from mage_envs.benchmarks.evaluation.scoring.scores import Summary, label
from mage_envs.benchmarks.evaluation.suites.setting import Setting
from mage_envs.benchmarks.executors.jobs import Executor
from mage_envs.benchmarks.executors.naming import make_executor
from mage_envs.benchmarks.executors.on_this_machine import Local
from mage_envs.benchmarks.records.about import about_run, identity_of
from mage_envs.cli.commands import describe_error
from mage_envs.text.visible import one_line
from mage_envs.wrappers.rollout.trajectory import Trajectory
from mage_envs.wrappers.rollout.trajectory_json import trajectory_from_json

if TYPE_CHECKING:
    from mage_envs.benchmarks.records.record_store import Writer
    from mage_envs.benchmarks.scale.judged_play import JudgedAgent


class Measured(NamedTuple):
    """The result of an agent at a setting."""

    summary: Summary
    trajectories: Sequence[Trajectory]
    limits: Limits


def measure(options: PlayOptions, agent: Agent, setting: Setting, spec: str) -> Measured:
    """Play the meta-episodes of the setting that are not in `options.out` yet, and score all of them.

    Args:
        spec: Specification of the agent, from which workers make it.

    Raises:
        RuntimeError: If no meta-episode was played.
        ValueError: If an option is out of range.
    """
    executor = _executor(options)
    limits = Limits(**(options.budget or {}))
    if isinstance(agent, EndpointAgent):
        agent.look_up(setting.game_name)
    about = about_run(agent, setting)
    writer: Writer | None = None
    if options.out is not None:
        from mage_envs.benchmarks.records.record_store import Writer

        writer = Writer(options.out, about, options.resume)
    if isinstance(executor, Local):
        play = partial(_play, options, agent, setting, limits)
    else:
        play = partial(_play_spread, options, executor, spec, about)
    if writer is None:
        trajectories = play(range(len(setting.tasks)), None)
    else:
        for problem in writer.problems:
            sys.stderr.write(f"{options.out}: {problem}; playing it again, the old shard is kept\n")
        _keep(writer, play, partial(_add, writer, agent, setting.game_name))
        # Scoring the stored records gives a resumed run the same tables as an uninterrupted one.
        trajectories = load_trajectories(writer.folder) if writer.kept else []
    if not trajectories:
        raise RuntimeError(f"Nothing was played: {limits.spent() or 'no worker returned a meta-episode'}.")
    return score(options, agent.name, setting, trajectories, limits)


def score(
    options: PlayOptions,
    name: str,
    setting: Setting,
    trajectories: Sequence[Trajectory],
    limits: Limits | None = None,
) -> Measured:
    """Return the scores of played meta-episodes, beside those of the setting's baselines.

    Args:
        options: Options of the play, which the baselines share.
        name: Name of the agent.
        setting: Panel and options.
        trajectories: Meta-episodes in the panel's order.
        limits: Limits of the calls, if there were some.
    """
    floors = baseline_rows(setting, partial(_play_baseline, options)) if options.baselines else ()
    summary = replace(summary_of(name, setting, trajectories), floors=floors)
    return Measured(summary, trajectories, Limits() if limits is None else limits)


def load_trajectories(folder: Path) -> list[Trajectory]:
    """Return all meta-episodes of a run in the panel's order, with the fields that tables read."""
    from mage_envs.benchmarks.records.record_store import Shards

    trajectories: dict[int, Trajectory] = {}
    shards = Shards(
        folder, lambda line: trajectories.update({line["index"]: without_texts(trajectory_from_json(line))})
    )
    if lost := [*shards.unreadable, *(problem for problem in shards.problems if problem.line)]:
        # Without these lines the scores would be wrong.
        raise ValueError(f"{folder}: {lost[0]}. All meta-episodes were stored; use --resume when it can be read.")
    return [trajectory for _, trajectory in sorted(trajectories.items())]


def _add(writer: Writer, agent: Agent, game_name: str, index: int, trajectory: Trajectory) -> None:
    """Store a meta-episode. Raise OtherRun if the agent's server has changed its model since the last one."""
    if isinstance(agent, EndpointAgent):
        writer.confirm(identity_of(agent, game_name))
    elif isinstance(agent, SavedModelAgent | HuggingFaceAgent):
        writer.note_replies(agent.replies)
    writer.add(index, trajectory)


def _keep(writer: Writer, play: Callable[..., list[Trajectory]], add: Callable[[int, Trajectory], None]) -> None:
    """Play the missing meta-episodes of a run. If this fails, report on stderr how many are stored."""
    try:
        play(writer.todo, add)
        writer.close()
    except BaseException as error:
        # If the disk is full, this fails, too. The error that is raised below already reports it.
        with suppress(OSError):
            writer.give_up()
        progress = f"{writer.safe} of {writer.planned} meta-episodes are kept"
        if isinstance(error, KeyboardInterrupt):
            sys.stderr.write(f"\nInterrupted: {progress}; the same command with --resume continues the run.\n")
            raise SystemExit(130) from None
        if isinstance(error, OSError | CutReplies) and writer.kept:
            raise RuntimeError(
                f"{describe_error(error)} {progress}; the same command with --resume continues the run."
            ) from error
        raise


def _play_baseline(options: PlayOptions, agent: Agent, setting: Setting) -> list[Trajectory]:
    """Play the policy of a baseline with the options of the agent, but without the limits, which are for models."""
    return evaluate(
        agent,
        setting.tasks,
        setting.options,
        batch=options.batch,
        workers=options.env_workers,
        env_timeout=options.env_timeout,
        memory_gb=options.env_memory_gb,
        on_step=progress_of(agent.name),
        reduce=without_texts,
    )


def _play(
    options: PlayOptions,
    agent: Agent,
    setting: Setting,
    limits: Limits,
    todo: Sequence[int],
    add: Callable[[int, Trajectory], None] | None,
) -> list[Trajectory]:
    """Play the tasks at the indices `todo` of the panel.

    `add` receives each meta-episode that finished within the budget.
    """
    if not todo:
        return []
    progress = progress_of(agent.name)
    stored = len(setting.tasks) - len(todo)
    finished = stored
    preflight = None
    if isinstance(agent, EndpointAgent):
        slots = min(agent.slots, options.batch)
        preflight = Preflight(agent.name, len(todo), slots, price=options.price, allow_cut=options.allow_cut)

    def keep(slot: int, trajectory: Trajectory) -> None:
        nonlocal finished
        if is_out_of_budget(trajectory):
            return
        finished += 1
        if add is not None:
            add(todo[slot], trajectory)
        if preflight is not None:
            preflight.add(slot, trajectory)

    with failure_log_in(options.out) as failure_log:
        trajectories = evaluate(
            agent,
            [setting.tasks[index] for index in todo],
            setting.options,
            # `collect` starts every slot at once, so the number of slots must respect the budget before the first call.
            batch=limits.slots(options.batch, setting.most_calls // len(setting.tasks)),
            workers=options.env_workers,
            env_timeout=options.env_timeout,
            memory_gb=options.env_memory_gb,
            # Meta-episodes that a limit ended are not finished, although `collect` is done with them.
            on_step=lambda count, total: progress(finished, len(setting.tasks), stored, limits.tokens),
            on_finished=keep,
            reduce=without_texts,
            limits=limits,
            failure_log=failure_log,
            resumed=stored > 0,
        )
    return [trajectory for trajectory in trajectories if not is_out_of_budget(trajectory)]


def _executor(options: PlayOptions) -> Executor:
    """Return the executor. Raise ValueError if an option requires a single process."""
    executor = make_executor(options.executor)
    for name in ("budget", "env_workers", "env_memory_gb"):
        if vars(options)[name] and not isinstance(executor, Local):
            raise ValueError(
                f"--{name.replace('_', '-')} requires a single process, but --executor {options.executor} uses "
                "several. Remove one of them."
            )
    return executor


def _play_spread(
    options: PlayOptions,
    executor: Executor,
    spec: str,
    about: Mapping[str, Any],
    todo: Sequence[int],
    add: Callable[[int, Trajectory], None] | None,
) -> list[Trajectory]:
    """Play like `_play`, but with an executor of several processes. The pieces of lost workers count as not played."""
    if not todo:
        return []
    from mage_envs.benchmarks.runs.distributed import play_spread

    progress = progress_of(about["agent"]["name"])
    planned = about["setting"]["meta_episodes"]
    stored = planned - len(todo)
    trajectories: list[Trajectory] = []

    def keep(index: int, trajectory: Trajectory) -> None:
        trajectories.append(without_texts(trajectory))
        if add is not None:
            add(index, trajectory)
        progress(len(trajectories) + stored, planned, stored)

    with failure_log_in(options.out) as failure_log:
        lost = play_spread(executor, spec, about, todo, keep, batch=options.batch, env_timeout=options.env_timeout)
        if trajectories:
            account(trajectories, about["agent"]["name"], failure_log, resumed=stored > 0)
    sys.stderr.write("".join(f"mage: {one_line(reason)}\n" for reason in lost))
    return trajectories


def ending(setting: Setting, measured: Measured) -> int:
    """Report missing and failed meta-episodes on stderr.

    Returns:
        1 if an opponent has no scores, 3 if any meta-episode failed or was not played, else 0.
    """
    summary, trajectories, limits = measured
    if unscored := [row.opponent or "all" for row in summary.rows if not row.meta_episodes]:
        first_failure = next(t.failure for t in trajectories if (label(t) or "all") == unscored[0])
        sys.stderr.write(
            f"mage: no meta-episode of {', '.join(unscored)} could be played; the first: {one_line(first_failure)}\n"
        )
        return 1
    missing = len(setting.tasks) - len(trajectories)
    if missing:
        # Of a stored run, nobody knows why.
        reason = limits.spent() or "the budget is spent, their workers were lost, or their loop has ended"
        remedy = "--resume plays them" if limits.spent() else "--resume plays them, or the same loop again"
        sys.stderr.write(f"mage: {missing} meta-episodes were not played: {reason}; {remedy}\n")
    failed = [t.failure for t in trajectories if t.failure is not None]
    if failed:
        sys.stderr.write(f"mage: {len(failed)} meta-episodes failed; the first: {one_line(failed[0])}\n")
    return 3 if missing or failed else 0


def measure_judged(
    options: EvalOptions, agent: Agent, setting: Setting, states: int | None = None
) -> tuple[Measured, JudgedAgent | None]:
    """Measure an agent, and judge its decisions if this is possible exactly.

    A policy also plays the controls of the verdict, and a model if the user asks for it.

    Args:
        states: Maximum number of belief states of a judged setting (default: `judged_play.STATES`).
    """
    spec = options.agents[0]
    # Against a single opponent, memory of earlier episodes is worth nothing.
    if len(setting.panel.weights()) < 2:
        if options.controls:
            sys.stderr.write("No controls are played: they need two opponents or more (--opponents A,B).\n")
        return measure(options, agent, setting, spec), None
    # Imported here, because most evaluations cannot be judged.
    from mage_envs.benchmarks.records.control_runs import CONTROLS, control_folder
    from mage_envs.benchmarks.records.identity import OtherRun
    from mage_envs.benchmarks.records.record_store import RUN, Records
    from mage_envs.benchmarks.scale.judged_play import (
        STATES,
        JudgedAgent,
        can_be_controlled,
        control_settings,
        folder_or_temporary,
        judge_run,
        scale_of_setting,
    )

    scale = None
    if options.control is None and not options.elicit and options.executor == "local":
        scale = scale_of_setting(setting, states or STATES)
    if scale is None:
        return measure(options, agent, setting, spec), None
    with folder_or_temporary(options.out) as folder:
        # A link is refused before anything is played.
        paths = {name: control_folder(folder, name) for name in CONTROLS}
        measured = measure(replace(options, out=folder), agent, setting, spec)
        runs = {"": judge_run(Records(folder), setting, scale)}
        free = isinstance(agent, PolicyAgent)
        # The memory of a custom object cannot be named in the setting of a control.
        if options.controls or (options.controls is None and free and can_be_controlled(setting)):
            opponents = {setting.tasks[index].opponent for index in runs[""].values}
            controls = control_settings(
                setting, folder, by_policy=free, own_memory=keeps_state(agent), has_other=len(opponents) > 1
            )
            for name, changed in controls:
                # Kept beside the run, so that `mage report` has the same verdict.
                path, control_options = paths[name], replace(options, out=paths[name], baselines=False)
                try:
                    measure(control_options, agent, changed, spec)
                except OtherRun:
                    # The memories that a control copies change if the main run was resumed. A policy plays it again.
                    if not free or not options.resume or not (path / RUN).exists():
                        raise
                    shutil.rmtree(path)
                    measure(control_options, agent, changed, spec)
                runs[name] = judge_run(Records(path), changed, scale)
        return measured, JudgedAgent(agent=measured.summary.agent, scale=scale, runs=runs)
