"""Players of WebShopCustomer in the learner's seat. They buy the first affordable result and differ in its options."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from mage_envs.core import Game, Turn
from mage_envs.games.webshop.session import INSTRUCTION_UNMET
from mage_envs.games.webshop.words import instruction_in
from mage_envs.games.webshop_customer.errands import UnsaidWish, find_named_value, wishes_on
from mage_envs.games.webshop_customer.shopping import (
    SCORE,
    TOO_LARGE,
    TOO_SMALL,
    UNMET,
    WebShopCustomer,
)
from mage_envs.games.webshop_customer.tastes import KINDS, customers
from mage_envs.opponents.solo.webshop import WebShopRule

_SEPARATOR = " [SEP] "
_BUY, _NEXT = "click[buy now]", "click[next >]"
Customer = tuple[int, ...]
"""Index of a customer's character in each taste."""


def page_feedback(game: WebShopCustomer, tastes: Sequence[int], choice: Customer, customer: Customer) -> object:
    """Return what the last page shows of a purchase that meets the instruction.

    Args:
        game: The game, which decides on the content of the page.
        tastes: Tastes that count on the errand.
        choice: Character that the purchase pleases in each of them.
    """
    gaps = [character - customer[taste] for taste, character in zip(tastes, choice, strict=True)]
    if game.feedback == SCORE:
        return not any(gaps)
    ladders = [bool(KINDS[game.kind][taste].ladder) for taste in tastes]
    # A ladder shows the direction of a mistake, too.
    return tuple((gap > 0) - (gap < 0) if ladder else bool(gap) for gap, ladder in zip(gaps, ladders, strict=True))


class MemoryShopper(WebShopRule):
    """The best player of each errand by itself, given all that the last pages of earlier errands have shown.

    It searches for the instruction and buys the first affordable result. It chooses the options that the instruction
    names, and for each unsaid wish an option that pleases the likeliest customers. Among equally good choices it takes
    the one that separates the customers best.
    """

    def __init__(self, game: Game) -> None:
        if not isinstance(game, WebShopCustomer):
            raise TypeError(f"The customer's players expect WebShopCustomer, got {type(game).__name__}.")
        super().__init__()
        self._game = game
        self._everybody = tuple(customers(game.kind).values())
        self._wishes: tuple[UnsaidWish, ...] = ()
        """Wishes on the product that is bought."""
        self._choice: Customer = ()
        """Character that is pleased for each of them."""
        self._wanted: dict[str, str] = {}
        """Option values to choose by axis, or empty if no product is open."""
        self.on_meta_episode_start()

    def on_meta_episode_start(self) -> None:
        """Forget the customer."""
        self._possible = self._everybody

    def reset(self, rng: np.random.Generator) -> None:
        super().reset(rng)
        self._wishes, self._choice, self._wanted = (), (), {}

    def act(self, turn: Turn) -> str:
        if turn.player == 1:
            return turn.legal_actions[0]
        if _BUY in turn.legal_actions or _NEXT in turn.legal_actions:
            return super().act(turn)
        return f"search[{instruction_in(turn.observation)}]"

    def _on_product(self, turn: Turn, instruction: str) -> str:
        if not self._clicked:
            self._decide(turn, instruction)
        remaining_values = [value for value in self._wanted.values() if value not in self._clicked]
        self._clicked.update(remaining_values[:1])
        return f"click[{remaining_values[0]}]" if remaining_values else _BUY

    def _decide(self, turn: Turn, instruction: str) -> None:
        """Decide on the options of the product."""
        options = _options(turn)
        named_values = {axis: find_named_value(values, instruction) for axis, values in options.items()}
        self._wishes = tuple(wishes_on(options, instruction, self._game.kind))
        self._choice = self._best(self._candidate_customers(turn))
        self._wanted = {axis: value for axis, value in named_values.items() if value}
        for wish, character in zip(self._wishes, self._choice, strict=True):
            self._wanted[wish.axis] = wish.resolved[character][0]

    @property
    def _tastes(self) -> tuple[int, ...]:
        return tuple(wish.taste for wish in self._wishes)

    def _candidate_customers(self, turn: Turn) -> tuple[Customer, ...]:
        """Return the customers that the player expects, all equally likely."""
        return self._possible

    def _best(self, possible: tuple[Customer, ...]) -> Customer:
        """Return the characters to please, in the order of the wishes."""
        count = Counter(tuple(customer[taste] for taste in self._tastes) for customer in possible)

        def merit(choice: Customer) -> tuple[int, int]:
            groups = Counter(page_feedback(self._game, self._tastes, choice, customer) for customer in possible)
            return count[choice], -sum(size * size for size in groups.values())

        # `max` returns the first of equal choices, and `Counter` keeps the order of the customers.
        return max(count, key=merit)

    def on_hand_end(self, turn: Turn) -> None:
        """Drop the customers that the last page contradicts."""
        # A purchase that does not meet the instruction may be of a product with other wishes.
        if not self._wishes or INSTRUCTION_UNMET in turn.observation or turn.legal_actions:
            return
        feedback = self._read_feedback(turn)
        candidates = tuple(
            customer
            for customer in self._possible
            if page_feedback(self._game, self._tastes, self._choice, customer) == feedback
        )
        # A second player that changes its fact contradicts the memory.
        self._possible = candidates or self._everybody

    def _read_feedback(self, turn: Turn) -> object:
        """Return what the last page shows, in the form of `page_feedback`."""
        if self._game.feedback == SCORE:
            return bool(turn.success)
        _, _, unmet = turn.observation.rpartition(UNMET)
        mistakes = dict(text.removesuffix(")").partition(" (")[::2] for text in unmet.split(", "))
        signs = {"": True, TOO_SMALL: -1, TOO_LARGE: 1}
        return tuple(signs[mistakes[wish.axis]] if wish.axis in mistakes else 0 for wish in self._wishes)


