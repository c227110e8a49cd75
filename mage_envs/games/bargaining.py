"""Bargaining over a book, a hat and a ball by alternating offers, with private values."""

from __future__ import annotations

from functools import cache
from itertools import combinations
from typing import NamedTuple

from mage_envs.core import GameSpec
from mage_envs.game_record import GameRecord
from mage_envs.games.rounds import together
from mage_envs.games.table_game import GrownState, Origin, TableGame
from mage_envs.loading.options import check_positive
from mage_envs.settings import PAID_BY_RETURN, GameSettings
from mage_envs.text.words.spelling import move_word

ITEMS = ("book", "hat", "ball")
ORDERS = ((6, 3, 1), (1, 6, 3), (3, 1, 6))
"""Possible values of a player for `ITEMS`."""
ACCEPT, REFUSE = "accept", "refuse"
_SPLITS = tuple(items for count in (1, 2, 3) for items in combinations(ITEMS, count))


def _format_items(items: tuple[str, ...]) -> str:
    return "everything" if items == ITEMS else " and ".join(items) or "nothing"


TAKEN = {f"take {_format_items(items)}": items for items in _SPLITS}
"""Offer to the items that its maker would get."""
_LONGEST = 6
"""Maximum offers, because a deal has about 7 ** offers positions."""


class Terms(NamedTuple):
    """Options of a bargaining game."""

    offers: int
    discount: float


class BargainState(GrownState):
    """A point of a hand.

    An information state is the player's values and the moves, such as `6 3 1 take-book opp-take-hat`.
    """

    def __init__(
        self,
        terms: Terms,
        values: tuple[tuple[int, ...], tuple[int, ...]],
        moves: tuple[str, ...],
        origin: Origin,
    ) -> None:
        self.terms, self.values, self.said = terms, values, moves
        offers = terms.offers
        # A refusal exists only for the last offer, so each of these answers ends the hand.
        over = bool(moves) and moves[-1] in (ACCEPT, REFUSE)
        offer_count = len(moves) - over
        legal: tuple[str, ...] = ()
        if not over:
            # Before the last offer, a counter-offer is the refusal.
            answers = (ACCEPT, *((REFUSE,) if offer_count == offers else ()))
            legal = ((*answers,) if moves else ()) + (tuple(TAKEN) if offer_count < offers else ())
        agreed = over and moves[-1] == ACCEPT
        gets = [self.worth(seat, offer_count - 1) if agreed else 0.0 for seat in (0, 1)]
        super().__init__(
            None if over else offer_count % 2,
            (gets[0], gets[1]),
            keys=(self._key(0), self._key(1)),
            legal_actions=legal,
            origin=origin,
        )

    def follower(self, action: str) -> BargainState:
        return BargainState(self.terms, self.values, (*self.said, action), self.origin.then(action))

    def won(self, seat: int) -> bool:
        return self.returns[seat] >= 5

    def worth(self, seat: int, number: int) -> float:
        """Return the points of a player if offer `number` (from 0) is accepted.

        The maker of the offer gets the items it names, the other player gets the rest.
        """
        items, is_maker = TAKEN[self.said[number]], number % 2 == seat
        points = sum(value for item, value in zip(ITEMS, self.values[seat], strict=True) if (item in items) == is_maker)
        # Powers of the discount are not exact in binary. Rounding keeps returns such as 8.1 readable and equal.
        return round(points * self.terms.discount**number, 9)

    def _key(self, seat: int) -> str:
        words = [str(value) for value in self.values[seat]]
        for number, action in enumerate(self.said):
            words.append(move_word(action, number % 2 == seat))
        return " ".join(words)

    def tell(self, seat: int) -> str:
        values = ", ".join(f"{item} {value}" for item, value in zip(ITEMS, self.values[seat], strict=True))
        lines = [f"Your values: {values}. You are the {('first', 'second')[seat]} player."]
        move_count, over = len(self.said), self.player is None
        lines += [self._line(number, seat) for number in range(move_count - over)]
        if over:
            says = f"You {self.said[-1]}" if (move_count - 1) % 2 == seat else f"The other player {self.said[-1]}s"
            lines.append(f"{says}. The hand is over: you have {together([self.returns[seat]], 'point')}.")
        elif self.player != seat:
            lines.append("It is the other player's turn.")
        elif move_count == self.terms.offers:
            lines.append("That was the last offer. Do you accept or refuse?")
        else:
            question = "accept, or make another offer" if move_count else "make an offer"
            lines.append(f"Offer {move_count + 1} of {self.terms.offers} is yours: {question}.")
        return "\n".join(lines)

    def _line(self, number: int, seat: int) -> str:
        items = TAKEN[self.said[number]]
        remaining_items = tuple(item for item in ITEMS if item not in items)
        verbs = ("you take", "leave") if number % 2 == seat else ("the other player takes", "leaves")
        share = f"{together([self.worth(seat, number)], 'point')} for you"
        shares = f"{verbs[0]} {_format_items(items)} and {verbs[1]} {_format_items(remaining_items)}"
        return f"Offer {number + 1}: {shares}; {share}."


