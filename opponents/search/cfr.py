"""Opponents that play the solutions of OpenSpiel's C++ solvers for counterfactual regret minimisation (CFR).

Kuhn Poker uses plain CFR, as in the MAGE paper's code. Other two-player zero-sum games use CFR+, which converges much
faster: after 1,000 iterations, Leduc is exploitable by 0.0003 chips per hand, against 0.0118 with plain CFR.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from mage_envs.core import Game, Turn
from mage_envs.opponents.search.average_policy import average_policy, solver_steps
from mage_envs.opponents.search.openspiel import DoesNotSuit, form_of
from mage_envs.opponents.tabular import RulePolicy
from mage_envs.spiel.form import SpielForm

ITERATIONS = 1000
"""Iterations unless the specification names their number."""
MAX_STEPS = 100_000_000
"""Maximum histories times iterations without such a number: some minutes of work."""
MAX_ITERATIONS = 1_000_000
"""Maximum number of iterations. They take 30 s for Kuhn Poker and 30 minutes for Leduc Poker."""


def average(form: SpielForm, iterations: int, solver: str, turn: Turn) -> dict[str, float]:
    """Return the average policy's probabilities at a turn."""
    row = average_policy(form.game, iterations, solver)[form.state_of(turn)]
    return dict(zip(turn.legal_actions, row, strict=True))


def argmax(form: SpielForm, iterations: int, solver: str, turn: Turn) -> dict[str, float]:
    """Return probability 1 for the average policy's likeliest action, the first if several are equal."""
    row = average(form, iterations, solver, turn)
    return {max(row, key=lambda action: row[action]): 1.0}


def _solution(game: Game, opponent: str, iterations: int | None) -> tuple[SpielForm, int, str]:
    """Return form, number of iterations and name of the solver, after solving the game."""
    form = form_of(game, opponent)
    if iterations is None:
        iterations = ITERATIONS
        if (steps := solver_steps(form.game, iterations)) > MAX_STEPS:
            affordable = ITERATIONS * MAX_STEPS // steps
            raise DoesNotSuit(
                f"Opponent {opponent!r} would solve {game.title} for {ITERATIONS:,} iterations of "
                f"{steps // ITERATIONS:,} histories, which takes too long. Name the iterations, as in "
                f"'{opponent}:{affordable}'."
            )
    if not 1 <= iterations <= MAX_ITERATIONS:
        raise ValueError(f"Opponent {opponent!r}: iterations must be from 1 to {MAX_ITERATIONS:,}, got {iterations:,}.")
    # CFR+ converges in two-player zero-sum games. Kuhn Poker keeps plain CFR, so that its policy equals that of the
    # paper's code.
    solver = "CFRSolver" if game.spec.name == "KuhnPoker" or not _is_zero_sum(form.load()) else "CFRPlusSolver"
    # Solve now: an unsuitable game raises when the opponent is made, not at its first turn.
    average_policy(form.game, iterations, solver)
    return form, iterations, solver


def _is_zero_sum(game: Any) -> bool:
    import pyspiel

    utility = pyspiel.GameType.Utility
    return game.num_players() == 2 and game.get_type().utility in (utility.ZERO_SUM, utility.CONSTANT_SUM)


def cfr(game: Game, iterations: int | None = None) -> RulePolicy:
    """Return the policy that samples from the average policy of CFR or CFR+."""
    return RulePolicy(partial(average, *_solution(game, "cfr", iterations)))


def cfr_argmax(game: Game, iterations: int | None = None) -> RulePolicy:
    """Return the policy that plays the likeliest action of CFR's average policy, as in the MAGE paper's code.

    Such a policy is not an equilibrium.
    """
    return RulePolicy(partial(argmax, *_solution(game, "cfr-argmax", iterations)))
