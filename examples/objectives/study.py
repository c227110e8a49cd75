"""Games and learners of the study, and the exact optimum of each learner's credit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from mage_envs.opponents.exact import GT, Credit, bayes_value
from mage_envs.opponents.exact.bayes import differential_weights
from mage_envs.registry import make_game, settings_of
from mage_envs.trainer.config.presets import WORDS

EPISODES, MEMBERS = 3, 8
"""Number of episodes of a meta-episode, and of members of a group."""
EVEN = (1 / EPISODES,) * EPISODES


@dataclass(frozen=True, kw_only=True)
class StudyGame:
    """Game whose credits have different optima, and settings of the tiny model's training in it."""

    name: str
    game: str
    options: Mapping[str, Any] = field(default_factory=dict)
    decisions: int
    """Number of decisions of an episode."""
    answers: int
    """Number of legal answers at each decision."""
    training: Mapping[str, Any]
    """Fields of `MAGEConfig`, the same for every learner."""
    within: float
    """Largest expected difference of a learner to the optimum of its credit, in the game's unit per hand."""

    @property
    def env_id(self) -> str:
        """Id of the game's meta-episode."""
        return f"mage/{self.game}-Meta-v0"

    @property
    def unit(self) -> str:
        """Unit of the game's returns."""
        return str(make_game(self.game, **self.options).spec.unit)

    def optimum(self, credit: Credit) -> tuple[float, ...]:
        """Return the exact return in each episode of the policy that is optimal for a credit."""
        settings = settings_of(self.game)
        game = make_game(self.game, **self.options)
        value = bayes_value(
            game, settings.opponent, episodes=EPISODES, credit=credit, seat=settings.seat or "alternate"
        )
        return value.per_episode


@dataclass(frozen=True, kw_only=True)
class Learner:
    """Learner of the study: a credit, and a way to compute advantages from it."""

    name: str
    settings: Mapping[str, Any]
    """Fields of `MAGEConfig` in which the learner differs from the others."""
    credit: Credit
    """Credit whose optimal policy the learner is compared with."""
    weights: Sequence[float] = EVEN
    """Weights of the episodes in the difference to the optimum. They sum to 1."""


@dataclass(frozen=True, kw_only=True)
class StudyRun:
    """Training run of the study."""

    game: StudyGame
    learner: Learner
    seed: int
    rollouts: int | None = None
    """Number of rollouts, or None to use the game's."""

    @property
    def name(self) -> str:
        """Name of the run's file, without the suffix."""
        return f"{self.game.name}, {self.learner.name}, seed {self.seed}".replace(", ", "-").replace(" ", "-")

    def to_json(self) -> dict[str, Any]:
        """Return all settings that the result depends on."""
        # The shared settings, too, so that a saved result is not reused if one of them has changed.
        return {**asdict(self), "training": {**WORDS, **TRAINING}, "decay": DECAY}


def _cumulative(gt: float) -> tuple[float, ...]:
    shares = [gt**k for k in range(EPISODES)]
    return tuple(share / sum(shares) for share in shares)


def gigpo_weights(
    gt: float, step_weight: float = 1.0, returns: Literal["differential", "cumulative"] = "differential"
) -> tuple[tuple[float, ...], ...]:
    """Return the weights of the episodes' returns that GiGPO's A = A_E + w A_S maximises at a decision.

    A_E contains R_k only, and A_S contains R_k as well. The weights of later episodes are therefore smaller than in the
    return itself. The weights differ from episode to episode, so no single sum of episodes is maximised.

    Args:
        gt: Discount factor per episode.
        step_weight: Weight w of A_S.

    Returns:
        Weights (K, K): row k for a decision in episode k, each row with sum 1.
    """
    rows = []
    for k in range(EPISODES):
        remaining = EPISODES - k
        # Weights of R_k, ..., R_K in the return of episode k.
        return_weights = (
            differential_weights(remaining, gt) if returns == "differential" else tuple(gt**j for j in range(remaining))
        )
        to_come = [step_weight * weight for weight in return_weights]
        # Earlier episodes are over and have weight 0. The 1 is A_E.
        row = [0.0] * k + [1 + to_come[0], *to_come[1:]]
        rows.append(tuple(weight / sum(row) for weight in row))
    return tuple(rows)


