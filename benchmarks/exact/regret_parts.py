"""The regret of meta-episodes in parts that add up (`opponents.exact.decomposition`), as estimates and as a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from benchmarks.evaluation.scoring.estimates import Estimate
from benchmarks.evaluation.tables.summary_table import number
from mage_envs.cli.tables import Block, TextTable
from opponents.exact.decomposition import DecisionParts, OwnBelief, decompose
from opponents.exact.regret import DecisionValues, PlayedHand
from trainer.method.trajectory import Trajectory
from wrappers.memory import BELIEF


class DecomposedMetaEpisode(NamedTuple):
    """A meta-episode with the parts of each decision's regret."""

    hands: int
    """Planned hands per episode."""
    episode_of: Sequence[int]
    """Index of each hand's episode."""
    parts: Sequence[Sequence[DecisionParts]]
    """Parts of each decision, by hand."""
    named: Sequence[str | None]
    """Opponent that each answer named, or None."""
    opponent: str

    @classmethod
    def of(
        cls,
        trajectory: Trajectory,
        played: Sequence[PlayedHand],
        pool: Sequence[str],
        alone: DecisionValues,
        whole: DecisionValues,
    ) -> DecomposedMetaEpisode:
        """Return the parts of a finished meta-episode.

        Args:
            trajectory: The meta-episode. Its answers to the question for the opponent are the agent's beliefs.
            played: Its hands.
            pool: Names of the pool's opponents.
            alone: Values of decisions by the rest of the hand.
            whole: Values of decisions by the rest of the meta-episode.
        """
        answers = answers_of(trajectory)
        beliefs = []
        for hand in played:
            asked = hand.episode in answers
            name = answers.get(hand.episode)
            beliefs.append(OwnBelief(pool.index(name) if name in pool else None, asked))
        parts = decompose(alone, whole, played, beliefs)
        return cls(
            hands=trajectory.episodes[0].hands,
            episode_of=[hand.episode for hand in played],
            parts=parts,
            named=list(answers.values()),
            opponent=trajectory.opponent,
        )


def answers_of(trajectory: Trajectory) -> dict[int, str | None]:
    """Return the opponent that the agent named before each episode; None for an answer that names none."""
    return {
        step.episode: event["named"]
        for step in trajectory.steps
        if step.kind == BELIEF
        for event in step.events
        if event.get("event") == BELIEF
    }


@dataclass(frozen=True, kw_only=True)
class EpisodeParts:
    """Parts of the regret of one episode, or of all, per hand of an episode."""

    regret: Estimate
    exploration: Estimate
    inference: Estimate
    decision: Estimate
    unsplit: Estimate
    """Inference and decision together, of decisions whose belief is not known."""
    least: Estimate
    """Inference of the opponent that was most likely before each episode."""


@dataclass(frozen=True, kw_only=True)
class RegretParts:
    """Regret by the rest of the meta-episode, in parts that add up."""

    elicited: bool
    """True if the agent was asked for its belief."""
    answers: int
    named: int
    """Number of answers that name an opponent."""
    right: int
    """Number of answers that name the opponent that the agent faced."""
    episodes: tuple[EpisodeParts, ...]
    total: EpisodeParts


def parts_of(
    found: Sequence[DecomposedMetaEpisode], estimate: Callable[[Sequence[float]], Estimate]
) -> RegretParts | None:
    """Return the mean parts, or None if some meta-episode lacks an episode.

    Args:
        found: Decomposed meta-episodes.
        estimate: Function that returns the mean of one value per meta-episode with its interval.
    """
    episodes = max(max(one.episode_of) for one in found) + 1
    if any(set(one.episode_of) != set(range(episodes)) for one in found):
        return None
    answers = [(name, one.opponent) for one in found for name in one.named]
    return RegretParts(
        elicited=bool(answers),
        answers=len(answers),
        named=sum(name is not None for name, _ in answers),
        right=sum(name == opponent for name, opponent in answers),
        episodes=tuple(_mean(found, {k}, estimate, bool(answers)) for k in range(episodes)),
        total=_mean(found, set(range(episodes)), estimate, bool(answers)),
    )


def _mean(
    found: Sequence[DecomposedMetaEpisode],
    episodes: set[int],
    estimate: Callable[[Sequence[float]], Estimate],
    elicited: bool,
) -> EpisodeParts:
    """Return the mean parts of some episodes.

    Args:
        found: Decomposed meta-episodes.
        episodes: Indices of the episodes, which are added up.
        estimate: Function that returns the mean of one value per meta-episode with its interval.
        elicited: False if no part of the hand's regret may be called inference or decision.
    """

    def mean(of: Callable[[DecisionParts], float]) -> Estimate:
        values = []
        for one in found:
            chosen = [parts for parts, k in zip(one.parts, one.episode_of, strict=True) if k in episodes]
            values.append(sum(of(part) for parts in chosen for part in parts) / one.hands)
        return estimate(values)

    def split(part: DecisionParts) -> bool:
        return elicited and part.inference is not None

    return EpisodeParts(
        regret=mean(lambda part: part.regret),
        exploration=mean(lambda part: part.exploration),
        inference=mean(lambda part: (part.inference or 0.0) if split(part) else 0.0),
        decision=mean(lambda part: (part.decision or 0.0) if split(part) else 0.0),
        unsplit=mean(lambda part: 0.0 if split(part) else part.regret - part.exploration),
        least=mean(lambda part: (part.least or 0.0) if split(part) else 0.0),
    )


def blocks(found: RegretParts) -> list[Block]:
    """Return the parts as a table and notes."""
    rows = []
    for name, one in [*((str(k), one) for k, one in enumerate(found.episodes, start=1)), ("all", found.total)]:
        split = [one.inference, one.decision] if found.elicited else []
        rows.append([name, *map(_shown, [one.regret, *split, one.unsplit, one.exploration])])
    if not found.elicited:
        note = "inference and decision are one figure: the agent was not asked for its belief (mage eval --elicit)"
        return [TextTable(["episode", "regret", "inference + decision", "exploration"], rows), note]
    return [
        TextTable(["episode", "regret", "inference", "decision", "not split", "exploration"], rows),
        f"{found.right} of {found.answers} answers named the opponent that the agent faced, "
        f"{found.answers - found.named} named none (not split)",
        f"inference of the most likely opponent: {_shown(found.total.least)}; one name says less than a posterior",
    ]


def _shown(one: Estimate) -> str:
    return number(one.mean) if one.half is None else f"{number(one.mean)} ± {one.half:.4f}"
