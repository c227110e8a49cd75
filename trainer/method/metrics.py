"""Metrics of a rollout's trajectories, as numbers for the log. No torch here."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from mage_envs.text.parser import INVALID, LENGTH, OVERFLOW
from mage_envs.wrappers.rollout.trajectory import EpisodeResult, Trajectory

UPDATE_METRICS = (
    "loss/policy",
    "kl",
    "entropy",
    "uniform_legal",
    "clip_ratio/low",
    "clip_ratio/high",
    "clip_ratio/any",
    "ratio/log_abs",
    "sampling/correction",
    "sampling/log_abs",
    "sampling/k3",
    "sampling/truncated",
)
"""Metrics that the loss computes for an update, as means over its trained tokens."""
MISMATCH = "sampling/log_abs"
"""Mean |log p - log q|, p the trainer's probability and q the sampler's."""
LARGEST_RATIO = "sampling/largest"
"""The largest ratio of old to sampling probability in an update."""


class WronglyStarted(ValueError):
    """The launcher started processes of which none can train. Each of them raises this."""


def rollout_metrics(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """Return reward, value per hand (in chips or the game's unit) and success per episode, and further metrics.

    These are also reported per opponent and per category of task. The game's own metrics, failures and lengths are
    included.

    Keys: `reward`, `reward/episode_1`, `value/episode_1`, `success/episode_1`, `value/episode_1/<opponent>`,
    `success/episode_1/<category>`, `metrics/<name>/episode_1`, ... Episodes count from 1. Failed meta-episodes count in
    `failures` only; `failures/<kind>` counts failed attempts.
    """
    sound = [trajectory for trajectory in trajectories if trajectory.failure is None]
    metrics = {
        "failures": float(len(trajectories) - len(sound)),
        "retries": float(sum(trajectory.retries for trajectory in trajectories)),
    }
    kinds = Counter(failure.kind for trajectory in trajectories for failure in trajectory.failures)
    metrics |= {f"failures/{kind}": float(count) for kind, count in sorted(kinds.items())}
    episodes_by_key: dict[str, list[EpisodeResult]] = defaultdict(list)
    for trajectory in sound:
        for number, episode in enumerate(trajectory.episodes, start=1):
            episodes_by_key[f"episode_{number}"].append(episode)
            for part in (trajectory.opponent, trajectory.category):
                if part:
                    episodes_by_key[f"episode_{number}/{part}"].append(episode)
    for key, episodes in sorted(episodes_by_key.items()):
        metrics |= _episode_metrics(key, episodes)
    rewards = [sum(episode.reward for episode in trajectory.episodes) for trajectory in sound]
    if rewards:
        metrics["reward"] = sum(rewards) / len(rewards)
    return metrics | _step_metrics(sound)


def time_metrics(trajectories: Sequence[Trajectory], generate: float, total: float) -> dict[str, float]:
    """Return how many seconds of a rollout the model and the environments took, and the sampled tokens per second.

    Args:
        generate: Seconds in which the generator had prompts to answer.
        total: Seconds of the whole rollout.
    """
    sampled = sum(len(step.completion_ids) for trajectory in trajectories for step in trajectory.steps)
    return {
        "time/generate": generate,
        "time/environment": total - generate,
        "environment_share": (total - generate) / total if total else 0.0,
        "tokens/sampled": float(sampled),
        "tokens/sampled_per_second": sampled / generate if generate else 0.0,
    }


def update_metrics(
    sums: Mapping[str, float], tokens: int, scored: int, seconds: float, skipped: bool
) -> dict[str, float]:
    """Return the log of an update. A skipped update has no metrics of its loss.

    Args:
        sums: Sums over the trained tokens that were scored, and the counts of padded and useful tokens.
        tokens: Trained tokens of the update.
        scored: Trained tokens that were forwarded.
        skipped: True if the update was skipped.
    """
    means = {} if skipped else {key: sums[key] / max(scored, 1) for key in UPDATE_METRICS if key in sums}
    if LARGEST_RATIO in sums and not skipped:
        # A maximum, which is not divided by the number of tokens.
        means[LARGEST_RATIO] = sums[LARGEST_RATIO]
    return means | {
        "updates/skipped": float(skipped),
        "tokens/forwarded": sums["padded"],
        "tokens/padding_factor": sums["padded"] / sums["useful"],
        "tokens/trained": float(tokens),
        "tokens/idle": float(tokens - scored),
        "time/update": seconds,
    }


def _episode_metrics(key: str, episodes: Sequence[EpisodeResult]) -> dict[str, float]:
    hands = sum(episode.hands for episode in episodes)
    totals: dict[str, list[float]] = defaultdict(list)
    for episode in episodes:
        for name, value in episode.metrics.items():
            totals[f"metrics/{name}/{key}"].append(value)
    return {
        **{name: sum(values) / len(values) for name, values in totals.items()},
        f"reward/{key}": sum(episode.reward for episode in episodes) / len(episodes),
        # Per hand, so that episodes of different lengths compare.
        f"value/{key}": sum(episode.value for episode in episodes) / max(hands, 1),
        f"success/{key}": sum(episode.success for episode in episodes) / len(episodes),
        f"timeout/{key}": sum(episode.timeout for episode in episodes) / len(episodes),
    }


def _step_metrics(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    steps = [step for trajectory in trajectories for step in trajectory.steps]
    if not steps:
        return {}
    reasons = Counter(step.invalid_reason for step in steps)
    return {
        "steps": float(len(steps)),
        "invalid": reasons[INVALID] / len(steps),
        "length": reasons[LENGTH] / len(steps),
        "overflow": reasons[OVERFLOW] / len(steps),
        "completions/truncated": sum(step.truncated for step in steps) / len(steps),
        "completions/mean_length": sum(len(step.completion_ids) for step in steps) / len(steps),
        "penalty": sum(step.penalty for step in steps) / len(steps),
    }


def failure_message(trajectories: Sequence[Trajectory], rollout: int, threshold: float) -> str | None:
    """Return one line if more meta-episodes failed than allowed, else None.

    Args:
        rollout: Index of the rollout, for the message.
        threshold: Share of the meta-episodes that may fail, from 0 to 1.
    """
    failed = [trajectory for trajectory in trajectories if trajectory.failure is not None]
    if len(failed) <= threshold * len(trajectories):
        return None
    # `str(Failure)` is "kind: reason".
    kinds = Counter(str(trajectory.failure).split(":", 1)[0] for trajectory in failed)
    counts = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    return (
        f"{len(failed)} of {len(trajectories)} meta-episodes of rollout {rollout} failed ({counts}), more than "
        f"failure_threshold={threshold:g}; the first: {failed[0].failure}"
    )
