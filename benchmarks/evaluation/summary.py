"""`summary_of`: the scores of a setting from what was played there, whoever asks: a command, a check, a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.evaluation.environments import game_of
from benchmarks.evaluation.references import STATES, optimal_learner
from benchmarks.evaluation.scores import Summary, headline, summarise
from benchmarks.evaluation.suites.settings import Setting
from trainer.trajectory import Trajectory


def summary_of(agent: str, setting: Setting, trajectories: Sequence[Trajectory]) -> Summary:
    """The scores, with the setting's name and fingerprint."""
    game = game_of(setting.panel.env_id, setting.options)
    hashed = f"{setting.name}, {len(setting.tasks)} meta-episodes, sha256 {setting.fingerprint[:12]}"
    return summarise(
        trajectories,
        game,
        weights=_scored(setting, trajectories),
        optimal=optimum_of(setting, trajectories, STATES),
        agent=agent,
        panel=hashed,
    )


def optimum_of(setting: Setting, trajectories: Sequence[Trajectory], limit: int) -> tuple[float, ...]:
    """What the learner that knows the panel's pool earns in each episode, as `optimal_learner` has it; empty where the
    deals come again, where not all was played, and above `limit` states of belief."""
    game, scored = game_of(setting.panel.env_id, setting.options), _scored(setting, trajectories)
    whole = [t for t in trajectories if t.failure is None]
    if not scored or not whole or headline(game) != "returns" or setting.resolved["deal"] != "fresh":
        return ()
    planned = max(t.num_episodes for t in whole)
    return optimal_learner(game, scored, whole, limit) if all(len(t.episodes) == planned for t in whole) else ()


def _scored(setting: Setting, trajectories: Sequence[Trajectory]) -> Mapping[str, float] | None:
    """The panel's weights, where each of its opponents was met."""
    weights = setting.panel.weights()
    return weights if weights and set(weights) <= {trajectory.opponent for trajectory in trajectories} else None
