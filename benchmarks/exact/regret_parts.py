"""The regret of meta-episodes in parts that add up, as estimates and as a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mage_envs.benchmarks.evaluation.scoring.estimates import Estimate, estimate
from mage_envs.benchmarks.evaluation.tables.summary_table import NOT_KNOWN, number
from mage_envs.cli.tables import Block, TextTable
from mage_envs.opponents.exact.decomposition import DecisionParts, HandParts, OwnBelief, decompose
from mage_envs.opponents.exact.regret import DecisionValues
from mage_envs.opponents.exact.rest import PlayedHand
from mage_envs.wrappers.memory import BELIEF, GUESS
from mage_envs.wrappers.rollout.trajectory import Trajectory


class DecomposedMetaEpisode(NamedTuple):
    """A meta-episode with the parts of each decision's regret."""

    hands: int
    """Planned hands per episode."""
    episode_of: Sequence[int]
    """Index of each hand's episode."""
    parts: Sequence[HandParts]
    """Parts of each decision, by hand."""
    answers: dict[int, OwnBelief]
    """The agent's answer before each episode about which it was asked."""
    opponent: int
    """Index of the opponent that was met."""
    seed: int

    @classmethod
    def of(
        cls,
        trajectory: Trajectory,
        hands: Sequence[PlayedHand],
        pool: Sequence[str],
        hand_values: DecisionValues,
        remainder_values: DecisionValues,
    ) -> DecomposedMetaEpisode:
        """Return the parts of a finished meta-episode.

        Args:
            trajectory: The meta-episode. Its answers to the question for the opponent are the agent's beliefs.
            pool: Names of the pool's opponents.
            hand_values: Values of decisions by the rest of the hand.
            remainder_values: Values of decisions by the rest of the meta-episode.
        """
        answers = answers_of(trajectory, pool)
        not_asked = OwnBelief(was_asked=False)
        return cls(
            hands=trajectory.episodes[0].hands,
            episode_of=[hand.episode for hand in hands],
            parts=decompose(
                hand_values, remainder_values, hands, [answers.get(hand.episode, not_asked) for hand in hands]
            ),
            answers=answers,
            opponent=pool.index(trajectory.opponent),
            seed=trajectory.task.seed,
        )

    def posterior(self, episode: int) -> Sequence[float]:
        """Return the exact probability of each opponent before an episode."""
        return self.parts[self.episode_of.index(episode)].posterior


def answers_of(trajectory: Trajectory, pool: Sequence[str]) -> dict[int, OwnBelief]:
    """Return the belief that the agent stated before each episode about which it was asked."""
    answers = {}
    for step in trajectory.steps:
        for event in step.events if step.kind in (BELIEF, GUESS) else ():
            if event.get("event") == BELIEF:
                stated = event["probabilities"]
                is_valid = stated is not None and stated.keys() <= set(pool)
                answers[step.episode] = OwnBelief([stated.get(name, 0.0) for name in pool] if is_valid else None)
            elif event.get("event") == GUESS:
                name = event["name"]
                row = [float(name == opponent) for opponent in pool] if name in pool else None
                answers[step.episode] = OwnBelief(row, is_name=True)
    return answers


def brier_score(belief: Sequence[float], opponent: int) -> float:
    """Return the quadratic score of G. W. Brier (1950), the sum of squared errors: 0 is best and 2 is worst."""
    return sum((chance - (index == opponent)) ** 2 for index, chance in enumerate(belief))


@dataclass(frozen=True, kw_only=True)
class EpisodeParts:
    """Parts of the regret of one episode, or of all, per hand of an episode."""

    regret: Estimate
    inference: Estimate
    exploration: Estimate
    decision: Estimate
    unsplit: Estimate
    """Inference and decision together, of decisions whose belief is not known."""
    gap: Estimate
    """Loss of the acts against the best ones under the reported belief, priced under this belief; no part of the
    regret."""
    brier: Estimate | None
    """Quadratic score of the reported probabilities; None without any."""
    posterior_brier: Estimate | None
    """That of the exact posterior before the same episodes."""


@dataclass(frozen=True, kw_only=True)
class RegretParts:
    """Regret by the rest of the meta-episode, in parts that add up."""

    elicited: bool
    """True if the agent was asked for its belief."""
    is_name: bool
    """True if the agent was asked for one name."""
    answers: int
    valid: int
    """Number of answers that state a belief."""
    right: int
    """Number of names that are those of the opponent that the agent faced."""
    episodes: tuple[EpisodeParts, ...]
    total: EpisodeParts


def parts_of(rows: Sequence[DecomposedMetaEpisode], weights: Sequence[float]) -> RegretParts | None:
    """Return the mean parts, or None if an episode of a meta-episode is missing.

    Args:
        rows: Decomposed meta-episodes.
    """
    episodes = max(max(row.episode_of) for row in rows) + 1
    if any(set(row.episode_of) != set(range(episodes)) for row in rows):
        return None
    answers = [(answer, row.opponent) for row in rows for answer in row.answers.values()]
    valid = [(answer.probabilities, opponent) for answer, opponent in answers if answer.probabilities is not None]
    names = [probabilities[opponent] for probabilities, opponent in valid] if any(a.is_name for a, _ in answers) else []
    means = _Means(rows, weights)
    return RegretParts(
        elicited=bool(answers),
        is_name=any(answer.is_name for answer, _ in answers),
        answers=len(answers),
        valid=len(valid),
        right=sum(chance == 1 for chance in names),
        episodes=tuple(means.of({k}) for k in range(episodes)),
        total=means.of(set(range(episodes))),
    )


