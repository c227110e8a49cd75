"""The headroom of every shipped game and pool as one table, with the baselines of games whose tasks repeat."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from mage_envs.benchmarks.evaluation.run.agents import Agent
from mage_envs.benchmarks.evaluation.run.baselines import baseline_rows
from mage_envs.benchmarks.evaluation.run.evaluate import evaluate, progress_of
from mage_envs.benchmarks.evaluation.scoring.scores import ScoreRow
from mage_envs.benchmarks.evaluation.suites.panels import named_panel
from mage_envs.benchmarks.evaluation.suites.setting import Setting
from mage_envs.benchmarks.evaluation.tables.summary_table import NOT_KNOWN, number
from mage_envs.benchmarks.executors.jobs import Executor, run_in_order
from mage_envs.benchmarks.executors.on_this_machine import Local
from mage_envs.cli.commands import describe_error
from mage_envs.cli.tables import Block, TextTable
from mage_envs.game_record import RECORDS
from mage_envs.opponents import as_pool, list_pools, make_opponent, opponent_info
from mage_envs.opponents.exact import Headroom, NotExact, Objective, headroom
from mage_envs.opponents.exact.beliefs import TellsStates
from mage_envs.opponents.exact.headroom import CREDITS, is_solvable
from mage_envs.opponents.exact.single_hands import SAMPLES, Bounds
from mage_envs.opponents.exact.tree import is_exact
from mage_envs.opponents.splits import list_splits
from mage_envs.registry import explain_unavailable, headline, list_games, load_game, make_game, settings_of
from mage_envs.wrappers.rollout.trajectory import Trajectory


@dataclass(frozen=True, kw_only=True)
class Setup:
    """Subject of one row. Defaults are those of `mage headroom`."""

    game: str
    pool: str
    options: Mapping[str, Any] = field(default_factory=dict)
    hands: int = 1
    episodes: int = 3
    objective: Objective | None = None
    panel: str = ""
    """Panel whose baselines replace the values, for a game that repeats its tasks."""

    @property
    def spec(self) -> str:
        """Return the specification of the pool."""
        return f"pool:{self.pool}"

    @property
    def title(self) -> str:
        """Return the game's name with every setting that is not the default."""
        parts = [f"{key} {value}" for key, value in self.options.items()]
        parts += [f"{self.hands} hands"] * (self.hands > 1) + [f"{self.episodes} episodes"] * (self.episodes != 3)
        parts += [self.objective or ""]
        return ", ".join([self.game, *filter(None, parts)])

    @property
    def name(self) -> str:
        """Return `title` with the pool, or with the panel for a game without a pool."""
        return ": ".join(filter(None, [self.title, self.pool or self.panel]))


