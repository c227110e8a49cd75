"""The OpenSpiel games with their own texts, keyed by OpenSpiel's short name."""

from __future__ import annotations

from collections.abc import Mapping

from mage_envs.games.openspiel.breakthrough import BreakthroughTexts
from mage_envs.games.openspiel.connect_four import ConnectFourTexts
from mage_envs.games.openspiel.generic_texts import Texts
from mage_envs.games.openspiel.leduc import LeducTexts
from mage_envs.games.openspiel.liars_dice import LiarsDiceTexts
from mage_envs.games.openspiel.negotiation import NegotiationTexts

VOICES: Mapping[str, type[Texts]] = {
    "leduc_poker": LeducTexts,
    "connect_four": ConnectFourTexts,
    "liars_dice": LiarsDiceTexts,
    "bargaining": NegotiationTexts,
    "breakthrough": BreakthroughTexts,
}
"""Classes of texts. To give a game its own texts, add an entry."""
