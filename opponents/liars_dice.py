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


def tight(game: Game) -> RulePolicy:
    """Believes what is at least as likely as not."""
    return _made(game, 0.5)


def loose(game: Game) -> RulePolicy:
    """Believes what is not very unlikely."""
    return _made(game, 0.2)


def maniac(game: Game) -> RulePolicy:
    """Believes everything and bids on."""
    return _made(game, 0.0)


def caller(game: Game) -> RulePolicy:
    """Believes nothing: says `liar` to the first bid that its own dice do not prove."""
    return _made(game, 1.0)


def soft_tight(game: Game) -> RulePolicy:
    """As `tight`, but in one case of seven anything legal."""
    return _made(game, 0.5, 1 / 7)


def soft_loose(game: Game) -> RulePolicy:
    """The same of `loose`."""
    return _made(game, 0.2, 1 / 7)


def soft_maniac(game: Game) -> RulePolicy:
    """The same of `maniac`."""
    return _made(game, 0.0, 1 / 7)


def soft_caller(game: Game) -> RulePolicy:
    """The same of `caller`."""
    return _made(game, 1.0, 1 / 7)