class _Means:
    """Means over meta-episodes, clustered by seed and weighted by opponent."""

    def __init__(self, rows: Sequence[DecomposedMetaEpisode], weights: Sequence[float]) -> None:
        self._rows = rows
        self._weights = {str(index): weight for index, weight in enumerate(weights)}
        self._elicited = any(row.answers for row in rows)

    def of(self, episodes: set[int]) -> EpisodeParts:
        """Return the mean parts of some episodes, which are added up; the scores of beliefs are means."""

        def is_split(part: DecisionParts) -> bool:
            return self._elicited and part.inference is not None

        scores = [self._scores(row, episodes) for row in self._rows]
        scored_rows = [(row, score) for row, score in zip(self._rows, scores, strict=True) if score is not None]
        agent_score, exact = (
            self._estimate([row for row, _ in scored_rows], [score[index] for _, score in scored_rows])
            if scored_rows
            else None
            for index in range(2)
        )
        return EpisodeParts(
            regret=self._mean(episodes, lambda part: part.regret),
            inference=self._mean(episodes, lambda part: (part.inference or 0.0) if is_split(part) else 0.0),
            exploration=self._mean(episodes, lambda part: part.exploration),
            decision=self._mean(episodes, lambda part: (part.decision or 0.0) if is_split(part) else 0.0),
            unsplit=self._mean(episodes, lambda part: 0.0 if is_split(part) else part.regret - part.exploration),
            gap=self._mean(episodes, lambda part: (part.gap or 0.0) if is_split(part) else 0.0),
            brier=agent_score,
            posterior_brier=exact,
        )

    def _mean(self, episodes: set[int], value_of: Callable[[DecisionParts], float]) -> Estimate:
        values = []
        for row in self._rows:
            hands = [hand for hand, k in zip(row.parts, row.episode_of, strict=True) if k in episodes]
            values.append(sum(value_of(part) for hand in hands for part in hand.decisions) / row.hands)
        return self._estimate(self._rows, values)

    @staticmethod
    def _scores(row: DecomposedMetaEpisode, episodes: set[int]) -> tuple[float, float] | None:
        """Return the mean quadratic scores of the agent and of the posterior, or None without probabilities."""
        pairs = [
            (brier_score(answer.probabilities, row.opponent), brier_score(row.posterior(k), row.opponent))
            for k, answer in row.answers.items()
            if k in episodes and answer.probabilities is not None and not answer.is_name
        ]
        if not pairs:
            return None
        agent_scores, posterior_scores = zip(*pairs, strict=True)
        return sum(agent_scores) / len(pairs), sum(posterior_scores) / len(pairs)

    def _estimate(self, rows: Sequence[DecomposedMetaEpisode], values: Sequence[float]) -> Estimate:
        return estimate(values, [row.seed for row in rows], [str(row.opponent) for row in rows], self._weights)


def part_rows(parts: RegretParts, unit: float = 1.0) -> list[list[str]]:
    """Return one row for each part and for the belief: its name, the sum over the episodes, and each episode.

    Args:
        unit: Value that counts as 1.
    """
    columns = (parts.total, *parts.episodes)

    def row(name: str, estimate_of: Callable[[EpisodeParts], Estimate | None], scale: float = unit) -> list[str]:
        return [name, *(format_estimate(estimate_of(column), scale) for column in columns)]

    rows = [row("regret", lambda column: column.regret)]
    if parts.elicited:
        rows += [row("= inference", lambda column: column.inference)]
        rows += [row("+ exploration", lambda column: column.exploration)]
        rows += [row("+ decision", lambda column: column.decision)]
        if parts.valid < parts.answers:
            rows += [row("+ not split", lambda column: column.unsplit)]
        rows += [row("acts against own belief", lambda column: column.gap)]
    else:
        rows += [row("= inference + decision", lambda column: column.unsplit)]
        rows += [row("+ exploration", lambda column: column.exploration)]
    if parts.total.brier is not None:
        rows += [row("Brier score of the belief", lambda column: column.brier, 1.0)]
        rows += [row("that of the posterior", lambda column: column.posterior_brier, 1.0)]
    return rows


def notes(parts: RegretParts) -> list[str]:
    """Return the number of answers and what an answer cannot say."""
    if not parts.elicited:
        return ["inference and decision are one figure: the agent was not asked for its belief (mage eval --elicit)"]
    invalid = f", {parts.answers - parts.valid} were invalid (not split)" if parts.valid < parts.answers else ""
    if not parts.is_name:
        return [f"{parts.valid} of {parts.answers} answers state probabilities{invalid}"]
    return [
        f"{parts.right} of {parts.answers} answers named the opponent that the agent faced{invalid}",
        "one name says less than a posterior, so what the best name costs counts as decision, not as inference",
    ]


def blocks(parts: RegretParts) -> list[Block]:
    """Return the parts as a table and notes."""
    columns = ["part", "all", *(f"episode {k}" for k in range(1, len(parts.episodes) + 1))]
    return [TextTable(columns, part_rows(parts)), *notes(parts)]


def format_estimate(value: Estimate | None, unit: float = 1.0) -> str:
    """Return an estimate with its interval in a unit."""
    if value is None:
        return NOT_KNOWN
    mean = number(value.mean / unit)
    return mean if value.half is None else f"{mean} ± {value.half / unit:.4f}"
