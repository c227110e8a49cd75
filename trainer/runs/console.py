"""Console output of a run: one line per rollout, and on a terminal the progress of the current one. No torch here."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import TextIO

from mage_envs.progress import ProgressLine
from mage_envs.trainer.config.run_settings import RunSettings
from mage_envs.trainer.runs.panel_evaluation import LINES

Metrics = Mapping[str, float]


class Console:
    """Writer of a run's lines. If the stream is not a terminal, it writes only whole lines.

    Args:
        rollouts: Rollouts of the run; None if its length is counted in updates.
        updates: Optimiser steps of the run.
        verbose: True for more lines per rollout (`details`).
        redrawn: True to redraw a progress line on a terminal.
    """

    def __init__(
        self,
        stream: TextIO,
        rollouts: int | None,
        updates: int,
        verbose: bool = False,
        redrawn: bool = True,
        measure: str = "success",
    ) -> None:
        self._line = ProgressLine(stream, redrawn)
        self._rollouts, self._updates = rollouts, updates
        self._verbose, self._measure = verbose, measure
        self._began: tuple[float, float] | None = None
        """Time in seconds, and share of the run done, when the first rollout of this process began."""

    def on_rollout_begin(self, rollout: int, step: int) -> None:
        """Note the start of a rollout, from which the remaining time is estimated."""
        if self._began is None:
            self._began = time.monotonic(), self._share(rollout, step)

    def on_rollout_progress(self, rollout: int, num_finished: int, total: int) -> None:
        """Show the progress of a rollout on a terminal.

        Args:
            num_finished: Meta-episodes that have ended.
            total: Meta-episodes of the rollout.
        """
        self._line.draw(f"rollout {rollout + 1}: {num_finished} of {total} meta-episodes")

    def on_update(self, rollout: int, remaining_updates: int) -> None:
        """Show the number of updates that are left in a rollout."""
        if remaining_updates:
            self._line.draw(f"rollout {rollout + 1}: {remaining_updates} updates left")

    def on_rollout_end(self, rollout: int, step: int, metrics: Metrics) -> None:
        """Write the lines of a rollout after its last update.

        Args:
            step: Optimiser steps of the run so far.
            metrics: Metrics of the rollout, and the means over its updates.
        """
        remaining_seconds = self._remaining_seconds(rollout + 1, step)
        self.write(rollout_line(rollout, self._rollouts, metrics, remaining_seconds, self._measure))
        if self._verbose:
            for line in details(metrics):
                self.write(f"    {line}")

    def write(self, text: str) -> None:
        """Write a whole line. On a terminal it replaces the progress line."""
        self._line.write(text)

    def _share(self, rollouts: int, step: int) -> float:
        """Return the share of the run that is done, in [0, 1]."""
        return rollouts / self._rollouts if self._rollouts else step / self._updates

    def _remaining_seconds(self, rollouts: int, step: int) -> float | None:
        """Return the remaining seconds at the speed of this process so far; None before the first rollout ends."""
        # Relative to the start of this process, because a resumed run did not spend its time on earlier rollouts.
        share = self._share(rollouts, step)
        if self._began is None or share <= self._began[1]:
            return None
        return (time.monotonic() - self._began[0]) / (share - self._began[1]) * max(1 - share, 0.0)


def console_of(config: RunSettings, measure: str = "success") -> Console | None:
    """Return the console on stderr, or None if `logging_strategy="no"`. `measure`: as in `rollout_line`."""
    if config.logging_strategy == "no":
        return None
    return Console(
        stream=sys.stderr,
        rollouts=config.max_rollouts,
        updates=config.max_steps,
        verbose=config.verbose,
        redrawn=not config.disable_tqdm,
        measure=measure,
    )


def rollout_line(
    rollout: int, rollouts: int | None, metrics: Metrics, remaining_seconds: float | None, measure: str = "success"
) -> str:
    """Format the main metrics of a rollout in about a hundred characters.

    Args:
        rollout: Index of the rollout, from 0.
        rollouts: Rollouts of the run; None if unknown.
        metrics: Metrics of the rollout. A metric that is absent is omitted.
        remaining_seconds: Remaining seconds of the run; None if unknown.
        measure: Headline measure of the game, `value` per hand or `success`, whose means by episode are shown.

    Returns:
        The line, without a line break.
    """
    number = f"{rollout + 1}/{rollouts}" if rollouts else f"{rollout + 1}"
    by_episode = episodes_text(metrics, measure)
    parts = [
        f"rollout {number}",
        f"reward {metrics['reward']:.2f}" if "reward" in metrics else "no reward",
        f"{measure} {by_episode}" if by_episode else "",
        f"KL {metrics['kl']:.3f}" if "kl" in metrics else "",
        f"clip {_share_text(metrics['clip_ratio/any'])}" if "clip_ratio/any" in metrics else "",
        f"invalid {_share_text(metrics.get('invalid', 0.0) + metrics.get('length', 0.0))}",
        f"failed {metrics.get('failures', 0):.0f}",
        f"{metrics['tokens/sampled_per_second']:,.0f} tok/s" if "tokens/sampled_per_second" in metrics else "",
        f"{format_duration(remaining_seconds)} left" if remaining_seconds is not None else "",
    ]
    return "  ".join(part for part in parts if part)


def evaluation_lines(metrics: Metrics, measure: str) -> list[str]:
    """Return the lines of an evaluation: the measure by episode, beside the exact lines, and what memory gains.

    Args:
        measure: Headline measure of the game, `value` per hand or `success`.
    """
    lines = [f"{measure} by episode {episodes_text(metrics, measure)}"]
    for name, title in LINES.items():
        # The exact lines are values per hand.
        if measure == "value" and (text := episodes_text(metrics, name)):
            lines[0] += f"; {title} {text}"
    if "gain/part_of_memory" in metrics:
        own, rest = metrics["gain/own_memory"], metrics["gain/no_memory"]
        part, half = metrics["gain/part_of_memory"], metrics["gain/half"]
        lines.append(
            f"gain {own:+.3f} from the first to the last episode, {rest:+.3f} without memory: memory is worth "
            f"{part:+.3f} ± {half:.3f}"
        )
    return lines


def details(metrics: Metrics) -> list[str]:
    """Return further lines: success and value of each opponent by episode, failed replies, the update, time."""
    names = sorted({key.split("/", 2)[2] for key in metrics if key.startswith("success/episode_1/")})
    lines = [
        f"{name}: success {' '.join(map(_share_text, episode_values(metrics, 'success', name)))}  "
        f"value {' '.join(f'{value:+.3f}' for value in episode_values(metrics, 'value', name))}"
        for name in names
    ]
    shares = ("invalid", "length", "overflow", "completions/truncated", "environment_share")
    numbers = (
        "loss",
        "grad_norm",
        "learning_rate",
        "entropy",
        "sampling/log_abs",
        "tokens/padding_factor",
        "updates/skipped",
    )
    lines.append("  ".join(f"{name} {_share_text(metrics[name])}" for name in shares if name in metrics))
    lines.append("  ".join(f"{name} {metrics[name]:.4g}" for name in numbers if name in metrics))
    return [line for line in lines if line]


def episodes_text(metrics: Metrics, measure: str) -> str:
    """Return the values of a measure by episode: `.30 .35 .44`."""
    return " ".join(_share_text(value) for value in episode_values(metrics, measure))


def episode_values(metrics: Metrics, measure: str, name: str = "") -> Sequence[float]:
    """Return the values of a measure by episode, over all opponents or for one."""
    values: list[float] = []
    while (key := f"{measure}/episode_{len(values) + 1}{f'/{name}' if name else ''}") in metrics:
        values.append(metrics[key])
    return values


def _share_text(value: float) -> str:
    """Format a number with two digits, without the leading zero of a share."""
    text = f"{value:.2f}"
    return text.replace("0.", ".", 1) if abs(value) < 1 else text


def format_duration(seconds: float) -> str:
    """Format a duration in hours and minutes, or in minutes and seconds if it is below one hour."""
    minutes, remaining_seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {remaining_seconds} s" if minutes else f"{remaining_seconds} s"
