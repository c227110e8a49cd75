"""`SpielForm`: the OpenSpiel form of a text game, for OpenSpiel's searches and solvers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mage_envs.core import Turn
from mage_envs.spiel.loading import load


@dataclass(frozen=True)
class SpielForm:
    """The OpenSpiel form of a text game.

    `Turn.legal_actions` must have the order of the OpenSpiel state's `legal_actions()`. If the game has perfect
    information, `Turn.history` must hold all moves and chance events since the start. The functions must be
    module-level functions or partials of them, so that policies can be pickled.
    """

    game: str
    """Game string of OpenSpiel."""
    action_of: Callable[[Any, str], int]
    """Function from (OpenSpiel state, text of `Turn.history`) to an OpenSpiel action."""
    state_of: Callable[[Turn], str]
    """Function from a turn to its information state string in OpenSpiel."""
    key_of: Callable[[Any, int], str]
    """Function from (OpenSpiel state, player) to the string that `state_of` returns for the player's turn there."""

    def load(self) -> Any:
        """Return the `pyspiel.Game`."""
        return load(self.game)
