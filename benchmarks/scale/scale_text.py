"""Scores on the scale of adaptation as text: the one sentence, and the one table of agents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mage_envs.benchmarks.evaluation.scoring.estimates import Estimate
from mage_envs.benchmarks.evaluation.tables.summary_table import NOT_KNOWN, number, share
from mage_envs.benchmarks.scale.scale import INVALID_PRICE, Scale, ScaleScore, verdict
from mage_envs.cli.tables import Block, TextTable
from mage_envs.text.visible import one_line

LEGEND = (
    "level: 0 is no memory (the best play that forgets between episodes), 1 is the best learner; both are exact.",
    "own memory, other's memory: adaptation, the level less that without memory, and with another opponent's memory.",
    "Both must be above 0 for the verdict 'adapts'. ±: half a 95% interval over meta-episodes.",
    f"An answer that names no legal action or was cut costs {share(INVALID_PRICE)} level, in every game.",
)


def score_text(score: ScaleScore | None) -> str:
    """Return `.43 ± .04`, or the worst and best completion if meta-episodes failed: `.28 to .70`."""
    if score is None:
        return NOT_KNOWN
    if not score.is_complete:
        return f"{share(score.worst)} to {share(score.best)}"
    return share(score.mean) if score.half is None else f"{share(score.mean)} ± {share(score.half)}"


def failures_text(*scores: ScaleScore | None) -> str:
    """Return the number of failed meta-episodes of each of the scores that has any, or an empty text."""
    failed = [f"{score.failed} of {score.planned}" for score in scores if score is not None and score.failed]
    return f"; {' and '.join(dict.fromkeys(failed))} failed" if failed else ""


def scale_sentence(
    agent: str, level: ScaleScore | None, own_score: ScaleScore | None, other_score: ScaleScore | None
) -> str:
    """Return the result of an agent in one sentence.

    Args:
        level: Its level, or None if memory of earlier episodes is worth nothing where it played.
        own_score: Its adaptation: the level less that without memory. None if that was not played.
        other_score: The level less that with another opponent's memory. None if that was not played.
    """
    name = one_line(agent)
    if level is None:
        return f"{name}: memory of earlier episodes is worth nothing here, so there is no level"
    if level.unmet:
        return (
            f"{name} has no score, because it never met {', '.join(map(one_line, level.unmet))}: level "
            f"{score_text(level)}{failures_text(level)}"
        )
    word = verdict(own_score, other_score)
    failed = failures_text(level, own_score)
    if own_score is None or other_score is None:
        return f"{name}: level {score_text(level)}{failed}, no verdict (played without the controls)"
    adaptation = score_text(own_score)
    parts = f"adaptation by its own memory {adaptation}, over another opponent's memory {score_text(other_score)}"
    if word is None:
        return f"{name}: no verdict, level {score_text(level)}, {parts}{failed}"
    return f"{name} {word}: {score_text(level)} level, {parts}{failed}"


@dataclass(frozen=True, kw_only=True)
class AgentRow:
    """One agent in the table of agents."""

    agent: str
    level: ScaleScore | None
    own_score: ScaleScore | None
    other_score: ScaleScore | None
    episodes: Sequence[Estimate | None]
    """Value of each episode per hand against the opponents that were met."""


def agent_table(
    rows: Sequence[AgentRow], scale: Scale | None, episodes: int, controls: Sequence[AgentRow] = ()
) -> TextTable:
    """Return the table of agents at one setting, the highest level first, with the reference lines below.

    Args:
        scale: Scale of the setting, or None if memory is worth nothing there.
        controls: Runs of the controls of one agent, below the agents.
    """
    ranked = sorted(rows, key=lambda row: -row.level.mean if row.level is not None else 0.0)
    table_rows = [
        [
            ("  " if row in controls else "") + one_line(row.agent),
            score_text(row.level),
            *(score_text(value) if row not in controls else "" for value in (row.own_score, row.other_score)),
            *(value_text(value) for value in row.episodes),
        ]
        for row in (*ranked, *controls)
    ]
    if scale is not None:
        known_level = scale.level(scale.hands * sum(scale.knows_opponent))
        scores = {"no memory": (".00", ".00"), "best learner": ("1.00", share(scale.best_adaptation))}
        for name, values in scale.lines().items():
            level, adaptation = scores.get(name, (share(known_level), ""))
            table_rows.append([name, level, adaptation, "", *map(number, values)])
    header = ["agent", "level", "own memory", "other's memory", *(f"episode {k + 1}" for k in range(episodes))]
    return TextTable(header, table_rows)


def value_text(value: Estimate | None) -> str:
    """Return the value of an episode with half its interval."""
    if value is None:
        return NOT_KNOWN
    return number(value.mean) if value.half is None else f"{number(value.mean)} ±{number(value.half)}"


def legend() -> list[Block]:
    """Return the explanation below a table."""
    return ["", *LEGEND]
