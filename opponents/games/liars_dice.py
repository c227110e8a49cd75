"""Archetypes of Liar's Dice. Each calls a bid that is less likely than its own limit, given its dice."""

from __future__ import annotations

from functools import partial
from math import comb

from mage_envs.core import Game, Turn
from mage_envs.games.openspiel.registered import LiarsDice
from mage_envs.opponents.pools import register_pool
from mage_envs.opponents.registry import register_opponent
from mage_envs.opponents.splits import Split, register_split
from mage_envs.opponents.tabular import RulePolicy


def likelihood(dice: tuple[int, ...], bid: tuple[int, int], sides: int) -> float:
    """Return the probability that a bid is true, if the other player has as many dice. The last face is wild.

    Args:
        dice: The player's own dice.
        bid: (count, face).
        sides: Number of faces of a die.
    """
    count, face = bid
    # The other hand must hold the missing dice; each of its dice counts with the same probability (binomial).
    missing = count - sum(die in (face, sides) for die in dice)
    chance = (1 if face == sides else 2) / sides
    num_dice = len(dice)
    return sum(
        comb(num_dice, k) * chance**k * (1 - chance) ** (num_dice - k) for k in range(max(missing, 0), num_dice + 1)
    )


def doubt(dice: int, sides: int, min_likelihood: float, strays: float, turn: Turn) -> dict[str, float]:
    """Return probabilities that answer `liar` to a bid below `min_likelihood`, else the likeliest higher bid.

    Among equally likely bids it makes the lowest. With the probability `strays` it plays any legal action.
    """
    hand, *past_bids = turn.information_state.split()
    own_dice = tuple(int(die) for die in hand)
    bids = [(count, face) for count in range(1, 2 * dice + 1) for face in range(1, sides + 1)]
    last_bid = _bid(past_bids[-1]) if past_bids else None
    higher = bids[bids.index(last_bid) + 1 :] if last_bid else bids
    legal = turn.legal_actions
    if not higher or (last_bid and likelihood(own_dice, last_bid, sides) < min_likelihood):
        choice = "liar"
    else:
        choice = legal[max(range(len(higher)), key=lambda index: likelihood(own_dice, higher[index], sides))]
    row = dict.fromkeys(legal, strays / len(legal)) if strays else {}
    return {**row, choice: row.get(choice, 0.0) + 1 - strays}


def _bid(text: str) -> tuple[int, int]:
    count, _, face = text.partition("-")
    return int(count), int(face)


def _build_policy(game: Game, least: float, strays: float = 0.0) -> RulePolicy:
    if not isinstance(game, LiarsDice):
        raise TypeError(f"Archetypes of Liar's Dice expect LiarsDice, got {game.spec.name}.")
    return RulePolicy(partial(doubt, game.dice, game.sides, least, strays))


tight = partial(_build_policy, least=0.5)
"""Opponent that believes bids with a probability of at least 0.5."""
loose = partial(_build_policy, least=0.2)
"""Opponent that believes bids with a probability of at least 0.2."""
maniac = partial(_build_policy, least=0.0)
"""Opponent that believes every bid and bids higher."""
caller = partial(_build_policy, least=1.0)
"""Opponent that says `liar` to the first bid that its own dice do not prove."""
soft_tight = partial(_build_policy, least=0.5, strays=1 / 7)
"""`tight`, with any legal action in one of seven cases."""
soft_loose = partial(_build_policy, least=0.2, strays=1 / 7)
"""`loose`, with any legal action in one of seven cases."""
soft_maniac = partial(_build_policy, least=0.0, strays=1 / 7)
"""`maniac`, with any legal action in one of seven cases."""
soft_caller = partial(_build_policy, least=1.0, strays=1 / 7)
"""`caller`, with any legal action in one of seven cases."""

# By entry point, because a partial has no name under which `module:name` would find its registration.
for _name in ("tight", "loose", "maniac", "caller"):
    for _style, _builder in ((_name, _name), (f"soft-{_name}", f"soft_{_name}")):
        register_opponent(
            f"liars/{_style}", entry_point=f"{__name__}:{_builder}", games=("LiarsDice",), needs_game=True
        )
for _pool, _soft in (("four", ""), ("soft", "soft-")):
    _styles = (f"liars/{_soft}{style}" for style in ("tight", "loose", "maniac", "caller"))
    register_pool(f"liars/{_pool}", dict.fromkeys(_styles, 1))
register_split(
    "liars",
    Split(
        game="LiarsDice",
        seed=30,
        train="pool:liars/four",
        train_about="four degrees of doubt",
        heldout="pool:liars/soft",
        heldout_about="the same four, less pure",
        seats=(0, 1),
        headroom=(("liars/four", {"sides": 5}), ("liars/soft", {"sides": 4})),
    ),
)
