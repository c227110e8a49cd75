"""All games of OpenSpiel by how well a language model can play them: worded, name only, or not at all."""

from __future__ import annotations

from collections.abc import Mapping

from mage_envs.games.openspiel.position import VOICES
from mage_envs.games.openspiel.worded import game_wordings
from mage_envs.spiel.loading import unsuitable
from mage_envs.spiel.wrappers import is_wrapper

WORDED, NAME_ONLY, UNSUITABLE = "worded", "name only", "not for language models"
CLASSES: Mapping[str, str] = {
    WORDED: "the prompt explains the rules, the actions and the symbols",
    NAME_ONLY: "the prompt has the name, the settings and the legal actions",
    UNSUITABLE: "making the game raises an error with the reason",
}
"""Class of a game to its meaning."""


def catalogue() -> Mapping[str, tuple[str, str]]:
    """Return the class of every game of OpenSpiel with the reason if it is `UNSUITABLE`, by short name.

    The classes are those of the default parameters, and of a wrapper around a worded game. No game is made, because
    some take long or print warnings.
    """
    # Imported here, so that the package can be imported without OpenSpiel.
    import pyspiel

    one_shot = pyspiel.GameType.Information.ONE_SHOT
    games: dict[str, tuple[str, str]] = {}
    for kind in pyspiel.registered_games():
        name = str(kind.short_name)
        explained = name in game_wordings() or name in VOICES or kind.information == one_shot
        # OpenSpiel's type of a wrapper is that of no wrapped game.
        if is_wrapper(name):
            games[name] = (WORDED, "")
        elif reason := unsuitable(kind):
            games[name] = (UNSUITABLE, reason)
        else:
            games[name] = (WORDED if explained else NAME_ONLY, "")
    return games
