"""Exact game theory: values, best responses, exploitability and optimal learners.

The functions require a game with an enumerable tree (`initial_states()`). For example::

    best_response(KuhnPoker(), "kuhn/aggressive", seat=0).value     # 1/3 chips per hand

Opponents are names, or policies with a `distribution` that does not depend on `Turn.history`.
"""

from mage_envs.opponents.exact.bayes import GT, BayesSolution, BayesValue, Credit, Meeting, bayes_value, credit_weights
from mage_envs.opponents.exact.best_response import BestResponse, best_nonadaptive, best_response
from mage_envs.opponents.exact.headroom import Headroom, headroom
from mage_envs.opponents.exact.learner_hands import TooManyStates
from mage_envs.opponents.exact.tree import NotExact, Objective
from mage_envs.opponents.exact.values import ceiling, nash_conv, policy_value

__all__ = [
    "GT",
    "BayesSolution",
    "BayesValue",
    "BestResponse",
    "Credit",
    "Headroom",
    "Meeting",
    "NotExact",
    "Objective",
    "TooManyStates",
    "bayes_value",
    "best_nonadaptive",
    "best_response",
    "ceiling",
    "credit_weights",
    "headroom",
    "nash_conv",
    "policy_value",
]