@dataclass(frozen=True)
class SolvedRow:
    """A row with its values, or with the reason why it has none."""

    setup: Setup
    unit: str = ""
    values: Headroom | None = None
    reason: str = ""
    floors: tuple[ScoreRow, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the row as plain JSON values."""
        values = None if self.values is None else self.values.to_json()
        floors = [
            {
                "name": floor.opponent,
                "success": [asdict(episode.success.estimate) for episode in floor.episodes],
                "pass_at": [asdict(estimate) for estimate in floor.pass_at],
            }
            for floor in self.floors
        ]
        return {**asdict(self.setup), "unit": self.unit, "reason": self.reason, "headroom": values, "floors": floors}


_VARIANTS = (
    Setup(game="KuhnPoker", pool="kuhn/paper", objective="success"),
    Setup(game="KuhnPoker", pool="kuhn/paper"),
    Setup(game="KuhnPoker", pool="kuhn/paper", options={"reveal": "always"}),
    Setup(game="KuhnPoker", pool="kuhn/demo"),
    Setup(game="KuhnPoker", pool="kuhn/demo", options={"reveal": "always"}),
    Setup(game="KuhnPoker", pool="kuhn/demo", options={"reveal": "always"}, hands=3),
    *(
        Setup(game="WebShopCustomer", pool=f"customer/{pool}", options=options, episodes=episodes)
        for pool, options in (("all", {}), ("all", {"wishes": 2, "size": "medium"}), ("fit", {"kind": "fit"}))
        for episodes in (3, 5)
    ),
    *(
        Setup(game=split.game, pool=pool, options=options)
        for split in list_splits().values()
        for pool, options in split.headroom
    ),
    *(
        Setup(game="SokobanControls", pool="controls/all", options={"slack": slack}, episodes=episodes)
        for slack in (2, 0)
        for episodes in (3, 5)
    ),
    Setup(game="Encounters", pool="encounters/all"),
    Setup(game="Encounters", pool="encounters/all", episodes=5),
)
VARIANTS = tuple(setup for setup in _VARIANTS if setup.game in list_games())
"""Rows of games that are shown in more than one variant, or whose default variant requires more than 20 CPU seconds."""

PANELS: Mapping[str, str] = {
    "Sokoban": "sokoban-eval-2box-128",
    "WebShop": "webshop-val-128",
    "ALFWorld": "alfworld-eval-in-16",
}
"""Game whose tasks repeat, to a panel whose baselines are played in under 20 CPU seconds."""
NOT_ENUMERABLE = "not enumerable"
HEADROOMS = ("adaptation", "reachable", "exploration")


def setups() -> Iterator[Setup]:
    """Yield `VARIANTS`, then every other registered pool with each game it plays, and games without a pool.

    OpenSpiel's adapter is skipped because it covers many games; the shipped ones have names of their own.
    """
    yield from VARIANTS
    for name in sorted(set(list_games()) - {"OpenSpiel"}):
        pools = [pool for pool in list_pools() if plays(pool, name)]
        for pool in pools or [""]:
            if (name, pool) not in {(setup.game, setup.pool) for setup in VARIANTS}:
                yield Setup(game=name, pool=pool, panel=PANELS.get(name, ""))


def plays(pool: str, name: str) -> bool:
    """Return True if every opponent of the pool plays the game and at least one is specific to some game.

    The registered metadata decides; no opponent is constructed. A pool with the prefix of a game plays that one only.
    """
    owners = [record.name for record in RECORDS.values() if pool.partition("/")[0] in record.opponents]
    if owners and name not in owners:
        return False
    infos = [opponent_info(str(entry).partition(":")[0]) for entry in as_pool(f"pool:{pool}").entries]
    return all(info.plays(name) for info in infos) and any(info.games is not None for info in infos)


def solve_rows(
    progress: TellsStates, rows: Iterable[Setup] | None = None, executor: Executor | None = None
) -> Iterator[SolvedRow]:
    """Yield the solved rows in their order, each as soon as it is solved.

    Args:
        progress: Callback for the progress of each game. It is not called if an executor other than `Local` is used.
        rows: Rows to solve (default: all of `setups()`).
        executor: Executor that solves the rows (default: one after another in this process).
    """
    row_setups = list(setups() if rows is None else rows)
    if executor is None or isinstance(executor, Local):
        yield from (_solve(progress, setup) for setup in row_setups)
        return
    # The progress callback writes to this process's terminal and cannot be sent to a worker.
    yield from run_in_order(executor, _solve, (None,), row_setups)


def _solve(progress: TellsStates | None, setup: Setup) -> SolvedRow:
    """Return the row with its values, with its baselines, or with the reason why it has neither."""
    if reason := explain_unavailable(setup.game, **setup.options):
        return SolvedRow(setup, reason=reason)
    if setup.panel:
        return _play_baselines(progress, setup)
    if load_game(setup.game).spec.players == 1:
        return SolvedRow(setup, reason=NOT_ENUMERABLE)
    game = make_game(setup.game, **setup.options)
    if not is_solvable(game):
        return SolvedRow(setup, reason=NOT_ENUMERABLE)
    if not setup.pool:
        return SolvedRow(setup, reason="no pool")
    objective: Objective = setup.objective or headline(game)
    sampled = not all(is_exact(make_opponent(entry, game)) for entry in as_pool(setup.spec).entries)
    try:
        values = headroom(
            game,
            setup.spec,
            episodes=setup.episodes,
            hands=setup.hands,
            seat=settings_of(setup.game).seat or "alternate",
            objective=objective,
            samples=SAMPLES if sampled else 0,
            progress=progress,
        )
    except NotExact as error:
        # An opponent in a user's pool may remember earlier hands.
        return SolvedRow(setup, reason=str(error))
    return SolvedRow(setup, "success" if objective == "success" else game.spec.unit, values)


def _play_baselines(progress: TellsStates | None, setup: Setup) -> SolvedRow:
    """Return the row with the baselines of its panel, or with the reason if packages or data are missing."""

    def play(agent: Agent, setting: Setting) -> list[Trajectory]:
        on_step = None if progress is None else progress_of(agent.name)
        return evaluate(agent, setting.tasks, setting.options, on_step=on_step)

    try:
        with warnings.catch_warnings():
            # `baseline_rows` only warns if a baseline cannot be played. Here a partial set counts as missing.
            warnings.filterwarnings("error", "The row .* is left out", RuntimeWarning)
            floors = baseline_rows(Setting(named_panel(setup.panel), setup.panel), play)
    except (ImportError, RuntimeWarning) as error:
        return SolvedRow(setup, reason=f"{NOT_ENUMERABLE}; no floors: {describe_error(error)}")
    return SolvedRow(setup, "success", reason=NOT_ENUMERABLE, floors=floors)


def blocks(rows: Sequence[SolvedRow], wide: bool = False) -> list[Block]:
    """Return the tables and their notes. `wide` makes one table with units, errors, every episode and the CPU time."""
    return [*([_wide(rows)] if wide else _narrow(rows)), "", *_floors(rows), "", *_NOTES]


_NOTES = (
    "Per hand, in 3 episodes unless the row names more; seats alternate unless they",
    "have roles. mage: gt 0.6.",
    "Adaptation: known - blind. Reachable: last - no memory, what memory of the earlier",
    "episodes can add in the last; choose benchmarks by it. No memory is the optimum of",
    "one episode, and blind if it has one hand. a..b: a 95% interval, as some opponents'",
    "moves were sampled. <=: a bound; there is no exact value.",
    "pass@3: success within three episodes.",
)


def _narrow(rows: Sequence[SolvedRow]) -> list[Block]:
    solved = [(row.setup.name, row.values) for row in rows if row.values]
    worth = [[name, number(values.blind), number(values.known), *_headrooms(values)] for name, values in solved]
    third = [
        [name, *(number(values.per_episode[credit][-1]) for credit in CREDITS)]
        for name, values in solved
        if values.exact
    ]
    return [
        *("What memory of earlier episodes, and exploration across them, is worth at most", ""),
        TextTable(["game: pool", "blind", "known", *HEADROOMS], worth),
        *("", "What the optimum of each credit earns in the last episode", ""),
        TextTable(["game: pool", *CREDITS], third),
    ]


def row_line(row: SolvedRow) -> str:
    """Return a row as a line: its headrooms, the baselines of a game that repeats its tasks, or why it has neither."""
    if row.values is not None:
        values = ", ".join(f"{name} {cell}" for name, cell in zip(HEADROOMS, _headrooms(row.values), strict=True))
    elif row.floors:
        values = ", ".join(f"{floor.opponent} {number(floor.pass_at[-1].mean)}" for floor in row.floors)
    else:
        values = f"n/a, {row.reason}"
    return f"{row.setup.name}: {values}"


def _wide(rows: Sequence[SolvedRow]) -> TextTable:
    columns = ["game", "pool", "unit", "blind", "known", *CREDITS, *HEADROOMS, "CPU s"]
    cells = [
        [
            row.setup.title,
            row.setup.pool,
            row.unit,
            *(_values(row.values) if row.values else [row.reason, *[NOT_KNOWN] * 9]),
        ]
        for row in rows
    ]
    return TextTable(columns, cells)


def _floors(rows: Sequence[SolvedRow]) -> list[Block]:
    """Return the blocks of the games without values. The baselines of a game follow its line."""
    unsolved = [row for row in rows if row.values is None]
    cells = []
    for row in unsolved:
        cells.append([row.setup.name, *["" if row.floors else NOT_KNOWN] * 5])
        for floor in row.floors:
            shares = [*(episode.success.estimate.mean for episode in floor.episodes), floor.pass_at[-1].mean]
            cells.append([f"  {floor.opponent}", *map(number, shares), str(floor.meta_episodes)])
    return [
        *("Not enumerable; where tasks repeat, how often policies that play them succeed", ""),
        TextTable(["game: panel", "ep. 1", "ep. 2", "ep. 3", "pass@3", "n"], cells),
        *(f"{row.setup.game}: {row.reason}" for row in unsolved if row.reason != NOT_ENUMERABLE),
    ]


def _values(values: Headroom) -> list[str]:
    # The credit `last` optimises the last episode alone, so its earlier values are not shown.
    credits = [" ".join(map(number, values.per_episode[name])) for name in CREDITS[:-1]] if values.per_episode else []
    last_value = number(values.per_episode["last"][-1]) if values.per_episode else NOT_KNOWN
    cells = row_cells(values)
    first_end = number(values.blind) if values.learns else cells["blind"][-1]
    ends = [first_end, cells["known"][-1]]
    return [*ends, *(credits or [NOT_KNOWN] * 3), last_value, *_headrooms(values), f"{values.seconds:.1f}"]


def _headrooms(values: Headroom) -> list[str]:
    """Return the cells of `HEADROOMS`."""
    bounds = values.bounds.get("adaptation")
    # The adaptation headroom is an upper bound of the other two, so it replaces them if they were not solved.
    upper_bound = number(bounds[-1][1] if bounds else values.adaptation)
    others = (values.reachable, values.exploration)
    adaptation = interval_text(bounds[-1]) if bounds else number(values.adaptation)
    return [adaptation, *(f"<= {upper_bound}" if value is None else number(value) for value in others)]


def interval_text(bounds: Bounds) -> str:
    """Return `low..high`."""
    low, high = bounds
    return f"{number(low)}..{number(high)}"


def row_cells(values: Headroom) -> dict[str, list[str]]:
    """Return the values of each learner by episode, with intervals if moves were sampled."""
    single = {"blind": values.blind_per_episode, "known": values.known_per_episode}
    if values.learns:
        # Play that forgets the hands of its episode is not computed against opponents that learn.
        rows = {"no memory": values.no_memory_per_episode, "stationary": values.stationary_per_episode}
        single = {name: row for name, row in rows.items() if row} | {"known": values.known_per_episode}
    elif values.no_memory_per_episode not in ((), values.blind_per_episode):
        # With several hands per episode, memory within the episode is worth something by itself.
        single = {"blind": values.blind_per_episode, "no memory": values.no_memory_per_episode, **single}
    cells = {
        name: [number(value) for value in numbers] for name, numbers in (single | dict(values.per_episode)).items()
    }
    return cells | {
        name: [interval_text(interval) for interval in bounds]
        for name, bounds in values.bounds.items()
        if name in single
    }
