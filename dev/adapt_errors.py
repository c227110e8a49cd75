"""Exact moments of the level of `blind` and `myopic` in a cell of the suite `adapt`, without playing.

The level of a meta-episode is linear in the sum of its regrets. A pass over the states of belief, from the last hand to
the first, finds the mean and the variance of this sum against each opponent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from mage_envs.benchmarks.evaluation.suites.adapt import EPISODES, META_EPISODES, AdaptCell
from mage_envs.benchmarks.evaluation.suites.panels import cell_panel
from mage_envs.benchmarks.scale.adaptation import pool_of
from mage_envs.benchmarks.scale.scale import Scale
from mage_envs.core import Game
from mage_envs.opponents.exact.bayes import BayesSolution, Meeting, meetings
from mage_envs.opponents.exact.learner_hands import Floats, Places
from mage_envs.opponents.exact.learner_values import Schedule, best_plan
from mage_envs.opponents.exact.modes import Modes
from mage_envs.opponents.exact.plans import HandPlan, LearnerHands
from mage_envs.opponents.pools import OpponentPool
from mage_envs.registry import make_game, settings_of

Choices = Callable[[int, slice], Sequence[Places]]
"""Function from a hand and states to the actions of a player, as `BayesSolution.choices`."""
_TIE = 1e-10
"""Difference below which two actions are equally good for the player `blind`."""


def level_moments(cell: AdaptCell, scale: Scale, player: str) -> tuple[float, float]:
    """Return the exact level of a player, and its standard error on a panel of the suite's size.

    Args:
        cell: Cell with a luck-adjusted level.
        scale: Its scale.
        player: `blind` or `myopic`.
    """
    game, pool = make_game(cell.game, **cell.options), pool_of(cell)
    counts = Counter((task.opponent, task.seat) for task in cell_panel(cell, META_EPISODES).tasks())
    seat = settings_of(cell.game).seat or "alternate"
    regret = variance = 0.0
    choices: Choices
    for meeting in meetings(game, pool, episodes=EPISODES, hands=cell.hands, seat=seat):
        if player == "myopic":
            choices = BayesSolution(meeting, "myopic").choices
        elif meeting.modes.learns:
            choices = plan_choices(game, pool, meeting, alternate=seat == "alternate")
        else:
            choices = blind_choices(meeting)
        # In a series of tasks, each opponent has several entries, one for each order of the tasks; and so has an
        # opponent that changes.
        belief = meeting.stages[0].belief(0)
        sizes = meeting.modes.sizes if len(meeting.modes.sizes) == len(pool) else [len(belief) // len(pool)] * len(pool)
        starts = np.cumsum([0, *sizes])[:-1]
        parts = regret_moments(meeting, BayesSolution(meeting, "sum"), choices)
        means, squares = np.add.reduceat(parts * belief, starts, axis=1) / np.add.reduceat(belief, starts)
        for name, weight, mean, square in zip(pool.entries, pool.weights, means, squares, strict=True):
            share = weight / len(cell.seats)
            regret += share * mean
            # Rounding may leave a variance of 0 slightly negative.
            variance += share**2 * max(square - mean**2, 0.0) / counts[str(name), meeting.seats[0]]
    return 1 - regret / scale.length, variance**0.5 / scale.length


def blind_choices(meeting: Meeting) -> Choices:
    """Return the choices of the best play of each hand under the prior."""

    def choices(hand: int, states: slice) -> list[Places]:
        tree, actions = meeting.stages[hand].group_of(states.start).plan.tree, list[Places]()

        def best(values: Floats) -> Places:
            # The first of equally good actions, as in `BlindPolicy`.
            actions.append((values[0] >= values[0].max(axis=1, keepdims=True) - _TIE).argmax(axis=1))
            return actions[-1]

        tree.decide((tree.payoff @ meeting.stages[0].groups[0].beliefs)[None], best)
        return actions

    return choices


def plan_choices(game: Game, pool: OpponentPool, meeting: Meeting, *, alternate: bool) -> Choices:
    """Return the choices of the best plan of an episode, the same in every one.

    Args:
        game: Game that is played.
        pool: Opponents that learn.
        meeting: Meeting with them.
        alternate: True if the seat changes from hand to hand.
    """
    hands = LearnerHands(game, Modes(game, pool))
    plans = best_plan(hands, Schedule.of(2, meeting.seats[0], EPISODES, 1, alternate=alternate)).plans

    def choices(hand: int, states: slice) -> list[Places]:
        group, actions = meeting.stages[hand].group_of(states.start), list[Places]()
        chosen = np.zeros((1, len(group.plan.tree.payoff), states.stop - states.start))
        branches = [group.hand.root]
        while branches:
            branch = branches.pop()
            for state, options in branch.decisions.items():
                action = plans[meeting.seats[hand]].get(state)
                # Branches that the plan avoids lead to decisions outside of it. Their first action does not matter.
                if action is not None:
                    chosen[0, group.plan.number[id(options[action])]] = 1
                branches += options.values()

        def best(values: Floats) -> Places:
            actions.append(values[0].argmax(axis=1))
            return actions[-1]

        group.plan.tree.decide(chosen, best)
        return actions

    return choices


def regret_moments(meeting: Meeting, optimum: BayesSolution, choices: Choices) -> Floats:
    """Return the means of a player's sum of regrets and of its square against each opponent, (2, N).

    Args:
        meeting: Hands and states.
        optimum: Solution of the credit `sum`, by which decisions are judged.
        choices: Choices of the player.
    """
    count = len(meeting.stages[0].belief(0))
    moments: Floats = np.zeros((2, count, 1))
    for hand in reversed(range(len(meeting.stages))):
        stage = meeting.stages[hand]
        episode, *later_episodes = meeting.episode_of[hand:]
        if meeting.modes.switches is not None and later_episodes and later_episodes[0] != episode:
            moments = meeting.modes.switches @ moments
        hand_moments: Floats = np.zeros((2, count, stage.size))
        for states in meeting.parts(hand):
            group = stage.group_of(states.start)
            own_states = slice(states.start - group.start, states.stop - group.start)
            plan, beliefs = group.plan, group.beliefs[:, own_states]
            lost, reach = _walk(plan, optimum.follow(hand, states).sum(axis=0), beliefs, choices(hand, states))
            # Most endings are off the player's way.
            on = reach[plan.ends].any(axis=1)
            ends, tells = plan.ends[on], plan.tells[on]
            weight, regret = plan.weight[on, None] * reach[ends], lost[ends]
            # After the last hand there is one state, in which nothing is lost.
            next_states = (
                group.successors[tells][:, own_states] if len(group.successors) else np.zeros(regret.shape, np.intp)
            )
            for i, (mean, square) in enumerate(zip(*moments, strict=True)):
                chance, later_mean = weight * plan.evidence[tells, i, None], mean[next_states]
                hand_moments[0, i, states] = (chance * (regret + later_mean)).sum(axis=0)
                hand_moments[1, i, states] = (chance * (regret**2 + 2 * regret * later_mean + square[next_states])).sum(
                    axis=0
                )
        moments = hand_moments
    return moments[:, :, 0]


def _walk(plan: HandPlan, worth: Floats, beliefs: Floats, choices: Sequence[Places]) -> tuple[Floats, Floats]:
    """Return the regret of a player on its way to each branch, and 1 for each branch that it plays to, (B, S) each.

    Args:
        plan: The hand.
        worth: Value of each branch, times its probability, (B, S).
        beliefs: Probability of each opponent, (N, S).
        choices: Actions of the player.
    """
    regrets, reach, reached = np.zeros_like(worth), np.zeros_like(worth), plan.branch_probabilities()
    # The root is the last branch.
    reach[-1] = 1
    # A group of decisions precedes the groups that lead to it.
    for (options, starts, branches), actions in reversed(list(zip(plan.tree.decisions, choices, strict=True))):
        branch = np.repeat(branches, np.diff([*starts, len(options)]))
        mass = reached[options[:, 0]] @ beliefs
        values = worth[options]
        # A decision that no opponent leads to has no regret.
        regret = np.divide(
            values.max(axis=1, keepdims=True) - values, mass[:, None], where=mass[:, None] > 0, out=0 * values
        )
        regrets[options] = regrets[branch][:, None] + regret
        reach[options] = reach[branch][:, None] * (actions[:, None] == np.arange(options.shape[1])[:, None])
    return regrets, reach