class BlindShopper(MemoryShopper):
    """The best player that remembers nothing of earlier errands."""

    def _candidate_customers(self, turn: Turn) -> tuple[Customer, ...]:
        return self._everybody


class KnownShopper(MemoryShopper):
    """A player that knows the customer. It needs `reveal_opponent=True`."""

    def _candidate_customers(self, turn: Turn) -> tuple[Customer, ...]:
        return (self._actual_customer(turn),)

    def _actual_customer(self, turn: Turn) -> Customer:
        """Return the customer that the environment reveals."""
        customer = customers(self._game.kind).get((turn.opponent or "").partition(":")[2])
        if customer is None:
            raise ValueError(
                f"This player reads the customer from Turn.opponent, got {turn.opponent!r}. Use reveal_opponent=True "
                f"and opponents such as customer:{self._game.kinds_of_fact[0]}."
            )
        return customer


class WrongShopper(KnownShopper):
    """A player with the memory of another meta-episode: it expects one other customer."""

    def on_meta_episode_start(self) -> None:
        super().on_meta_episode_start()
        self._others: tuple[Customer, ...] = ()
        """All customers in a random order, in which each is mistaken for the next one."""

    def reset(self, rng: np.random.Generator) -> None:
        super().reset(rng)
        # The first hand draws the order, which stays the same.
        if not self._others:
            self._others = tuple(self._everybody[index] for index in rng.permutation(len(self._everybody)))

    def _candidate_customers(self, turn: Turn) -> tuple[Customer, ...]:
        index = self._others.index(self._actual_customer(turn)) + 1
        return (self._others[index % len(self._others)],)


def _options(turn: Turn) -> Mapping[str, list[str]]:
    """Return the option values of a product's page by axis."""
    # The first four parts are the instruction and buttons. Any other text that is no button starts an axis.
    offered, values_by_axis, axis = set(turn.legal_actions), dict[str, list[str]](), ""
    for part in turn.observation.split(_SEPARATOR)[4:]:
        if part.startswith("Price: "):
            break
        if f"click[{part}]" in offered:
            values_by_axis[axis].append(part)
        else:
            axis = part
            values_by_axis[axis] = []
    return {axis: values for axis, values in values_by_axis.items() if values}
