"""State-action bubbles by episode, as in the paper's Appendix E: actions per state, and their change over episodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import log2
from pathlib import Path
from typing import NamedTuple

from mage_envs.benchmarks import figures
from mage_envs.benchmarks.report.runs import ReportedRun

STATES, ACTIONS = 48, 16
"""Maximum number of states and actions per figure. The text above the figure counts the omitted ones."""
Choices = Counter[tuple[str, str]]


class Bubbles(NamedTuple):
    """Axes of one run, and measures of how its episodes differ."""

    states: tuple[str, ...]
    """Shown states: first those that occur in at least two episodes, then the others, each group by frequency."""
    actions: tuple[str, ...]
    """Shown actions by frequency."""
    shared: int
    """Number of all states that occur in at least two episodes."""
    all_states: int
    all_actions: int
    entropy: tuple[float, ...]
    """Mean entropy of the action in a state in bits, per episode, over its decisions."""
    overlap: tuple[float | None, ...]
    """Overlap of each episode with the one before, from 0 to 1; None for the first episode. It is the sum over (state,
    action) of the smaller of both relative frequencies."""


def measure_choices(episodes: Sequence[Choices]) -> Bubbles:
    """Return the axes and measures for the choices of a run."""
    states: Counter[str] = Counter()
    actions: Counter[str] = Counter()
    episode_counts: Counter[str] = Counter()
    for episode in episodes:
        for (state, action), count in episode.items():
            states[state] += count
            actions[action] += count
        episode_counts.update({state for state, _ in episode})
    # The state itself is the last key, so that ties have the same order in every report.
    ordered = sorted(states, key=lambda state: (episode_counts[state] < 2, -states[state], state))
    return Bubbles(
        states=tuple(ordered[:STATES]),
        actions=tuple(sorted(actions, key=lambda action: (-actions[action], action))[:ACTIONS]),
        shared=sum(count > 1 for count in episode_counts.values()),
        all_states=len(states),
        all_actions=len(actions),
        entropy=tuple(map(_entropy, episodes)),
        overlap=tuple(None if k == 0 else _overlap(episodes[k - 1], episode) for k, episode in enumerate(episodes)),
    )


def _entropy(episode: Choices) -> float:
    """Return the conditional entropy H(action | state): the sum over (s, a) of p(s, a) log2(n(s) / n(s, a))."""
    in_state: Counter[str] = Counter()
    for (state, _), count in episode.items():
        in_state[state] += count
    return sum(count * log2(in_state[state] / count) for (state, _), count in episode.items()) / max(episode.total(), 1)


def _overlap(previous: Choices, current: Choices) -> float:
    previous_total, current_total = max(previous.total(), 1), max(current.total(), 1)
    return sum(min(previous[pair] / previous_total, count / current_total) for pair, count in current.items())


def draw(path: Path, runs: Sequence[ReportedRun]) -> None:
    """Draw a PNG with a row per run and a panel per episode. Raise ImportError if matplotlib is not installed."""
    columns = max(len(run.choices) for run in runs)
    figure = figures.blank(3.4 * columns, 2.6 * len(runs), 120, subject="--bubbles")
    grid = figure.subplots(len(runs), columns, squeeze=False)
    for axes, run in zip(grid, runs, strict=True):
        bubbles = measure_choices(run.choices)
        states = {state: position for position, state in enumerate(bubbles.states, 1)}
        actions = {action: position for position, action in enumerate(bubbles.actions, 1)}
        # A run with fewer episodes than the longest one leaves empty panels.
        for spare in axes[len(run.choices) :]:
            spare.remove()
        for k, (axis, episode) in enumerate(zip(axes, run.choices)):
            bubble_points = [
                (states[s], actions[a], n) for (s, a), n in episode.items() if s in states and a in actions
            ]
            largest = max((n for *_, n in bubble_points), default=1)
            x, y, n = zip(*bubble_points) if bubble_points else ((), (), ())
            axis.scatter(x, y, [90 * count / largest for count in n], color="#1f5fa8", alpha=0.7, linewidth=0)
            overlap = bubbles.overlap[k]
            caption = f"{bubbles.entropy[k]:.2f} bits" + ("" if overlap is None else f", overlap {overlap:.0%}")
            axis.set_title(f"{run.method if k == 0 else ''} episode {k + 1}: {caption}".strip(), fontsize=7)
            axis.set_xlim(0, len(states) + 1)
            axis.set_ylim(len(actions) + 1, 0)
            axis.set_xlabel("state", fontsize=7)
            axis.set_ylabel("action", fontsize=7)
            axis.tick_params(labelsize=6)
    figures.save(figure, path)
