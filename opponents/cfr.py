"""Counterfactual regret minimisation by OpenSpiel's C++ solvers, for any game small enough to be solved.

Kuhn Poker is solved by plain CFR, as the MAGE paper's code does it; other two-player zero-sum games by CFR+, which
gets much closer in as many iterations (Leduc after 1,000: 0.0003 chips per hand exploitable, against 0.0118).
"""

from __future__ import annotations

from functools import partial
from typing import Any

from mage_envs.core import Game, Turn
from opponents.openspiel import SpielForm, form_of
from opponents.solved import average_policy
from opponents.tabular import RulePolicy


def average(form: SpielForm, iterations: int, solver: str, turn: Turn) -> dict[str, float]:
    """The rule of the average policy."""
    row = average_policy(form.game, iterations, solver)[form.state_of(turn)]
    return dict(zip(turn.legal_actions, row, strict=True))


def argmax(form: SpielForm, iterations: int, solver: str, turn: Turn) -> dict[str, float]:
    """The rule of the likeliest action, the first of equals."""
    row = average(form, iterations, solver, turn)
    return {max(row, key=lambda action: row[action]): 1.0}


def _solution(game: Game, opponent: str, iterations: int) -> tuple[SpielForm, int, str]:
    """Form, iterations and solver; the game is solved now, so that what cannot be solved is said at once."""
    form = form_of(game, opponent)
    if iterations < 1:
        raise ValueError(f"Opponent {opponent!r}: iterations must be at least 1, got {iterations}.")
    solver = "CFRSolver" if game.facts.name == "KuhnPoker" or not _is_zero_sum(form.load()) else "CFRPlusSolver"
    average_policy(form.game, iterations, solver)
    return form, iterations, solver


def _is_zero_sum(game: Any) -> bool:
    import pyspiel

    utility = pyspiel.GameType.Utility
    return game.num_players() == 2 and game.get_type().utility in (utility.ZERO_SUM, utility.CONSTANT_SUM)


def cfr(game: Game, iterations: int = 1000) -> RulePolicy:
    """The average policy of CFR or CFR+, sampled."""
    return RulePolicy(partial(average, *_solution(game, "cfr", iterations)))


def cfr_argmax(game: Game, iterations: int = 1000) -> RulePolicy:
    """The likeliest action of CFR's average policy, as the MAGE paper's code plays it; no equilibrium any more."""
    return RulePolicy(partial(argmax, *_solution(game, "cfr-argmax", iterations)))
