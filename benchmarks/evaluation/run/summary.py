"""`summary_of`: scores of a setting from its trajectories, shared by commands, checks and reports."""

from __future__ import annotations

from collections.abc import Sequence

from mage_envs.benchmarks.evaluation.scoring.exact_values import optimal_learner
from mage_envs.benchmarks.evaluation.scoring.scores import Summary, summarise
from mage_envs.benchmarks.evaluation.suites.environments import game_of
from mage_envs.benchmarks.evaluation.suites.setting import Setting
from mage_envs.registry import headline
from mage_envs.wrappers.rollout.trajectory import Trajectory


def summary_of(agent: str, setting: Setting, trajectories: Sequence[Trajectory]) -> Summary:
    """Return the scores with the name and the fingerprint of the setting.

    Args:
        setting: Setting that was played.
        trajectories: Meta-episodes that were played there.
    """
    game = game_of(setting.panel.env_id, setting.options)
    count = len(setting.tasks)
    # An id that stands for many games does not name this one.
    game_prefix = "" if game.title == game.spec.name else f"{game.title}, "
    hashed = f"{game_prefix}{setting.name}, {count} meta-episodes, sha256 {setting.fingerprint[:12]}"
    weights = setting.panel.weights()
    opponents = {trajectory.opponent for trajectory in trajectories}
    # The weighted mean needs every opponent of the pool. In a partial run, those that were met count equally.
    scored = weights if weights and set(weights) <= opponents else None
    optimal: tuple[float, ...] = ()
    finished = [t for t in trajectories if t.failure is None]
    # The optimal learner is solved for returns, fresh deals and whole meta-episodes only.
    if scored and finished and headline(game) == "returns" and setting.resolved["deal"] == "fresh":
        planned = max(t.num_episodes for t in finished)
        if all(len(t.episodes) == planned for t in finished):
            optimal = optimal_learner(game, scored, finished)
    return summarise(trajectories, game, weights=scored, optimal=optimal, agent=agent, panel=hashed)