GAMES = (
    StudyGame(
        name="ultimatum",
        game="Ultimatum",
        decisions=1,
        answers=10,
        training={
            "max_rollouts": 240,
            "groups_per_rollout": 16,
            "learning_rate": 3e-3,
            "uniform_legal_coef": 0.08,
        },
        within=0.03,
    ),
    StudyGame(
        name="dilemma",
        game="PrisonersDilemma",
        options={"rounds": 3},
        decisions=3,
        answers=2,
        training={
            "max_rollouts": 60,
            "groups_per_rollout": 30,
            "learning_rate": 4e-3,
            "uniform_legal_coef": 0.3,
        },
        within=0.05,
    ),
)
TRAINING: Mapping[str, Any] = {
    "gamma_step": 1.0,
    "advantage": "member_mean",
    "advantage_norm": "mean",
    "updates_per_rollout": "4",
    "uniform_legal_coef_end": 0.0,
    "lr_scheduler_type": "warmup_stable_decay",
}
"""Settings in addition to those of `--model words`. With gs = 1 and no division by the standard deviation, training
maximises exactly the weighted sum of episodes whose optimum is reported. The coefficient of uniform answers ends at 0.
Until then it keeps a learner from an answer that is best for the current episode only, before later episodes have
learned to use the result of a test. Its scale is that of the undivided rewards, which are larger in the dilemma."""
DECAY = 0.25
"""Share of a run, at its end, in which the learning rate decays."""
DIFFERENTIAL = {"returns": "differential", "gamma_episode": GT}
LAST = (0.0,) * (EPISODES - 1) + (1.0,)
MAGE = differential_weights(EPISODES, GT)
LEARNERS = (
    Learner(name="single episode", settings={"returns": "single_episode"}, credit="myopic"),
    Learner(
        name="cumulative, gt .6",
        settings={"returns": "cumulative", "gamma_episode": GT},
        credit=_cumulative(GT),
        weights=_cumulative(GT),
    ),
    Learner(name="cumulative, gt 1", settings={"returns": "cumulative", "gamma_episode": 1.0}, credit="sum"),
    Learner(name="differential, gt .6", settings=DIFFERENTIAL, credit="mage", weights=MAGE),
    Learner(name="final episode", settings={"returns": "final"}, credit="last", weights=LAST),
    # The differential rewards of a trajectory sum to the return of its last episode, and GRPO uses only that sum.
    # Without the division by the group's standard deviation, this row would equal the one above exactly.
    Learner(
        name="differential, GRPO",
        settings={**DIFFERENTIAL, "advantage": "grpo", "advantage_norm": "mean_std"},
        credit="last",
        weights=LAST,
    ),
    Learner(
        name="differential, GiGPO",
        settings={**DIFFERENTIAL, "advantage": "gigpo", "credit": "episode"},
        credit=gigpo_weights(GT),
        weights=MAGE,
    ),
    # The row above has the returns and the advantage of the presets mage-..., and this row has those of lamer-....
    Learner(
        name="cumulative, GiGPO",
        settings={"returns": "cumulative", "gamma_episode": GT, "advantage": "gigpo", "credit": "episode"},
        credit=gigpo_weights(GT, returns="cumulative"),
        weights=_cumulative(GT),
    ),
)
_GIGPO, _MEAN = LEARNERS[6], LEARNERS[3]


def _ablation(base: Learner, label: str, credit: Credit | None = None, **settings: Any) -> Learner:
    return Learner(
        name=f"{'GiGPO' if base is _GIGPO else 'member mean'}, {label}",
        settings={**base.settings, **settings},
        credit=credit or base.credit,
        weights=base.weights,
    )


ABLATIONS = (
    _GIGPO,
    _ablation(_GIGPO, "local anchors", anchor="local"),
    _ablation(_GIGPO, "pooled statistics", statistics="pooled"),
    _ablation(_GIGPO, "mixed groups", grouping="non_stationary"),
    _ablation(_GIGPO, "mean_std", advantage_norm="mean_std"),
    _ablation(_GIGPO, "w = 4", gigpo_weights(GT, 4.0), step_weight=4.0),
    _MEAN,
    _ablation(_MEAN, "mixed groups", grouping="non_stationary"),
    _ablation(_MEAN, "mean_std", advantage_norm="mean_std"),
)
CONTRASTS = (
    *((_MEAN.name, LEARNERS[index].name) for index in (0, 1, 2, 4)),
    (_GIGPO.name, LEARNERS[7].name),
    (_GIGPO.name, _MEAN.name),
    *((learner.name, (_GIGPO if learner.name.startswith("GiGPO") else _MEAN).name) for learner in ABLATIONS[1:6]),
    *((learner.name, _MEAN.name) for learner in ABLATIONS[7:]),
)
"""Pairs of learners whose last episodes are compared: credits with the same advantage, the presets' credits with their
advantages, and each ablation with its base. The list is fixed, so Holm's correction need not cover every pair."""
