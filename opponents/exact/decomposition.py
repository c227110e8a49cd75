"""Regret of a meta-episode in parts that add up: inference, exploration and decision.

The player states its belief between two episodes: the probability of each opponent, or the name of one. Bayes' rule
updates the stated belief by the hands and moves of the next episode, about which no question is asked. At each
decision, four actions follow each other:

* the best one: by the rest of the meta-episode under the exact posterior over the pool;
* the planned one: by the rest of the meta-episode under the player's own belief;
* the prudent one: by the rest of the hand under its own belief, among the actions that leave at least as much value
  for later hands as the played one;
* the played one.

All of them are priced by the rest of the meta-episode under the exact posterior. Inference is what the planned action
loses to the best one, exploration what the prudent one loses to the planned one, and decision what the played one loses
to the prudent one. So exploration and decision are 0 if the player plays best under its own belief, decision is also 0
if it weighs information wrongly and plays well otherwise, and inference is 0 if its belief is the posterior. With an
own belief that differs from the posterior, exploration and decision may be negative: the player then played better than
its belief. The gap between reported belief and acts is priced under the own belief itself, so it is at least 0.

Before the first answer, and after evidence that the own belief excludes, the posterior counts as the own belief. The
same holds for the name of the most likely opponent. The name of another one counts as certainty. As one name says less
than a posterior, the least loss of inference that a name can have, with the name of the most likely opponent, then
counts as decision.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from mage_envs.opponents.exact.learner_hands import Floats
from mage_envs.opponents.exact.modes import Memories
from mage_envs.opponents.exact.regret import DecisionValues
from mage_envs.opponents.exact.rest import PlayedHand

_TIE = 1e-9
"""Relative difference below which two actions are equally good under the player's belief."""

ActionValues = Mapping[str, float]


class OwnBelief(NamedTuple):
    """The player's answer before an episode."""

    probabilities: Sequence[float] | None = None
    """Probability of each opponent of the pool, or None if the answer states none."""
    is_name: bool = False
    """True if the answer is the name of one opponent."""
    was_asked: bool = True
    """False if the player has not been asked: then the posterior counts as its belief."""


class DecisionParts(NamedTuple):
    """Parts of the regret of one decision, or of an ending outside of the rules."""

    regret: float
    exploration: float
    inference: float | None
    """None if the player was asked and stated no belief, as `decision` and `gap`."""
    decision: float | None
    gap: float | None
    """Loss of the played action against the planned one under the own belief: the gap between belief and acts."""


class HandParts(NamedTuple):
    """The parts of a hand's decisions. A hand that ended outside of the rules has one more entry."""

    posterior: tuple[float, ...]
    """Probability of each opponent before the hand."""
    decisions: Sequence[DecisionParts]


class _ActionParts(NamedTuple):
    """Losses of one action, as in `DecisionParts`."""

    inference: float
    exploration: float
    decision: float
    gap: float


def decompose(
    hand: DecisionValues, meta: DecisionValues, hands: Sequence[PlayedHand], answers: Sequence[OwnBelief]
) -> list[HandParts]:
    """Return the parts of each decision of a finished meta-episode, one entry per hand.

    Args:
        hand: Values of decisions by the rest of the hand, of the game and the pool of `meta`.
        meta: Values of decisions by the rest of the meta-episode, with the credit `sum`.
        hands: Hands in the order of play.
        answers: The player's answer before the episode of each hand.

    Raises ValueError and TooManyStates as `DecisionValues.judge`.
    """
    rows, beliefs, episode = list[HandParts](), _EpisodeBeliefs(meta), -1
    for played_hand, near, far, answer in zip(hands, hand.judge(hands), meta.judge(hands), answers, strict=True):
        prior = np.array(near.prior)
        if played_hand.episode != episode:
            episode = played_hand.episode
            beliefs.begin(prior, answer)
        own_values = _own_values(hand, meta, played_hand, beliefs.own, near.memories)
        likely_values = _own_values(hand, meta, played_hand, beliefs.likely, near.memories)
        exact = [_OwnValues(*values) for values in zip(near.values, far.values, strict=True)]
        unknown = answer.was_asked and answer.probabilities is None
        decisions = list[DecisionParts]()
        for index, regret in enumerate(far.regrets):
            if index == len(played_hand.choices):
                # An ending outside of the rules has no choice, so it is neither an error of inference nor one of
                # exploration.
                parts = _ActionParts(0.0, 0.0, regret, 0.0)
            else:
                choice = played_hand.choices[index]
                parts = _mean_parts(
                    choice.probabilities or {choice.action: 1.0}, far.values[index], own_values[index] or exact[index]
                )
                if beliefs.likely is not None:
                    least_loss = _mean_parts(
                        choice.probabilities or {choice.action: 1.0},
                        far.values[index],
                        likely_values[index] or exact[index],
                    ).inference
                    parts = parts._replace(inference=parts.inference - least_loss, decision=parts.decision + least_loss)
            decisions.append(
                DecisionParts(
                    regret=regret,
                    exploration=parts.exploration,
                    inference=None if unknown else parts.inference,
                    # The rest, so that the parts add up to the last bit.
                    decision=None if unknown else regret - parts.inference - parts.exploration,
                    gap=None if unknown else parts.gap,
                )
            )
        rows.append(HandParts(tuple(meta.marginal(prior).tolist()), decisions))
        beliefs.update(np.array(near.evidence))
    return rows


