"""The best response to a named opponent, as an opponent: the exact one, in games whose whole tree is at hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from mage_envs.core import ExactPolicy, Game, Turn
from opponents.exact import best_response
from opponents.tabular import RulePolicy


def by_seat(policies: Sequence[ExactPolicy], turn: Turn) -> Mapping[str, float]:
    """The rule that asks the policy of the mover's seat."""
    return policies[turn.player].distribution(turn)


def best_response_to(game: Game, name: str, *more: str) -> RulePolicy:
    """`best-response-to:kuhn/nash:0.2` plays the best response to that opponent, in whichever seat it sits.

    Among equally good actions the first. Raises ValueError for an opponent without exact probabilities, NotEnumerable
    for a game whose tree is not at hand.
    """
    opponent = ",".join((name, *more))
    policies = [best_response(game, opponent, seat).policy for seat in range(game.facts.players)]
    return RulePolicy(partial(by_seat, policies))
