"""State-action bubbles by episode, as in the paper's Appendix E: actions per state, and their change over episodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from math import log2, sqrt
from pathlib import Path
from typing import NamedTuple

from benchmarks import figures
from benchmarks.report.html_text import short, shown
from benchmarks.report.runs import ReportedRun

STATES, ACTIONS = 48, 16
"""Maximum number of states and actions per figure. The text above the figure counts the omitted ones."""
_SHOWN = 160
"""Maximum number of characters of a state in the list below the figure."""
_WIDTH, _LEFT, _TOP, _ROW = 470, 30, 8, 15
_LARGEST = 7.0
"""Radius of the most frequent pair in pixels."""

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


def measured(episodes: Sequence[Choices]) -> Bubbles:
    """Return the axes and measures for the choices of a run."""
    states: Counter[str] = Counter()
    actions: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    for episode in episodes:
        for (state, action), count in episode.items():
            states[state] += count
            actions[action] += count
        seen.update({state for state, _ in episode})
    # The state itself is the last key, so that ties have the same order in every report.
    ordered = sorted(states, key=lambda state: (seen[state] < 2, -states[state], state))
    return Bubbles(
        states=tuple(ordered[:STATES]),
        actions=tuple(sorted(actions, key=lambda action: (-actions[action], action))[:ACTIONS]),
        shared=sum(count > 1 for count in seen.values()),
        all_states=len(states),
        all_actions=len(actions),
        entropy=tuple(map(_entropy, episodes)),
        overlap=tuple(None if k == 0 else _overlap(episodes[k - 1], one) for k, one in enumerate(episodes)),
    )


def _entropy(episode: Choices) -> float:
    """Return the conditional entropy H(action | state): the sum over (s, a) of p(s, a) log2(n(s) / n(s, a))."""
    in_state: Counter[str] = Counter()
    for (state, _), count in episode.items():
        in_state[state] += count
    return sum(count * log2(in_state[state] / count) for (state, _), count in episode.items()) / max(episode.total(), 1)


def _overlap(before: Choices, now: Choices) -> float:
    a, b = max(before.total(), 1), max(now.total(), 1)
    return sum(min(before[pair] / a, count / b) for pair, count in now.items())


def bubbles(groups: Sequence[Sequence[ReportedRun]]) -> str:
    """Return the HTML of one figure per run. Only the first one is open."""
    parts: list[str] = []
    for run in (run for group in groups for run in group):
        state = "" if parts else " open"
        told = f"{shown(run.method)} <span class='quiet'>{shown(run.setting)}</span>"
        parts.append(f"<details{state}><summary>{told}</summary>{_figure(run)}</details>")
    return "".join(parts)


def _figure(run: ReportedRun) -> str:
    if not run.choices:
        return '<p class="quiet">No call of play.</p>'
    found = measured(run.choices)
    panels = "".join(_panel(run.choices[k], k, found, run) for k in range(len(run.choices)))
    left = [
        f"{less:,} more {name}"
        for less, name in (
            (found.all_states - len(found.states), "states"),
            (found.all_actions - len(found.actions), "actions"),
        )
        if less
    ]
    more = f" Not drawn: {' and '.join(left)}." if left else ""
    about = f"{found.shared:,} of {found.all_states:,} states occur in at least two episodes; they come first.{more}"
    listed = (f"<li><code>{shown(short(state, _SHOWN))}</code></li>" for state in found.states)
    acted = (f"<li><code>{shown(short(action, _SHOWN))}</code></li>" for action in found.actions)
    return (
        f'<p class="quiet">{about}</p><div class="multiples wide">{panels}</div><details><summary>What the numbers on '
        f'the axes stand for</summary><div class="two"><div><h4>Actions</h4><ol>{"".join(acted)}</ol></div>'
        f"<div><h4>States</h4><ol>{''.join(listed)}</ol></div></div></details>"
    )


def _panel(episode: Choices, k: int, found: Bubbles, run: ReportedRun) -> str:
    overlap = found.overlap[k]
    told = f"entropy {found.entropy[k]:.2f} bits"
    told += "" if overlap is None else f", overlap with episode {k} {overlap:.0%}"
    svg = "".join(_svg(episode, k, found, run))
    return f'<figure><figcaption>Episode {k + 1} <span class="quiet">{told}</span></figcaption>{svg}</figure>'


def _svg(episode: Choices, k: int, found: Bubbles, run: ReportedRun) -> Iterator[str]:
    height = _TOP + _ROW * len(found.actions) + 30
    # At least 12 columns, so that a game of few states does not spread its bubbles over the whole width.
    step = (_WIDTH - _LEFT - 8) / max(len(found.states), 12)
    largest = max(episode.values())
    name = f"How often each action was taken in each state, episode {k + 1}, {run.method}"
    yield f'<svg viewBox="0 0 {_WIDTH} {height}" class="chart bubbles" role="img" aria-label="{shown(name)}">'
    for row in range(len(found.actions)):
        y = _TOP + _ROW * (row + 0.5)
        yield f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - 8}" y1="{y}" y2="{y}"/>'
        yield f'<text class="tick end" x="{_LEFT - 6}" y="{y + 4}">{row + 1}</text>'
    for column in range(len(found.states)):
        if column == 0 or (column + 1) % 5 == 0:
            yield f'<text class="tick" x="{_LEFT + step * (column + 0.5):.1f}" y="{height - 16}">{column + 1}</text>'
    yield f'<text class="tick" x="{(_LEFT + _WIDTH) / 2}" y="{height - 3}">state</text>'
    for row, action in enumerate(found.actions):
        for column, state in enumerate(found.states):
            count = episode[state, action]
            if count:
                # The area is proportional to the count, hence the square root; 0.8 pixels are still visible.
                told = f"state {column + 1}, {short(action, 60)}: {count} times"
                yield f'<circle cx="{_LEFT + step * (column + 0.5):.1f}" cy="{_TOP + _ROW * (row + 0.5)}" '
                yield f'r="{max(_LARGEST * sqrt(count / largest), 0.8):.2f}"><title>{shown(told)}</title></circle>'
    yield "</svg>"


def draw(path: Path, runs: Sequence[ReportedRun]) -> None:
    """Draw a PNG with a row per run and a panel per episode. Raise ImportError if matplotlib is not installed."""
    columns = max(len(run.choices) for run in runs)
    figure = figures.blank(3.4 * columns, 2.6 * len(runs), 120, what="--bubbles")
    grid = figure.subplots(len(runs), columns, squeeze=False)
    for axes, run in zip(grid, runs, strict=True):
        found = measured(run.choices)
        states = {state: place for place, state in enumerate(found.states, 1)}
        actions = {action: place for place, action in enumerate(found.actions, 1)}
        # A run with fewer episodes than the longest one leaves empty panels.
        for spare in axes[len(run.choices) :]:
            spare.remove()
        for k, (axis, episode) in enumerate(zip(axes, run.choices)):
            drawn = [(states[s], actions[a], n) for (s, a), n in episode.items() if s in states and a in actions]
            largest = max((n for *_, n in drawn), default=1)
            x, y, n = zip(*drawn) if drawn else ((), (), ())
            axis.scatter(x, y, [90 * count / largest for count in n], color="#1f5fa8", alpha=0.7, linewidth=0)
            overlap = found.overlap[k]
            told = f"{found.entropy[k]:.2f} bits" + ("" if overlap is None else f", overlap {overlap:.0%}")
            axis.set_title(f"{run.method if k == 0 else ''} episode {k + 1}: {told}".strip(), fontsize=7)
            axis.set_xlim(0, len(states) + 1)
            axis.set_ylim(len(actions) + 1, 0)
            axis.set_xlabel("state", fontsize=7)
            axis.set_ylabel("action", fontsize=7)
            axis.tick_params(labelsize=6)
    figures.save(figure, path)
