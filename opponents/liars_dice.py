"""Archetypes of Liar's Dice: how likely a bid must be to be believed, given one's own dice."""

from __future__ import annotations

from functools import partial
from math import comb

from mage_envs.core import Game, Turn
from mage_envs.games.openspiel.titles import LiarsDice
from opponents.tabular import RulePolicy


def likelihood(own: tuple[int, ...], bid: tuple[int, int], sides: int) -> float:
    """The probability that a bid (count, face) is true, with as many dice in the other hand; the last face is wild."""
    count, face = bid
    missing = count - sum(die in (face, sides) for die in own)
    chance = (1 if face == sides else 2) / sides
    dice = len(own)
    return sum(comb(dice, k) * chance**k * (1 - chance) ** (dice - k) for k in range(max(missing, 0), dice + 1))


def doubt(dice: int, sides: int, least: float, strays: float, turn: Turn) -> dict[str, float]:
    """The rule: `liar` to a bid less likely than `least`, else the likeliest higher bid, the lowest of equals.

    With the probability `strays`, any legal action.
    """
    hand, *said = turn.information_state.split()
    own = tuple(int(die) for die in hand)
    bids = [(count, face) for count in range(1, 2 * dice + 1) for face in range(1, sides + 1)]
    last = _bid(said[-1]) if said else None
    higher = bids[bids.index(last) + 1 :] if last else bids
    legal = turn.legal_actions
    if not higher or (last and likelihood(own, last, sides) < least):
        choice = "liar"
    else:
        choice = legal[max(range(len(higher)), key=lambda index: likelihood(own, higher[index], sides))]
    row = dict.fromkeys(legal, strays / len(legal)) if strays else {}
    return {**row, choice: row.get(choice, 0.0) + 1 - strays}


def _bid(text: str) -> tuple[int, int]:
    count, _, face = text.partition("-")
    return int(count), int(face)


def _made(game: Game, least: float, strays: float = 0.0) -> RulePolicy:
    if not isinstance(game, LiarsDice):
        raise TypeError(f"Archetypes of Liar's Dice play LiarsDice, not {game.facts.name}.")
    return RulePolicy(partial(doubt, game.dice, game.sides, least, strays))


tight = partial(_made, least=0.5)
"""Believes what is at least as likely as not."""
loose = partial(_made, least=0.2)
"""Believes what is not very unlikely."""
maniac = partial(_made, least=0.0)
"""Believes everything and bids on."""
caller = partial(_made, least=1.0)
"""Believes nothing: says `liar` to the first bid that its own dice do not prove."""
soft_tight = partial(_made, least=0.5, strays=1 / 7)
"""As `tight`, but in one case of seven anything legal."""
soft_loose = partial(_made, least=0.2, strays=1 / 7)
"""The same of `loose`."""
soft_maniac = partial(_made, least=0.0, strays=1 / 7)
"""The same of `maniac`."""
soft_caller = partial(_made, least=1.0, strays=1 / 7)
"""The same of `caller`."""
