"""Counterfactual regret minimisation by OpenSpiel's C++ solver, for small games of imperfect information."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

from mage_envs.core import TextGame, Turn
from mage_envs.games.kuhn_poker import CARDS
from opponents.registry import register_opponent
from opponents.tabular import RulePolicy


@dataclass(frozen=True)
class SolveForm:
    """How a text game is solved in OpenSpiel.

    The order of `Turn.legal_actions` must be the order of OpenSpiel's actions.
    """

    short_name: str
    """What `pyspiel.load_game` takes."""
    state_of: Callable[[Turn], str]
    """A turn's information state string in OpenSpiel. A module-level function keeps the policies picklable."""


def _kuhn_state(turn: Turn) -> str:
    return f"{CARDS.index(turn.information_state[0])}{turn.information_state[1:]}"


SOLVABLE: dict[str, SolveForm] = {"KuhnPoker": SolveForm("kuhn_poker", _kuhn_state)}
"""`TextGame.name` to its form. A new entry is all that a further game needs."""


@cache
def average_policy(short_name: str, iterations: int) -> dict[str, tuple[float, ...]]:
    """OpenSpiel's information state strings to action probabilities (Kuhn, 1,000 iterations: 30 ms)."""
    import pyspiel

    solver = pyspiel.CFRSolver(pyspiel.load_game(short_name))
    for _ in range(iterations):
        solver.evaluate_and_update_policy()
    table = solver.tabular_average_policy().policy_table()
    return {state: tuple(probability for _, probability in sorted(row)) for state, row in table.items()}


def average(form: SolveForm, iterations: int, turn: Turn) -> dict[str, float]:
    """The rule of the average policy, normalised against rounding."""
    row = average_policy(form.short_name, iterations)[form.state_of(turn)]
    return {action: probability / sum(row) for action, probability in zip(turn.legal_actions, row, strict=True)}


def argmax(form: SolveForm, iterations: int, turn: Turn) -> dict[str, float]:
    """The rule of the likeliest action, the first of equals."""
    row = average(form, iterations, turn)
    return {max(row, key=lambda action: row[action]): 1.0}


def _form(game: TextGame, iterations: int) -> SolveForm:
    if game.name not in SOLVABLE:
        raise ValueError(f"Opponent 'cfr' cannot solve {game.name}; add its form to opponents.cfr.SOLVABLE.")
    if iterations < 1:
        raise ValueError(f"Opponent 'cfr': iterations must be at least 1, got {iterations}.")
    return SOLVABLE[game.name]


@register_opponent("cfr", games=SOLVABLE, needs_game=True)
def cfr(game: TextGame, iterations: int = 1000) -> RulePolicy:
    """The average policy of CFR, sampled."""
    return RulePolicy(partial(average, _form(game, iterations), iterations))


@register_opponent("cfr-argmax", games=SOLVABLE, needs_game=True)
def cfr_argmax(game: TextGame, iterations: int = 1000) -> RulePolicy:
    """The likeliest action of CFR's average policy, as the MAGE paper's code plays it; no equilibrium any more."""
    return RulePolicy(partial(argmax, _form(game, iterations), iterations), deterministic=True)
