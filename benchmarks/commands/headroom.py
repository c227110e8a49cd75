"""`mage headroom`: exact value of memory of earlier episodes, and of exploration across them, in a game."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from mage_envs.benchmarks.evaluation.tables.summary_table import NOT_KNOWN, number
from mage_envs.benchmarks.exact import headroom_table, transfer_table
from mage_envs.benchmarks.exact.ceilings import ceilings as exact_ceilings
from mage_envs.benchmarks.exact.headroom_figure import draw, draw_table
from mage_envs.benchmarks.exact.headroom_table import interval_text, row_cells, solve_rows
from mage_envs.benchmarks.executors.jobs import Executor
from mage_envs.benchmarks.executors.naming import ExecutorOption, make_executor
from mage_envs.benchmarks.executors.on_this_machine import Local
from mage_envs.benchmarks.figures import figure_path
from mage_envs.cli.commands import GameOptions, JsonOption, print_result
from mage_envs.cli.game_options import game_with, read_game_options
from mage_envs.cli.tables import Block, TextTable
from mage_envs.core import Game
from mage_envs.opponents import PoolSpec, as_pool, make_opponent
from mage_envs.opponents.exact import GT, Headroom, Objective, headroom
from mage_envs.opponents.exact.beliefs import STATES
from mage_envs.opponents.exact.headroom import is_solvable
from mage_envs.opponents.exact.single_hands import SAMPLES
from mage_envs.progress import ProgressLine
from mage_envs.registry import headline, settings_of

LEARNERS: Mapping[str, str] = {
    "blind": "remembers nothing of earlier hands",
    "no memory": "forgets between episodes",
    "stationary": "best if no opponent learns or changes",
    "known": "knows the opponent's name",
    "myopic": "best for each episode by itself, given all that was seen",
    "sum": "best for all episodes together",
    "mage": "best for differential credit at gt {gt:g}",
    "last": "best for the last episode",
    "own": "best for the weights given",
}
"""Name of a row to the description of its learner."""


def command(
    game: Annotated[
        str | None, typer.Argument(metavar="GAME", help="Game with an enumerable tree, such as KuhnPoker")
    ] = None,
    opponents: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Opponents, as in pool:kuhn/paper (default: the game's own)"),
    ] = None,
    episodes: Annotated[
        int | None, typer.Option(metavar="K", min=1, help="Number of episodes against one opponent (default: 3)")
    ] = None,
    hands: Annotated[int, typer.Option(metavar="H", min=1, help="Hands per episode (default: 1)")] = 1,
    game_options: GameOptions = None,
    seat: Annotated[
        Literal["first", "second", "alternate", "fixed"] | None,
        typer.Option(help="Learner's seats (default: the game's own, else alternate)"),
    ] = None,
    gt: Annotated[float, typer.Option(metavar="G", help=f"Discount of the row mage (default: {GT})")] = GT,
    weights: Annotated[
        str | None,
        typer.Option(metavar="W,W,...", help="Add a row for these weights of the episodes, which must sum to 1"),
    ] = None,
    objective: Annotated[
        Objective | None, typer.Option(help="Objective (default: the game's headline measure)")
    ] = None,
    samples: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            help=f"Sampled moves per state of opponents without exact probabilities, such as {SAMPLES}; "
            "the values become bounds (default: 0, exact values only)",
        ),
    ] = 0,
    limit: Annotated[
        int, typer.Option(metavar="N", min=1, help=f"Maximum number of belief states (default: {STATES:,})")
    ] = STATES,
    compared_with: Annotated[
        str | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Option of the game, such as heard=false; print how much more the best learner earns without it",
        ),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(parser=figure_path, metavar="FILE", help="Draw the values, as PNG, PDF or SVG")
    ] = None,
    all_games: Annotated[bool, typer.Option("--all", help="Print the table of every shipped game and pool")] = False,
    wide: Annotated[bool, typer.Option(help="With --all: print one wide table with units and every episode")] = False,
    ceilings: Annotated[
        bool, typer.Option(help="Print best responses to each opponent and pool, NashConv and Bayes-optimal values")
    ] = False,
    transfer: Annotated[
        bool, typer.Option(help="Print what an episode of each task of a series is worth in every other task")
    ] = False,
    executor: ExecutorOption = "local",
    as_json: JsonOption = False,
) -> None:
    """Print the exact value of memory and exploration in a game, its ceilings, or transfer between tasks.

    Example: mage headroom KuhnPoker --opponents pool:kuhn/paper
    """
    job_executor = make_executor(executor)
    if all_games + ceilings + transfer > 1:
        raise ValueError("--all, --ceilings and --transfer print different tables. Choose one.")
    if compared_with is not None and (all_games or ceilings or transfer):
        raise ValueError("--compared-with applies to the values of one game. Remove --all, --ceilings and --transfer.")
    if all_games:
        if game is not None:
            raise ValueError("--all already includes every game. Remove GAME.")
        if episodes is not None:
            raise ValueError("--all has rows with numbers of episodes of their own. Remove --episodes, or name a GAME.")
        _print_all(job_executor, plot, wide, as_json)
        return
    if wide:
        raise ValueError("--wide applies only to the table of --all; one game's values fit 80 columns.")
    if game is None:
        raise ValueError("GAME is missing. Name one, as in mage headroom KuhnPoker, or use --all.")
    if ceilings:
        tables = exact_ceilings(
            game, game_options or {}, opponents=opponents, episodes=episodes or 3, hands=hands, executor=job_executor
        )
        ceiling_blocks = [block for table in tables for block in ("", *table.blocks())][1:]
        print_result([table.to_json() for table in tables], ceiling_blocks, as_json)
        return
    if not isinstance(job_executor, Local):
        raise ValueError(f"--executor {executor} distributes the rows of --all; one game is solved in one process.")
    rules = game_with(game, game_options or {})
    if transfer:
        spec = opponents or str(settings_of(game).opponent)
        gains = transfer_table.gains_of(rules, spec)
        print_result(gains, transfer_table.blocks(rules, spec, gains), as_json)
        return
    episodes = episodes or 3
    name, pool = _pool(rules, game, opponents)
    seating = seat or settings_of(game).seat or "alternate"
    objective = objective or headline(rules)
    line = ProgressLine()
    solve = partial(
        headroom,
        pool=pool,
        episodes=episodes,
        hands=hands,
        seat=seating,
        gt=gt,
        weights=_weights(weights),
        objective=objective,
        samples=samples,
        limit=limit,
        progress=partial(_tell, line),
    )
    values = solve(rules)
    other_values = None
    if compared_with is not None:
        other_values = solve(
            game_with(game, {**(game_options or {}), **read_game_options([compared_with], "--compared-with")})
        )
    unit = "success" if objective == "success" else rules.spec.unit
    title = f"{rules.title} against {name}: {unit} per hand, {_format_count(episodes, 'episode')} of "
    title += f"{_format_count(hands, 'hand')}, seat {seating}"
    if plot is not None:
        draw(plot, values, title, unit)
    line.erase()
    result, printed = {"title": title, **values.to_json()}, blocks(values, title)
    if other_values is not None:
        difference = _difference(values, other_values)
        result |= {"compared_with": compared_with, "difference": difference}
        printed.append(f"{number(difference)} more than with {compared_with} (sum, mean of all episodes)")
    print_result(result, printed, as_json)


def _difference(values: Headroom, other_values: Headroom) -> float | None:
    """Return by how much the best learner earns more per episode, or None if one of them was not solved."""
    sums = [solved.per_episode.get("sum", ()) for solved in (values, other_values)]
    return (sum(sums[0]) - sum(sums[1])) / len(sums[0]) if all(sums) else None


def _print_all(executor: Executor, plot: Path | None, wide: bool, as_json: bool) -> None:
    """Solve every shipped game and pool, and print their table."""
    line = ProgressLine()
    rows: list[headroom_table.SolvedRow] = []
    for row in solve_rows(partial(_tell, line), executor=executor):
        rows.append(row)
        # The whole table takes minutes, so each row is written as soon as it is known.
        line.write(headroom_table.row_line(row))
    if plot is not None:
        draw_table(plot, [(row.setup.name, row.values) for row in rows if row.values])
    line.erase()
    print_result([row.to_json() for row in rows], headroom_table.blocks(rows, wide), as_json)


def blocks(computed: Headroom, title: str) -> list[Block]:
    """Return the values as a table with a title and notes."""
    cells = row_cells(computed)
    columns = ["", *(f"episode {k}" for k in range(1, len(cells["known"]) + 1)), ""]
    rows = [[name, *values, LEARNERS[name].format(gt=computed.gt)] for name, values in cells.items()]
    table = TextTable(columns, rows, text=(0, len(columns) - 1))
    if computed.bounds:
        notes = [
            f"adaptation headroom {interval_text(computed.bounds['adaptation'][-1])} (known - blind)",
            "reachable and exploration headroom at most the upper value: some opponents' moves were sampled",
            "a..b: a 95% interval; play is chosen on one half of the sampled moves and evaluated on the other",
        ]
        if computed.per_episode:
            notes += ["the rows from myopic on are best against the sampled moves themselves, which flatters them"]
        return [title, table, *notes]
    if computed.learns:
        return [title, table, *_learning_notes(computed)]
    notes = [f"adaptation headroom {number(computed.adaptation)} (known - blind)"]
    if computed.reachable is None or computed.exploration is None:
        notes += [f"reachable and exploration headroom at most that much: {computed.unsolved}"]
    else:
        notes += [
            f"reachable headroom {number(computed.reachable)} (last - no memory, in the last episode)",
            f"exploration headroom {number(computed.exploration)} (last - myopic, in the last episode)",
            f"{computed.states:,} states of belief, {computed.seconds:.1f} CPU s",
        ]
    return [title, table, *notes, *([computed.note] if computed.note else [])]


def _learning_notes(computed: Headroom) -> list[str]:
    """Return the notes below the values against opponents that learn or change. They are means of all episodes."""

    def mean(values: Sequence[float]) -> float:
        return sum(values) / len(values)

    best, known = mean(computed.per_episode["sum"]), mean(computed.known_per_episode)
    second_order = f"{number(computed.second_order)} (sum - stationary, mean of all episodes)"
    if computed.second_order is None:
        second_order = f"{NOT_KNOWN}: stationary play is computed for returns alone"
    notes = [
        f"second-order headroom {second_order}",
        f"adaptation headroom {NOT_KNOWN}: {computed.unsolved}",
    ]
    if computed.no_memory_per_episode:
        blind = mean(computed.no_memory_per_episode)
        notes[1] = f"adaptation headroom {number(known - blind)} (known - no memory), of which {number(best - blind)} "
        notes[1] += "can be reached (sum)"
        notes.append("no memory: the best plan of an episode, the same in every one; opponents do remember")
    return [
        *notes,
        *(["stationary: a belief that is refuted falls back to the prior"] if computed.stationary_per_episode else []),
        f"{computed.states:,} states of belief and memory, {computed.seconds:.1f} CPU s",
    ]


def _format_count(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"


def _pool(game: Game, registered: str, opponents: str | None) -> tuple[str, PoolSpec]:
    """Return the name and the specification of the pool that the user named, else of the game's own opponents.

    Args:
        registered: Name under which the game is registered.
        opponents: Specification of a pool or an opponent, or None.

    Raises:
        ValueError: If the tree with opponents cannot be enumerated, or if an opponent does not play the game.
    """
    if not is_solvable(game) or game.spec.players == 1:
        raise ValueError(f"{game.title} has no enumerable tree with opponents, so it has no exact headroom.")
    spec: PoolSpec = settings_of(registered).opponent
    if opponents is not None:
        spec = opponents
    pool = as_pool(spec)
    # Constructing an opponent raises if it does not play this game. The opponents themselves are not used here.
    for entry in pool.entries:
        make_opponent(entry, game)
    return spec if isinstance(spec, str) else "its own opponents", spec


def _weights(text: str | None) -> Sequence[float] | None:
    if text is None:
        return None
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise ValueError(
            f"--weights {text!r} must be numbers with commas between them, such as --weights 0.2,0.3,0.5."
        ) from None


def _tell(line: ProgressLine, hands: int, states: int, max_states: int) -> None:
    line.draw(f"{states:,} states before {hands} hands, at most {max_states:,} in all")