@cache
def first_state(terms: Terms, first_values: tuple[int, ...], second_values: tuple[int, ...]) -> BargainState:
    """Return the shared first state of hands with these values.

    Args:
        first_values: Values of the first player for `ITEMS`.
        second_values: Values of the second player for `ITEMS`.
    """
    return BargainState(
        terms, (first_values, second_values), (), Origin(first_state, (terms, first_values, second_values))
    )


NEUTRAL = {
    "Bargaining": "Game",
    "book": "disc",
    "hat": "cube",
    "ball": "cone",
    "offer": "pass",
    "an offer": "a pass",
    "offers": "passes",
    "accept": "close",
    "accepts": "closes",
    "accepted": "closed",
    "refuse": "drop",
    "refuses": "drops",
    "refused": "dropped",
}
"""Words for the style `neutral`."""


def _facts(terms: Terms) -> GameSpec:
    return GameSpec(
        name="Bargaining",
        rules=(
            "Bargaining over a book, a hat and a ball. Each player has a value for each item: 6, 3 and 1 points, in "
            "one of the orders 6 3 1, 1 6 3 and 3 1 6, each as likely as the others; nobody knows the other's values. "
            "The first player offers a split by what it takes for itself, the rest being the other's. The other player "
            f"accepts, or makes an offer in turn. There are at most {terms.offers} offers; the last one can only be "
            f"accepted or refused. {_cost(terms.discount)}Without an agreement nobody gets anything. Get as many "
            "points as you can, by your own values."
        ),
        unit="points",
        general_sum=True,
        min_return=0.0,
        max_return=10.0,
        # The players alternate, so a player acts at most (offers + 2) // 2 times. An illegal action also uses a turn,
        # so the limit is higher.
        max_turns=terms.offers + 4,
        actions=(*TAKEN, ACCEPT, REFUSE),
        neutral=NEUTRAL,
    )


def _cost(discount: float) -> str:
    return "" if discount == 1 else f"Each offer after the first takes {1 - discount:.0%} of what all items are worth. "


class Bargaining(TableGame):
    """Bargaining by alternating offers over a book, a hat and a ball with private values.

    Rules: each player has a value for each item. The values are 6, 3 and 1 in one of three orders, drawn independently
    with equal probability. A player does not see the values of the other. The first player offers a split by the items
    that it keeps. The other player accepts, or makes an offer in turn. After 4 offers, the last one can only be
    accepted or refused. Without an agreement both get nothing. Each offer after the first reduces all values by a tenth
    (`discount=0.9`). Without a discount, early knowledge of the opponent would be worth nothing.

    Actions: `take book`, `take book and hat`, ... `take everything` (the other player gets the rest), `accept`, and
    `refuse` for the last offer.

    Observation: the player's own values and the offers so far.

    Returns: the player's value of its items after the discount, 0 to 10 points.

    Success: at least half of one's points, 5 of the undiscounted 10.

    Versions: v0.

    Args:
        offers: Maximum offers in a hand (default: 4, at most 6).
        discount: Factor on all values per further offer, above 0 and at most 1 (default: 0.9).
    """

    spec = _facts(Terms(offers=4, discount=0.9))

    def __init__(self, offers: int = 4, discount: float = 0.9) -> None:
        check_positive("offers", offers)
        if offers > _LONGEST:
            raise ValueError(f"offers={offers} must be at most {_LONGEST}.")
        if not 0 < discount <= 1:
            raise ValueError(f"discount={discount!r} must be above 0 and at most 1.")
        terms = Terms(offers, float(discount))
        self.spec = _facts(terms)
        self.offers = offers
        chance = 1 / len(ORDERS) ** 2
        super().__init__(
            [
                (chance, first_state(terms, first_values, second_values))
                for first_values in ORDERS
                for second_values in ORDERS
            ]
        )


SETTINGS = GameSettings(opponent="pool:bargain/four", rewards=PAID_BY_RETURN)

RECORD = GameRecord(
    name="Bargaining",
    entry_point=f"{__name__}:Bargaining",
    settings=SETTINGS,
    opponents={"bargain": "mage_envs.opponents.games.bargaining"},
)