class _EpisodeBeliefs:
    """The beliefs of the player in an episode. None stands for the exact posterior."""

    def __init__(self, values: DecisionValues) -> None:
        self._values = values
        self.own: Floats | None = None
        """The player's own belief before the next hand."""
        self.likely: Floats | None = None
        """Certainty of the most likely opponent, if the player named another one."""

    def begin(self, posterior: Floats, answer: OwnBelief) -> None:
        """Start an episode with the player's answer."""
        self.own = self.likely = None
        if not answer.was_asked or answer.probabilities is None:
            return
        stated, marginal = np.array(answer.probabilities, float), self._values.marginal(posterior)
        if not answer.is_name:
            self.own = self._values.spread(posterior, stated)
        elif marginal[stated.argmax()] < marginal.max() - _TIE:
            self.own = self._values.spread(posterior, stated)
            self.likely = self._values.spread(posterior, np.eye(len(marginal))[marginal.argmax()])

    def update(self, evidence: Floats) -> None:
        """Update the beliefs by a hand's likelihood under each opponent."""
        self.own, self.likely = (
            None if belief is None or not (belief * evidence).any() else belief * evidence / (belief @ evidence)
            for belief in (self.own, self.likely)
        )


class _OwnValues(NamedTuple):
    """The value of each action at one decision under a belief."""

    hand: ActionValues
    """By the rest of the hand."""
    meta: ActionValues
    """By the rest of the meta-episode."""


def _own_values(
    hand: DecisionValues, meta: DecisionValues, played_hand: PlayedHand, belief: Floats | None, memories: Memories
) -> list[_OwnValues | None]:
    """Return the values at each decision of a hand under a belief; None for a decision that the belief excludes.

    Args:
        hand: Values by the rest of the hand.
        meta: Values by the rest of the meta-episode.
        belief: Belief before the hand. If it is None, no decision has values of its own.
        memories: Memory of each opponent before the hand.
    """
    if belief is None:
        return [None] * len(played_hand.choices)
    near_values, far_values = (values.action_values(played_hand, belief, memories) for values in (hand, meta))
    pairs = zip(near_values, far_values, strict=True)
    return [None if near is None or far is None else _OwnValues(near, far) for near, far in pairs]


def _mean_parts(row: Mapping[str, float], price: ActionValues, own_values: _OwnValues) -> _ActionParts:
    """Return the mean parts of the actions of a row of probabilities."""
    losses = np.zeros(len(_ActionParts._fields))
    for action, chance in row.items():
        losses += chance * np.array(_action_parts(action, price, own_values))
    return _ActionParts(*losses.tolist())


def _action_parts(action: str, price: ActionValues, own_values: _OwnValues) -> _ActionParts:
    """Return the parts of one action.

    Args:
        price: Value of each action by the rest of the meta-episode under the posterior.
        own_values: Values under the player's own belief.
    """
    planned = prudent = _best(own_values.meta, action, price)
    if planned != action:
        later_values = {option: value - own_values.hand[option] for option, value in own_values.meta.items()}
        enough = later_values[action] - _TIE * max(1.0, abs(later_values[action]))
        prudent = _best(
            {option: own_values.hand[option] for option in later_values if later_values[option] >= enough},
            action,
            price,
        )
    return _ActionParts(
        inference=max(price.values()) - price[planned],
        exploration=price[planned] - price[prudent],
        decision=price[prudent] - price[action],
        gap=own_values.meta[planned] - own_values.meta[action],
    )


def _best(values: ActionValues, action: str, price: ActionValues) -> str:
    """Return the best action by `values`: among equally good ones `action` itself, else that of the highest price."""
    best = max(values.values())
    equal = [option for option, value in values.items() if value >= best - _TIE * max(1.0, abs(best))]
    # If several actions are equally good under a belief, the player's own choice among them is no error of it.
    return action if action in equal else max(equal, key=price.__getitem__)
