"""The exact best response to a named opponent, as an opponent, for games whose whole tree can be enumerated."""

from __future__ import annotations

from mage_envs.core import Game, Policy, is_state_policy
from mage_envs.loading.arguments import Rest
from mage_envs.opponents.adaptive.bayes import BlindPolicy
from mage_envs.opponents.exact import best_response
from mage_envs.opponents.exact.tree import BySeat, exact_policy
from mage_envs.opponents.tabular import RulePolicy


def best_response_to(game: Game, name: Rest) -> Policy:
    """Return the best response to an opponent, for any seat: `best-response-to:kuhn/nash:0.2`.

    Among equally good actions it plays the first. If the opponent changes between episodes, it responds to each
    episode's play.

    Raises:
        ValueError: If the opponent has no exact probabilities.
        NotEnumerable: If the game has no enumerable tree.
    """
    if not is_state_policy(exact_policy(name, game)):
        # With a pool of one, the blind policy is the best response, solved for each episode separately.
        return BlindPolicy(game, name)
    policies = [best_response(game, name, seat).policy for seat in range(game.spec.players)]
    return RulePolicy(BySeat(policies).distribution)
