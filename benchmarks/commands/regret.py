"""`mage regret`: exact cost of an agent's decisions, and its score without the luck of the cards.

The agent plays a panel, or the command reads the folder of a run that `mage eval --out` stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from mage_envs.benchmarks.evaluation.run.agents import SavedModelAgent, make_agent
from mage_envs.benchmarks.evaluation.run.evaluate import progress_of
from mage_envs.benchmarks.evaluation.run.options import ROWS, EnvOption, EvalOptions, PanelOption
from mage_envs.benchmarks.evaluation.suites.environments import game_of
from mage_envs.benchmarks.evaluation.suites.panels import full_name, named_panel, panel, weights_of
from mage_envs.benchmarks.evaluation.tables.summary_table import NOT_KNOWN, number
from mage_envs.benchmarks.exact import regret_parts
from mage_envs.benchmarks.exact.regret import EpisodeRegret, Horizon, RegretReport, StateRegret, regret, regret_of_run
from mage_envs.benchmarks.records.about import setting_of
from mage_envs.benchmarks.records.record_store import RUN, Records, reading
from mage_envs.cli.commands import GameOptions, JsonOption, print_result
from mage_envs.cli.tables import Block, TextTable
from mage_envs.core import Task
from mage_envs.opponents.exact import GT
from mage_envs.opponents.exact.bayes import CreditName
from mage_envs.registry import settings_of
from mage_envs.text.visible import one_line
from mage_envs.tree import is_enumerable
from mage_envs.wrappers.rollout.training_log import SETTINGS


def command(
    agent: Annotated[
        str,
        typer.Argument(
            metavar="AGENT",
            help="policy:NAME, scripted:first, model:FOLDER, llm:MODEL@URL, or the folder of a stored run",
        ),
    ],
    env: EnvOption = None,
    game_options: GameOptions = None,
    panel: PanelOption = None,
    opponents: Annotated[
        str | None, typer.Option(metavar="NAMES", help="Opponents, as in pool:kuhn/paper (default: the game's own)")
    ] = None,
    horizon: Annotated[
        Literal["hand", "meta"],
        typer.Option(help="Judge decisions by the rest of their hand (default) or of the meta-episode"),
    ] = "hand",
    credit: Annotated[
        Literal["sum", "mage", "last"] | None,
        typer.Option(help="Credit for the rest of the meta-episode, with --horizon meta (default: sum)"),
    ] = None,
    gt: Annotated[float | None, typer.Option(metavar="G", help=f"Discount of --credit mage (default: {GT})")] = None,
    rows: Annotated[
        int, typer.Option(metavar="N", min=1, help=f"Meta-episodes per opponent and seat (default: {ROWS})")
    ] = ROWS,
    seed: Annotated[int, typer.Option(metavar="S", help="Seed of the panel (default: 0)")] = 0,
    sampled: Annotated[
        bool, typer.Option(help="Judge the played actions, even if the agent knows its probabilities")
    ] = False,
    states: Annotated[int, typer.Option(metavar="N", help="Information states to print (default: 8)")] = 8,
    as_json: JsonOption = False,
) -> None:
    """Play an agent and print the exact cost of its decisions, and its score without the luck of the cards.

    The agent plays a panel, or its decisions are read from the folder of a run.

    Example: mage regret policy:kuhn/nash --env mage/KuhnPoker-Meta-v0 --rows 2
    """
    if panel is not None and opponents is not None:
        raise ValueError("--panel already names its opponents. Remove --opponents.")
    options = EvalOptions(agents=(agent,), env=env, game_options=game_options, panel=panel, rows=rows, seed=seed)
    # A folder that holds a saved model is an agent to play, even if it also holds a run.
    if (Path(agent) / RUN).exists() and not (Path(agent) / SETTINGS).exists():
        records = Records(Path(agent))
        with reading(records.folder):
            # Read inside the block, so that the error for a wrong flag names the folder.
            judged_horizon = _horizon(horizon, credit, gt)
            regret_report = _of_records(records, options, opponents, judged_horizon)
    else:
        judged_horizon = _horizon(horizon, credit, gt)
        regret_report = _of_agent(options, opponents, judged_horizon, scored=not sampled)
    print_result(asdict(regret_report), blocks(regret_report, states), as_json)


def _of_agent(options: EvalOptions, opponents: str | None, horizon: Horizon | None, *, scored: bool) -> RegretReport:
    """Return the regret of an agent, which plays the panel.

    Args:
        options: Options with one agent.
        opponents: Specification of a pool or an opponent, or None for the opponents of the panel or the game.
        horizon: Rest of the meta-episode as the horizon, or None to judge each decision by its hand alone.
        scored: True to query a model for the probabilities of the legal actions.
    """
    agent = make_agent(options.agents[0])
    model_settings = agent.settings if isinstance(agent, SavedModelAgent) else None
    fixed = {} if options.panel is None else dict(named_panel(options.panel).env_kwargs)
    env_kwargs = {**(model_settings.env_kwargs if model_settings else {}), **(options.game_options or {}), **fixed}
    tasks, weights = _choose_tasks(options, opponents, model_settings.env_id if model_settings else None, env_kwargs)
    return regret(
        agent,
        tasks,
        weights,
        env_kwargs,
        scored=scored,
        horizon=horizon,
        batch=options.batch,
        on_step=progress_of(agent.name),
    )


def _of_records(records: Records, options: EvalOptions, opponents: str | None, horizon: Horizon | None) -> RegretReport:
    """Return the regret of a stored run. Raise ValueError if other options contradict the run."""
    [name], setting = options.agents, setting_of(records.about)
    env_id = setting.panel.env_id
    if options.panel is not None and full_name(options.panel) != setting.name:
        named_panel(options.panel)
        raise ValueError(f"{name} was played on {setting.name}, not on {options.panel}. Remove --panel.")
    if options.env not in (None, env_id):
        raise ValueError(f"{name} was played in {env_id}, not in {options.env}. Remove --env.")
    if options.game_options is not None:
        raise ValueError(f"{name} already fixes the options it was played with. Remove --game-option.")
    weights = None if opponents is None else weights_of(opponents)
    return regret_of_run(records, weights, horizon=horizon, batch=options.batch, on_step=progress_of(name))


def _horizon(rest_of: str, credit: CreditName | None, gt: float | None) -> Horizon | None:
    """Return the horizon of --horizon, --credit and --gt; None for the rest of the hand."""
    if rest_of == "hand":
        for name, value in (("credit", credit), ("gt", gt)):
            if value is not None:
                raise ValueError(f"--{name} applies only to the rest of the meta-episode. Add --horizon meta.")
        return None
    if gt is not None and credit != "mage":
        raise ValueError("--gt is the discount of --credit mage. Add --credit mage, or remove --gt.")
    return Horizon(credit or "sum", GT if gt is None else gt)


def _choose_tasks(
    options: EvalOptions, opponents: str | None, env_id: str | None, env_kwargs: Mapping[str, Any]
) -> tuple[tuple[Task, ...], dict[str, float]]:
    """Return the tasks, and the weights of the pool to which their opponents belong."""
    if options.panel is not None:
        chosen_panel = named_panel(options.panel)
        env_id = options.env or env_id or chosen_panel.env_id
        if env_id != chosen_panel.env_id:
            raise ValueError(f"Panel {options.panel!r} is played in {chosen_panel.env_id}, not in {env_id}.")
        if not chosen_panel.weights():
            raise ValueError(f"Panel {options.panel!r} has no opponents, so its decisions have no exact regret.")
        return chosen_panel.tasks(), chosen_panel.weights()
    env_id = options.env or env_id
    if env_id is None:
        raise ValueError("Nothing to play. Use --env mage/KuhnPoker-Meta-v0 (or another -Meta-v0 id), or --panel NAME.")
    game = game_of(env_id, env_kwargs)
    if game.spec.players == 1 or not is_enumerable(game):
        raise ValueError(f"{game.title} has no enumerable tree with opponents, so it has no exact regret.")
    weights = weights_of(opponents or settings_of(game.spec.name).opponent)
    rows = ROWS if options.rows is None else options.rows
    return panel(env_id, tuple(weights), rows, options.seed or 0), weights


def blocks(regret_report: RegretReport, states: int) -> list[Block]:
    """Return the report as lines and tables."""
    how = "by its own probabilities" if regret_report.probabilities else "by what it played"
    omitted = f", {regret_report.left_out} left out" if regret_report.left_out else ""
    count = f"{regret_report.meta_episodes} meta-episodes{omitted}"
    title = f"{one_line(regret_report.agent)}: {regret_report.unit} per hand, {count}, judged {how}"
    columns = ["episode", "earned", "regret", "best", "luck-adjusted", "interval shorter by"]
    rows = [_episode(str(k), episode) for k, episode in enumerate(regret_report.episodes, start=1)]
    legend = "best: the best play of each hand under what the agent had learned; luck-adjusted: best - regret"
    if regret_report.whole is not None:
        rows.append(_episode(regret_report.credit, regret_report.whole))
        credit = regret_report.credit
        legend = f"regret: against the best play of the rest of the meta-episode, as {credit} counts it; last row: all"
    report: list[Block] = [title, TextTable(columns, rows), legend]
    if regret_report.parts is not None:
        report += ["", *regret_parts.blocks(regret_report.parts)]
    state_rows = [_state(state) for state in regret_report.states[:states]]
    columns = ["where it costs most", "episode", "regret", "visits", "played"]
    return [*report, "", TextTable(columns, state_rows)] if state_rows else report


def _episode(name: str, episode: EpisodeRegret) -> list[str]:
    factor = NOT_KNOWN if episode.narrower is None else f"{episode.narrower:.1f}"
    best = NOT_KNOWN if episode.available is None else number(episode.available)
    adjusted = regret_parts.format_estimate(episode.adjusted)
    return [
        name,
        regret_parts.format_estimate(episode.value),
        regret_parts.format_estimate(episode.regret),
        best,
        adjusted,
        factor,
    ]


def _state(state: StateRegret) -> list[str]:
    frequencies = " ".join(f"{action} {share:.2f}" for action, share in state.actions.items())
    name = state.information_state.replace("\n", " ")
    # The end of an information state holds the latest events, so the beginning is cut.
    name = name if len(name) <= 60 else "... " + name[-56:]
    return [name, str(state.episode + 1), regret_parts.format_estimate(state.regret), str(state.visits), frequencies]
