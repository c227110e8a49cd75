"""The headroom of every shipped game and pool, as one table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.evaluation.report import NOT_KNOWN, aligned, number
from benchmarks.evaluation.scores import headline
from benchmarks.executors import Executor, Local, in_order
from mage_envs.core import ExactPolicy
from mage_envs.registry import list_games, load_game, make_game, settings_of
from opponents import as_pool, list_pools, make_opponent, opponent_info
from opponents.exact import Headroom, Objective, headroom
from opponents.exact.beliefs import TellsStates
from opponents.exact.headroom import CREDITS, SAMPLES
from opponents.exact.tree import is_enumerable


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What a row is about; what is left out is the default of `mage-bench headroom`."""

    game: str
    pool: str
    options: Mapping[str, Any] = field(default_factory=dict)
    hands: int = 1
    objective: Objective | None = None

    @property
    def spec(self) -> str:
        """The pool as it is named everywhere."""
        return f"pool:{self.pool}"

    @property
    def title(self) -> str:
        """The game with all that is not the default."""
        said = [f"{key} {value}" for key, value in self.options.items()]
        said += [f"{self.hands} hands"] * (self.hands > 1) + [self.objective or ""]
        return ", ".join([self.game, *filter(None, said)])


@dataclass(frozen=True)
class SolvedRow:
    """A row with its values, or with the reason why there are none."""

    setup: Setup
    unit: str = ""
    found: Headroom | None = None
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        found = None if self.found is None else self.found.to_json()
        return {**asdict(self.setup), "unit": self.unit, "reason": self.reason, "headroom": found}


VARIANTS = (
    Setup(game="KuhnPoker", pool="kuhn/paper", objective="success"),
    Setup(game="KuhnPoker", pool="kuhn/paper"),
    Setup(game="KuhnPoker", pool="kuhn/paper", options={"reveal": "always"}),
    Setup(game="KuhnPoker", pool="kuhn/demo"),
    Setup(game="KuhnPoker", pool="kuhn/demo", options={"reveal": "always"}),
    Setup(game="KuhnPoker", pool="kuhn/demo", options={"reveal": "always"}, hands=3),
    Setup(game="PrisonersDilemma", pool="pd/classic"),
    Setup(game="PrisonersDilemma", pool="pd/classic", options={"rounds": 3}),
    Setup(game="PrisonersDilemma", pool="pd/classic", options={"rounds": 2, "noise": 0.1}),
    Setup(game="Ultimatum", pool="ultimatum/reserves"),
    Setup(game="Ultimatum", pool="ultimatum/reserves", options={"offers": 2}),
    Setup(game="LiarsDice", pool="liars/four", options={"sides": 5}),
    Setup(game="LiarsDice", pool="liars/soft", options={"sides": 4}),
)
"""Rows of games of which more than one kind is of interest, or whose own kind takes more than 20 CPU seconds."""


def setups() -> Iterator[Setup]:
    """`VARIANTS`, every other registered pool with each game that it plays, and games without such a pool.

    OpenSpiel's adapter stands for many games; those that are shipped have names of their own."""
    yield from VARIANTS
    for name in sorted(set(list_games()) - {"OpenSpiel"}):
        pools = [pool for pool in list_pools() if _plays(pool, name)]
        for pool in pools or [""]:
            if (name, pool) not in {(setup.game, setup.pool) for setup in VARIANTS}:
                yield Setup(game=name, pool=pool)


def _plays(pool: str, name: str) -> bool:
    """Whether all opponents of the pool play the game by their names alone: nothing is made."""
    infos = [opponent_info(str(entry).partition(":")[0]) for entry in as_pool(f"pool:{pool}").entries]
    return all(info.plays(name) for info in infos) and any(info.games is not None for info in infos)


def solved_rows(
    progress: TellsStates, rows: Iterable[Setup] | None = None, executor: Executor | None = None
) -> list[SolvedRow]:
    """These rows (default: all), solved one after another, or where an executor solves them (without progress)."""
    asked = list(setups() if rows is None else rows)
    if executor is None or isinstance(executor, Local):
        return [_solved(progress, setup) for setup in asked]
    return list(in_order(executor, _solved, (None,), asked))


def _solved(progress: TellsStates | None, setup: Setup) -> SolvedRow:
    if load_game(setup.game).facts.players == 1:
        return SolvedRow(setup, reason="not enumerable")
    game = make_game(setup.game, **setup.options)
    if not is_enumerable(game):
        return SolvedRow(setup, reason="not enumerable")
    if not setup.pool:
        return SolvedRow(setup, reason="no pool")
    objective: Objective = setup.objective or headline(game)
    sampled = not all(isinstance(make_opponent(entry, game), ExactPolicy) for entry in as_pool(setup.spec).entries)
    found = headroom(
        game,
        setup.spec,
        hands=setup.hands,
        seat=settings_of(setup.game).seat or "alternate",
        objective=objective,
        samples=SAMPLES if sampled else 0,
        progress=progress,
    )
    return SolvedRow(setup, "success" if objective == "success" else game.facts.unit, found)


def table_lines(rows: Sequence[SolvedRow]) -> list[str]:
    """The table as text."""
    columns = ["game", "pool", "unit", "blind", "known", *CREDITS, "adaptation", "exploration", "CPU s"]
    cells = [
        [
            row.setup.title,
            row.setup.pool,
            row.unit,
            *(_values(row.found) if row.found else [row.reason, *[NOT_KNOWN] * 8]),
        ]
        for row in rows
    ]
    notes = [
        "Per hand, in 3 episodes; seats alternate unless they have roles. mage: gt 0.6. last: in the third episode.",
        "±: standard error of an estimate; some opponents' moves were sampled. <=: a bound, too many states to solve.",
        "Sokoban, ALFWorld and WebShop repeat a task: mage-bench eval prints floors beside every score of theirs.",
    ]
    return [*aligned(columns, cells), *notes]


def _values(found: Headroom) -> list[str]:
    credits = [" ".join(map(number, found.per_episode[name])) for name in CREDITS[:-1]] if found.per_episode else []
    error = {name: f" ± {number(value)}" for name, value in found.errors.items()}
    return [
        number(found.blind) + error.get("blind", ""),
        number(found.known) + error.get("known", ""),
        *(credits or [NOT_KNOWN] * 3),
        number(found.per_episode["last"][-1]) if found.per_episode else NOT_KNOWN,
        number(found.adaptation) + error.get("adaptation", ""),
        f"<= {number(found.adaptation)}" if found.exploration is None else number(found.exploration),
        f"{found.seconds:.1f}",
    ]


def row_cells(found: Headroom) -> dict[str, list[str]]:
    """Each learner's value in each episode."""
    episodes = len(found.per_episode["last"]) if found.per_episode else 1
    error = {name: f" ± {number(value)}" for name, value in found.errors.items()}
    cells = {
        "blind": [number(found.blind) + error.get("blind", "")] * episodes,
        "known": [number(found.known) + error.get("known", "")] * episodes,
    }
    return cells | {name: [number(value) for value in values] for name, values in found.per_episode.items()}
