"""The best response to a named opponent, as an opponent: the exact one, in games whose whole tree is at hand."""

from __future__ import annotations

from mage_envs.core import ExactPolicy, Game, is_state_policy
from opponents.bayes import BlindPolicy
from opponents.exact import best_response
from opponents.exact.tree import BySeat, exact_policy
from opponents.tabular import RulePolicy


def best_response_to(game: Game, name: str, *more: str) -> ExactPolicy:
    """`best-response-to:kuhn/nash:0.2` plays the best response to that opponent, in whichever seat it sits.

    Among equally good actions the first; to an opponent that changes between episodes, that of each episode. Raises
    ValueError for an opponent without exact probabilities, NotEnumerable for a game whose tree is not at hand.
    """
    opponent = ",".join((name, *more))
    if not is_state_policy(exact_policy(opponent, game)):
        return BlindPolicy(game, opponent)  # a pool of one: it responds anew in each episode
    policies = [best_response(game, opponent, seat).policy for seat in range(game.facts.players)]
    return RulePolicy(BySeat(policies).distribution)
