"""What is compared: the games, the learners, and the exact optimum of what each learner is paid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from mage_envs.registry import make_game, settings_of
from opponents.exact import GT, Credit, bayes_value
from opponents.exact.bayes import differential_weights
from trainer.presets import WORDS

EPISODES, MEMBERS = 3, 8
"""Of a meta-episode; of a group."""
EVEN = (1 / EPISODES,) * EPISODES


@dataclass(frozen=True, kw_only=True)
class StudyGame:
    """A game whose credits have different optima, and how the tiny model is trained in it."""

    name: str
    game: str
    options: Mapping[str, Any] = field(default_factory=dict)
    decisions: int
    """Of an episode."""
    answers: int
    """Legal at each decision."""
    training: Mapping[str, Any]
    """Fields of `MAGEConfig`; the same for every learner."""
    within: float
    """How near the optimum of its credit a learner should come, in the game's unit per hand."""

    @property
    def env_id(self) -> str:
        return f"mage/{self.game}-Meta-v0"

    @property
    def unit(self) -> str:
        return str(make_game(self.game, **self.options).facts.unit)

    def optimum(self, credit: Credit) -> tuple[float, ...]:
        """What the policy that is optimal for a credit earns in each episode, exactly."""
        settings = settings_of(self.game)
        game = make_game(self.game, **self.options)
        found = bayes_value(
            game, settings.opponent, episodes=EPISODES, credit=credit, seat=settings.seat or "alternate"
        )
        return found.per_episode


@dataclass(frozen=True, kw_only=True)
class Learner:
    """One way to pay the learner, and to make advantages of the pay."""

    name: str
    settings: Mapping[str, Any]
    """Fields of `MAGEConfig` in which it differs from the others."""
    credit: Credit
    """Of which policy is the optimum."""
    weights: Sequence[float] = EVEN
    """Of the episodes in what it is short of the optimum; they sum to 1."""


@dataclass(frozen=True, kw_only=True)
class StudyRun:
    """One training run."""

    game: StudyGame
    learner: Learner
    seed: int
    rollouts: int | None = None
    """In place of the game's."""

    @property
    def name(self) -> str:
        """Of its file."""
        return f"{self.game.name}, {self.learner.name}, seed {self.seed}".replace(", ", "-").replace(" ", "-")

    def to_json(self) -> dict[str, Any]:
        """The settings that the result depends on."""
        return {**asdict(self), "training": {**WORDS, **TRAINING}, "decay": DECAY}


def _cumulative(gt: float) -> tuple[float, ...]:
    shares = [gt**k for k in range(EPISODES)]
    return tuple(share / sum(shares) for share in shares)


def gigpo_weights(
    gt: float, step_weight: float = 1.0, returns: Literal["differential", "cumulative"] = "differential"
) -> tuple[tuple[float, ...], ...]:
    """(K, K): what a decision in each episode makes larger under A = A_E + w A_S of these returns.

    A_E holds R_k alone, which A_S holds as well, so that the weights of the episodes to come are smaller than those of
    the return itself; they differ from episode to episode, so that no one sum of episodes is maximised.
    """
    rows = []
    for k in range(EPISODES):
        left = EPISODES - k
        own = differential_weights(left, gt) if returns == "differential" else tuple(gt**j for j in range(left))
        to_come = [step_weight * weight for weight in own]
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
"""On top of the settings of `--model words`. gs = 1 and no division, so that what is maximised is exactly the sum of
weighted episodes whose optimum stands beside it. The pull to uniform answers ends at 0. While it lasts it keeps a
learner from settling on what is best for the present episode before later ones have learned to use what a test shows;
it is measured against undivided rewards, of which those of the dilemma are larger."""
DECAY = 0.25
"""The share of a run, at its end, in which the learning rate falls."""
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
    # A trajectory's differential rewards add up to its last episode's return, which is all that GRPO looks at: without
    # its division by the group's standard deviation it would be the row above, number for number.
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
    # The row above has the returns and the advantage of the presets mage-..., this one those of lamer-....
    Learner(
        name="cumulative, GiGPO",
        settings={"returns": "cumulative", "gamma_episode": GT, "advantage": "gigpo", "credit": "episode"},
        credit=gigpo_weights(GT, returns="cumulative"),
        weights=_cumulative(GT),
    ),
)
_GIGPO, _MEAN = LEARNERS[6], LEARNERS[3]


def _ablation(base: Learner, what: str, credit: Credit | None = None, **settings: Any) -> Learner:
    return Learner(
        name=f"{'GiGPO' if base is _GIGPO else 'member mean'}, {what}",
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
    *((_MEAN.name, LEARNERS[other].name) for other in (0, 1, 2, 4)),
    (_GIGPO.name, LEARNERS[7].name),
    (_GIGPO.name, _MEAN.name),
    *((learner.name, (_GIGPO if learner.name.startswith("GiGPO") else _MEAN).name) for learner in ABLATIONS[1:6]),
    *((learner.name, _MEAN.name) for learner in ABLATIONS[7:]),
)
"""Pairs of learners whose last episodes are compared: credits under one advantage, the presets' credits under theirs,
and each ablation with what it changes. The list is fixed, so that Holm's correction need not cover every pair."""
