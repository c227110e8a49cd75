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


def remarks(played: Sitting, judged: JudgedMetaEpisode, pool: Mapping[str, float], player: str) -> list[str]:
    """Return sentences on the most expensive decisions of a meta-episode, in the order of play.

    Args:
        played: Finished meta-episode.
        judged: The same with the regret of its decisions.
        pool: Weights of the opponents by name.
        player: Name of the player.
    """
    decisions = list(decision_costs(played, judged, pool))
    least = max(sorted((one.cost for one in decisions), reverse=True)[:MAX_REMARKS][-1:], default=0.0)
    subject = player.capitalize() if player == "you" else player
    texts = [
        f"{one.heading}: {subject} played {one.action} ({one.situation}). That cost {one.cost:.2f} {played.spec.unit} "
        f"here; the opponent was probably {one.opponent}, {one.chance:.0%}."
        for one in decisions
        if one.cost >= max(least, LEAST_COST)
    ][:MAX_REMARKS]
    return texts or ["No decision cost anything, given what could be known of the opponent."]


def too_few(hands: int) -> str:
    """Return the sentence on a level that is not printed."""
    return f"Too few hands for a level of play: {hands}. It is printed from {MIN_HANDS} on."


def decision_costs(sitting: Sitting, judged: JudgedMetaEpisode, pool: Mapping[str, float]) -> Iterator[DecisionCost]:
    """Yield the legal decisions of a meta-episode with their costs."""
    names = list(pool)
    legal = (
        (heading, shown, step.action)
        for (heading, shown), step in zip(sitting.headings, sitting.trajectory.steps)
        if step.phase == "play" and step.action is not None
    )
    for hand, choices in zip(judged.hands, judged.choices):
        # An ending outside of the rules has a regret of its own, which belongs to no choice.
        for _, beliefs, cost in zip(choices, hand.beliefs, hand.regrets):
            heading, shown, action = next(legal)
            likely = max(range(len(names)), key=beliefs.__getitem__)
            yield DecisionCost(
                heading=heading,
                situation=shown.rstrip("."),
                action=action,
                cost=cost,
                opponent=names[likely],
                chance=beliefs[likely],
            )
