"""`mage-bench regret`: exact cost of an agent's decisions, and its score without the luck of the cards.

The agent plays a panel, or the command reads the folder of a run that `mage-bench eval --out` stored.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.evaluation.run.agents import SavedModelAgent, make_agent
from benchmarks.evaluation.run.environments import game_of
from benchmarks.evaluation.run.evaluate import progress_of
from benchmarks.evaluation.scoring.estimates import Estimate
from benchmarks.evaluation.suites import named_panel, panel, weights_of
from benchmarks.evaluation.suites.panels import full_name
from benchmarks.evaluation.tables.summary_table import NOT_KNOWN, aligned, number
from benchmarks.exact.regret import EpisodeRegret, Horizon, RegretReport, StateRegret, regret, regret_of_run
from benchmarks.records.about import setting_of
from benchmarks.records.record_store import RUN, Records, reading
from mage_envs.cli.json_options import read_object
from mage_envs.core import Task
from mage_envs.files.atomic import output_path, write_atomically
from mage_envs.registry import settings_of
from mage_envs.text.visible import one_line
from opponents.exact import GT
from opponents.exact.tree import is_enumerable
from trainer.backends.play_settings import FILE


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `mage-bench regret`."""
    parser.epilog = "Example: mage-bench regret policy:kuhn/nash --env mage/KuhnPoker-Meta-v0 --rows 2"
    forms = "policy:NAME, scripted:first, model:FOLDER, llm:MODEL@URL, or the folder of a stored run"
    parser.add_argument("agent", metavar="AGENT", help=forms)
    parser.add_argument("--env", metavar="ID", help="Id that ends with -Meta-v0 (default: a saved model's own)")
    parser.add_argument(
        "--env-kwargs", metavar="JSON", help="Options of the environment as JSON; they override a saved model's own"
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--panel", metavar="NAME", help="Named panel; mage-bench list shows all of them")
    which.add_argument("--pool", metavar="NAME", help="Registered pool (default: the game's own opponents)")
    parser.add_argument(
        "--horizon",
        choices=("hand", "meta"),
        default="hand",
        help="Judge decisions by the rest of their hand (default) or of the meta-episode",
    )
    parser.add_argument(
        "--credit",
        choices=("sum", "mage", "last"),
        help="Credit for the rest of the meta-episode, with --horizon meta (default: sum)",
    )
    parser.add_argument("--gt", type=float, metavar="G", help=f"Discount of --credit mage (default: {GT})")
    parser.add_argument(
        "--rows", type=int, default=64, metavar="N", help="Meta-episodes per opponent and seat (default: 64)"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="Seed of the panel (default: 0)")
    parser.add_argument(
        "--batch", type=int, default=256, metavar="N", help="Meta-episodes played concurrently (default: 256)"
    )
    parser.add_argument(
        "--sampled", action="store_true", help="Judge the played actions, even if the agent knows its probabilities"
    )
    parser.add_argument("--states", type=int, default=8, metavar="N", help="Information states to print (default: 8)")
    parser.add_argument("--json", type=output_path, metavar="FILE", help="Write all values to this file as JSON")


def run(arguments: argparse.Namespace) -> None:
    """Play the panel or read the run, judge the decisions, and write the tables to stdout."""
    if arguments.rows < 1 or arguments.batch < 1:
        raise ValueError("--rows and --batch must be at least 1.")
    if arguments.json is not None:
        # Fail before the play if the folder cannot be created.
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
    # A folder that holds a saved model is an agent to play, even if it also holds a run.
    if (Path(arguments.agent) / RUN).exists() and not (Path(arguments.agent) / FILE).exists():
        _finish(arguments, _of_run(arguments))
        return
    agent = make_agent(arguments.agent)
    own = agent.settings if isinstance(agent, SavedModelAgent) else None
    fixed = {} if arguments.panel is None else dict(named_panel(arguments.panel).env_kwargs)
    given = read_object("--env-kwargs", arguments.env_kwargs, '{"num_episodes": 5}')
    env_kwargs = {**(own.env_kwargs if own else {}), **given, **fixed}
    tasks, weights = _chosen(arguments, own.env_id if own else None, env_kwargs)
    found = regret(
        agent,
        tasks,
        weights,
        env_kwargs,
        scored=not arguments.sampled,
        horizon=_horizon(arguments),
        batch=arguments.batch,
        on_step=progress_of(agent.name),
    )
    _finish(arguments, found)


def _finish(arguments: argparse.Namespace, found: RegretReport) -> None:
    """Write the report to stdout, and to the file of --json if there is one."""
    if arguments.json is not None:
        write_atomically(arguments.json, json.dumps(asdict(found), indent=2) + "\n")
    sys.stdout.write("\n".join(lines(found, arguments.states)) + "\n")


def _of_run(arguments: argparse.Namespace) -> RegretReport:
    """Return the regret of a stored run. Raise ValueError if other options contradict the run."""
    records = Records(Path(arguments.agent))
    with reading(records.folder):
        return _of_records(arguments, records)


def _of_records(arguments: argparse.Namespace, records: Records) -> RegretReport:
    played = setting_of(records.about)
    env_id = played.panel.env_id
    if arguments.panel is not None and full_name(arguments.panel) != played.name:
        named_panel(arguments.panel)
        raise ValueError(f"{arguments.agent} was played on {played.name}, not on {arguments.panel}. Remove --panel.")
    if arguments.env not in (None, env_id):
        raise ValueError(f"{arguments.agent} was played in {env_id}, not in {arguments.env}. Remove --env.")
    if arguments.env_kwargs is not None:
        raise ValueError(f"{arguments.agent} already fixes the options it was played with. Remove --env-kwargs.")
    pool = None if arguments.pool is None else weights_of(f"pool:{arguments.pool.removeprefix('pool:')}")
    progress = progress_of(arguments.agent)
    return regret_of_run(records, pool, horizon=_horizon(arguments), batch=arguments.batch, on_step=progress)


def _horizon(arguments: argparse.Namespace) -> Horizon | None:
    """Return the horizon of --horizon, --credit and --gt; None for the rest of the hand."""
    if arguments.horizon == "hand":
        for name in ("credit", "gt"):
            if getattr(arguments, name) is not None:
                raise ValueError(f"--{name} applies only to the rest of the meta-episode. Add --horizon meta.")
        return None
    if arguments.gt is not None and arguments.credit != "mage":
        raise ValueError("--gt is the discount of --credit mage. Add --credit mage, or remove --gt.")
    return Horizon(arguments.credit or "sum", GT if arguments.gt is None else arguments.gt)


def _chosen(
    arguments: argparse.Namespace, env_id: str | None, env_kwargs: Mapping[str, Any]
) -> tuple[tuple[Task, ...], dict[str, float]]:
    """Return the tasks, and the weights of the pool to which their opponents belong."""
    if arguments.panel is not None:
        chosen = named_panel(arguments.panel)
        env_id = arguments.env or env_id or chosen.env_id
        if env_id != chosen.env_id:
            raise ValueError(f"Panel {arguments.panel!r} is played in {chosen.env_id}, not in {env_id}.")
        if not chosen.weights():
            raise ValueError(f"Panel {arguments.panel!r} has no opponents, so its decisions have no exact regret.")
        return chosen.tasks(), chosen.weights()
    env_id = arguments.env or env_id
    if env_id is None:
        raise ValueError("Nothing to play. Use --env mage/KuhnPoker-Meta-v0 (or another -Meta-v0 id), or --panel NAME.")
    game = game_of(env_id, env_kwargs)
    if game.spec.players == 1 or not is_enumerable(game):
        raise ValueError(f"{game.spec.name} has no enumerable tree with opponents, so it has no exact regret.")
    pool = settings_of(game.spec.name).opponent
    weights = weights_of(f"pool:{arguments.pool.removeprefix('pool:')}" if arguments.pool else pool)
    return panel(env_id, tuple(weights), arguments.rows, arguments.seed), weights


def lines(found: RegretReport, states: int) -> list[str]:
    """Return the report as lines of text."""
    how = "by its own probabilities" if found.probabilities else "by what it played"
    left = f", {found.left_out} left out" if found.left_out else ""
    title = f"{one_line(found.agent)}: {found.unit} per hand, {found.meta_episodes} meta-episodes{left}, judged {how}"
    columns = ["episode", "earned", "regret", "best", "luck-adjusted", "interval shorter by"]
    rows = [_episode(str(place), one) for place, one in enumerate(found.episodes, start=1)]
    told = "best: the best play of each hand under what the agent had learned; luck-adjusted: best - regret"
    if found.whole is not None:
        rows.append(_episode(found.credit, found.whole))
        told = (
            f"regret: against the best play of the rest of the meta-episode, as {found.credit} counts it; last row: all"
        )
    text = [title, *aligned(columns, rows), told]
    shown = [_state(one) for one in found.states[:states]]
    table = aligned(["where it costs most", "episode", "regret", "visits", "played"], shown)
    return [*text, "", *table] if shown else text


def _episode(name: str, one: EpisodeRegret) -> list[str]:
    factor = NOT_KNOWN if one.narrower is None else f"{one.narrower:.1f}"
    best = NOT_KNOWN if one.available is None else number(one.available)
    adjusted = NOT_KNOWN if one.adjusted is None else _shown(one.adjusted)
    return [name, _shown(one.value), _shown(one.regret), best, adjusted, factor]


def _state(one: StateRegret) -> list[str]:
    played = " ".join(f"{action} {share:.2f}" for action, share in one.actions.items())
    name = one.information_state.replace("\n", " ")
    # The end of an information state holds the latest events, so the beginning is cut.
    name = name if len(name) <= 60 else "... " + name[-56:]
    return [name, str(one.episode + 1), _shown(one.regret), str(one.visits), played]


def _shown(one: Estimate) -> str:
    if one.low is None or one.high is None:
        return number(one.mean)
    half = (one.high - one.low) / 2
    return f"{number(one.mean)} ± {half:.4f}"
