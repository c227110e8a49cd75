"""Sentences on the decisions of a few hands, of which a level would say nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from mage_envs.benchmarks.exact.judged_hands import JudgedMetaEpisode
from mage_envs.benchmarks.play.sitting import Sitting

MIN_HANDS = 20
"""Hands from which on the level of play is printed."""
MAX_REMARKS = 3
LEAST_COST = 0.005
"""Cost that is printed as more than 0.00."""


class DecisionCost(NamedTuple):
    """One decision with its exact cost."""

    heading: str
    situation: str
    """What the player saw, on one line."""
    action: str
    cost: float
    """Regret by the rest of the hand, in the game's unit."""
    opponent: str
    """Most likely opponent before the decision."""
    chance: float
    """Its posterior probability."""


def remarks(sitting: Sitting, meta_episode: JudgedMetaEpisode, pool: Mapping[str, float], player: str) -> list[str]:
    """Return sentences on the most expensive decisions of a meta-episode, in the order of play.

    Args:
        sitting: Finished meta-episode.
        meta_episode: The same with the regret of its decisions.
        pool: Weights of the opponents by name.
    """
    decisions = list(decision_costs(sitting, meta_episode, pool))
    threshold = max(sorted((decision.cost for decision in decisions), reverse=True)[:MAX_REMARKS][-1:], default=0.0)
    subject = player.capitalize() if player == "you" else player
    costly_decisions = [decision for decision in decisions if decision.cost >= max(threshold, LEAST_COST)][:MAX_REMARKS]
    texts = [
        f"{decision.heading}: {subject} played {decision.action} ({decision.situation}). That cost {decision.cost:.2f} "
        f"{sitting.spec.unit} here; the opponent was probably {decision.opponent}, {decision.chance:.0%}."
        for decision in costly_decisions
    ]
    return texts or ["No decision cost anything, given what could be known of the opponent."]


def too_few(hands: int) -> str:
    """Return the sentence on a level that is not printed."""
    return f"Too few hands for a level of play: {hands}. It is printed from {MIN_HANDS} on."


def decision_costs(
    sitting: Sitting, meta_episode: JudgedMetaEpisode, pool: Mapping[str, float]
) -> Iterator[DecisionCost]:
    """Yield the legal decisions of a meta-episode with their costs."""
    names = list(pool)
    legal = (
        (heading, situation, step.action)
        for (heading, situation), step in zip(sitting.headings, sitting.trajectory.steps)
        if step.phase == "play" and step.action is not None
    )
    for hand, choices in zip(meta_episode.hands, meta_episode.choices):
        # An ending outside of the rules has a regret of its own, which belongs to no choice.
        for _, beliefs, cost in zip(choices, hand.beliefs, hand.regrets):
            heading, situation, action = next(legal)
            likely = max(range(len(names)), key=beliefs.__getitem__)
            yield DecisionCost(
                heading=heading,
                situation=situation.rstrip("."),
                action=action,
                cost=cost,
                opponent=names[likely],
                chance=beliefs[likely],
            )
