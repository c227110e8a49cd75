"""Built-in opponents that serve several games: `uniform`, `first` and `last`, and the registration of all others.

The others (search, solvers, learners, models) are entry points: their module is imported when the first of them is
made. A game's own opponents are registered in `mage_envs.opponents.games`.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from mage_envs.core import Policy, Turn
from mage_envs.opponents.registry import register_opponent


@register_opponent("uniform")
class Uniform(Policy):
    """A uniform policy over the legal actions, for any game that lists them.

    It draws one `rng.random()` per turn, or nothing if only one action is legal.
    """

    follows_information_state = True

    def __init__(self) -> None:
        self._rng: np.random.Generator

    def reset(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def act(self, turn: Turn) -> str:
        legal = turn.legal_actions
        if not legal:
            raise ValueError(
                "Opponent 'uniform' requires legal actions, but this turn lists none. Choose another opponent."
            )
        # A forced move draws nothing, so the random stream does not depend on it.
        return legal[0] if len(legal) == 1 else legal[int(self._rng.random() * len(legal))]

    def distribution(self, turn: Turn) -> dict[str, float]:
        """Return the same probability for each legal action."""
        return dict.fromkeys(turn.legal_actions, 1 / len(turn.legal_actions))


class FixedIndex(Policy):
    """A policy that plays the legal action at index `index`."""

    follows_information_state = True

    def __init__(self, index: int) -> None:
        self._index = index

    def reset(self, rng: np.random.Generator) -> None:
        """Start a hand; the policy has no state."""

    def act(self, turn: Turn) -> str:
        return turn.legal_actions[self._index]

    def distribution(self, turn: Turn) -> dict[str, float]:
        """Return probability 1 for the one action."""
        return {self.act(turn): 1.0}


_POSITIONAL = ("TicTacToe", "LeducPoker", "ConnectFour", "LiarsDice", "Negotiation", "Breakthrough", "OpenSpiel")
"""Games of `first` and `last`. Kuhn Poker has `kuhn/passive` (the first action) and `kuhn/maniac` (the last)."""

first_action, last_action = partial(FixedIndex, 0), partial(FixedIndex, -1)
register_opponent("first", games=_POSITIONAL)(first_action)
register_opponent("last", games=_POSITIONAL)(last_action)

# Entry points are strings: importing `opponents` loads neither solvers nor torch, and nothing of `trainer`, the layer
# above.
_SEARCHED = ("TicTacToe", "ConnectFour", "Breakthrough", "OpenSpiel")
_HIDDEN = ("KuhnPoker", "LeducPoker", "LiarsDice", "Negotiation", "OpenSpiel")
_SOLVED = ("KuhnPoker", "LeducPoker", "LiarsDice", "OpenSpiel")
register_opponent(
    "mcts", entry_point="mage_envs.opponents.search.mcts:MCTS", games=_SEARCHED, needs_game=True, kind="searching"
)
register_opponent(
    "ismcts", entry_point="mage_envs.opponents.search.ismcts:ISMCTS", games=_HIDDEN, needs_game=True, kind="searching"
)
register_opponent(
    "minimax",
    entry_point="mage_envs.opponents.search.minimax:minimax",
    games=("TicTacToe",),
    needs_game=True,
    kind="searching",
)
register_opponent(
    "cfr", entry_point="mage_envs.opponents.search.cfr:cfr", games=_SOLVED, needs_game=True, kind="searching"
)
register_opponent(
    "cfr-argmax",
    entry_point="mage_envs.opponents.search.cfr:cfr_argmax",
    games=_SOLVED,
    needs_game=True,
    kind="searching",
)
register_opponent(
    "counting",
    entry_point="mage_envs.opponents.adaptive.counting:counting",
    needs_game=True,
    form="counting:prior",
    kind="learning",
)
register_opponent(
    "bayes",
    entry_point="mage_envs.opponents.adaptive.bayes:bayes",
    needs_game=True,
    form="bayes:pool,episodes,hands",
    kind="learning",
)
register_opponent(
    "myopic",
    entry_point="mage_envs.opponents.adaptive.bayes:myopic",
    needs_game=True,
    form="myopic:pool,episodes,hands",
    kind="learning",
)
register_opponent(
    "stationary",
    entry_point="mage_envs.opponents.adaptive.bayes:build_stationary",
    needs_game=True,
    form="stationary:pool,episodes,hands",
    kind="learning",
)
register_opponent(
    "blind",
    entry_point="mage_envs.opponents.adaptive.bayes:blind",
    needs_game=True,
    form="blind:pool",
    kind="searching",
)
register_opponent(
    "known",
    entry_point="mage_envs.opponents.adaptive.informed:build_known",
    needs_game=True,
    form="known:pool",
    kind="searching",
)
register_opponent(
    "wrong",
    entry_point="mage_envs.opponents.adaptive.informed:build_wrong",
    needs_game=True,
    form="wrong:pool",
    kind="searching",
)
register_opponent(
    "best-response-to",
    entry_point="mage_envs.opponents.adaptive.best_response:best_response_to",
    needs_game=True,
    form="best-response-to:name",
    kind="searching",
)
register_opponent(
    "switch",
    entry_point="mage_envs.opponents.switching:switch",
    needs_game=True,
    form="switch:first,then,episode",
    kind="learning",
)
register_opponent(
    "hazard",
    entry_point="mage_envs.opponents.learning.hazard:build_hazard",
    needs_game=True,
    form="hazard:first,...,probability",
    kind="learning",
)
register_opponent(
    "llm",
    entry_point="mage_envs.opponents.llm.endpoint_spec:language_model",
    needs_game=True,
    form="llm:model@url",
    kind="model",
)
register_opponent(
    "checkpoint",
    entry_point="mage_envs.trainer.backends.checkpoint_opponent:checkpoint",
    needs_game=True,
    form="checkpoint:folder",
    kind="model",
)
