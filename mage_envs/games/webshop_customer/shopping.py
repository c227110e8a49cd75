"""WebShop for a customer: related tasks whose hidden fact is what the customer likes but does not say."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import ClassVar

import numpy as np

from mage_envs.core import GameSpec
from mage_envs.games.webshop.game import PARTS, WebShop, WebShopState
from mage_envs.games.webshop.products import Product
from mage_envs.games.webshop.session import Session, judgement
from mage_envs.games.webshop_customer.errands import Errand, UnsaidWish, errands
from mage_envs.games.webshop_customer.tastes import KINDS, customers
from mage_envs.loading.options import check_choice
from mage_envs.related import Related
from mage_envs.settings import GameSettings, success_reward

SCORE = "score"
EASY, EVERY = "easy", "all"
UNMET = "Wishes not met: "
TOO_SMALL, TOO_LARGE = "too small", "too large"
_FEWEST = 3
"""Minimum number of errands that a split must have."""


class ErrandSession(Session):
    """A visit for a customer. The score counts the wishes that the instruction does not say, too.

    Args:
        customer: Place of the customer's character in each taste.
    """

    def __init__(self, game: WebShopCustomer, errand: Errand, customer: tuple[int, ...]) -> None:
        super().__init__(game.shop, errand.goal)
        self._game, self.errand, self._customer = game, errand, customer
        self._said = False
        """True if the purchase meets the instruction."""
        self._unmet: tuple[UnsaidWish, ...] = ()
        """Wishes that the purchase does not meet."""

    def _buy(self) -> None:
        super()._buy()
        assert self.product is not None
        assert self.score is not None
        self._said = self.score.total == 1.0
        self._unmet = tuple(wish for wish in self.errand.wishes if not self._pleases(self.product, wish))
        failed = {wish.axis for wish in self._unmet}
        # A wish that is met is for the chosen option. One that is not met is for a text that no option equals.
        wished = [f"({wish.axis})" if wish in self._unmet else self.options[wish.axis] for wish in self.errand.wishes]
        goal = self.goal._replace(options=(*self.goal.options, *wished))
        options = {axis: value for axis, value in self.options.items() if axis not in failed}
        self.score = self.shop.score(self.product, goal, options)

    def _pleases(self, product: Product, wish: UnsaidWish) -> bool:
        """Return True if the option that is chosen on the wish's axis pleases the customer."""
        values, character = product.options.get(wish.axis, ()), self._customer[wish.taste]
        rules = KINDS[self._game.kind][wish.taste].rules
        return any(self.options.get(axis) in resolve(values)[character] for axis, resolve in rules if axis == wish.axis)

    def feedback(self) -> str:
        """Return what the customer thinks of the purchase."""
        assert self.score is not None
        if self._game.feedback == SCORE:
            return f"Score: {self.score.total:.2f}"
        return judgement(self._said, UNMET, map(self._describe_mistake, self._unmet))

    def _describe_mistake(self, wish: UnsaidWish) -> str:
        """Return the axis of a wish that is not met, and the direction of the mistake if sizes are ordered."""
        taste = KINDS[self._game.kind][wish.taste]
        choice, target = self.options.get(wish.axis), list(taste.characters)[self._customer[wish.taste]]
        if choice not in taste.ladder:
            return wish.axis
        below = taste.ladder.index(choice) < taste.ladder.index(target)
        return f"{wish.axis} ({TOO_SMALL if below else TOO_LARGE})"


def _rules(kind: str) -> str:
    """Return the sentence about the customers of a kind."""
    parts = [f"{taste.verb} {', or '.join(taste.characters.values())}" for taste in KINDS[kind]]
    return f"The customer {'; '.join(parts)}."


def _spec(kind: str, feedback: str) -> GameSpec:
    last_sentence = (
        "The last page shows the score of the purchase, from 0 to 1."
        if feedback == SCORE
        else "The last page shows which wishes the purchase does not meet."
    )
    return GameSpec(
        name="WebShopCustomer",
        rules=(
            f"{WebShop.spec.rules} You shop for a customer, who has wishes that the instruction does not say. "
            f"{_rules(kind)} On every errand one or more of these wishes count, but none about an option that the "
            f"instruction names. You succeed only if the chosen options meet them, too. {last_sentence}"
        ),
        players=2,
        unit="score",
        min_return=0.0,
        max_return=1.0,
        max_turns=WebShop.spec.max_turns,
        nearest=WebShop.spec.nearest,
        series=True,
        stays="You shop for the same customer throughout. Every errand is for another product.",
    )


class WebShopCustomer(Related):
    """Errands in WebShop for one customer, who has wishes that no instruction says.

    Rules: those of WebShop. The hidden fact says what the customer likes: a size, a group of colours and scents, and
    small or large packs. On an errand such a wish counts if the instruction names no option of its kind, and the right
    product has options for every customer. Every errand of a meta-episode is for another family of products.

    Actions: those of WebShop.

    Observation: WebShop's text with the chosen options. The last page says whether the instruction is met and which
    wishes are not met, or it shows the score.

    Returns: the original's score of the purchase, from 0 to 1, over said and unsaid wishes.

    Success: a score of exactly 1.

    Versions: v0.

    Args:
        split: Split of WebShop's goals (default: `train`).
        size: Size of the built-in catalogue (default: `small`).
        kind: Kind of the hidden fact: `taste` (default; size, colours and pack) or `fit` (a size of clothes, which is
            found by "too small" and "too large"). The facts of the latter are in the pool `customer/fit`.
        wishes: Minimum number of unsaid wishes on an errand (default: 1).
        errands: `easy` (default): errands for which the first affordable result of a search for the instruction is
            right. `all`: all errands.
        feedback: Content of the last page: `parts` (default; the wishes that are not met) or `score`.

    Raises:
        ValueError: If an option is invalid, or if the split has fewer than three such errands.
    """

    spec = _spec("taste", PARTS)
    kinds_of_fact = tuple(customers("taste"))
    solver: ClassVar[str] = "mage_envs.opponents.solo.shopper_values:solve_customer"
    builds_data: ClassVar[bool] = True

    def __init__(
        self,
        split: str = "train",
        *,
        size: str = "small",
        kind: str = "taste",
        wishes: int = 1,
        errands: str = EASY,
        feedback: str = PARTS,
    ) -> None:
        check_choice("kind", kind, tuple(KINDS))
        check_choice("errands", errands, (EASY, EVERY))
        check_choice("feedback", feedback, (PARTS, SCORE))
        # bool is a subclass of int, so True would pass as 1.
        if isinstance(wishes, bool) or not isinstance(wishes, int) or not 1 <= wishes <= len(KINDS[kind]):
            raise ValueError(
                f"wishes={wishes!r} must be a whole number from 1 to {len(KINDS[kind])} for kind={kind!r}."
            )
        self.kind, self.wishes, self.feedback = kind, wishes, feedback
        self.split, self.easy = split, errands == EASY
        self._customers = customers(kind)
        self.kinds_of_fact = tuple(self._customers)
        self.spec = _spec(kind, feedback)
        self._webshop = WebShop(split, size=size, option_state=True)
        self.shop = self._webshop.shop
        if len(list(islice(self.errands(np.random.default_rng(0)), _FEWEST))) < _FEWEST:
            raise ValueError(
                f"split={split!r} of size={size!r} has fewer than {_FEWEST} errands of kind={kind!r} with {wishes} "
                "unsaid wishes. Use a larger size, such as size='medium'."
            )

    def errands(self, rng: np.random.Generator) -> Iterator[Errand]:
        """Yield the errands of a meta-episode, each for another family of products."""
        return errands(self.shop, self.split, self.kind, self.wishes, self.easy, rng)

    def errand(self, rng: np.random.Generator, number: int) -> Errand:
        errands = list(islice(self.errands(rng), number + 1))
        # Errands repeat after all of them occurred.
        return errands[number % len(errands)]

    def begin(self, errand: Errand, fact: str) -> WebShopState:
        return WebShopState(self._webshop, ErrandSession(self, errand, self.customer(fact)), self.split)

    def customer(self, fact: str) -> tuple[int, ...]:
        """Return the place of a customer's character in each taste. Raises ValueError if the customer is unknown."""
        if fact not in self._customers:
            raise ValueError(
                f"Customer {fact!r} is unknown to WebShopCustomer with kind={self.kind!r}. Choose one of: "
                f"{', '.join(self._customers)}."
            )
        return self._customers[fact]

    def describe(self, fact: str) -> str:
        # Customers of both kinds have a description, so that every pool can be made for the default options.
        kind = next((kind for kind in KINDS if fact in customers(kind)), self.kind)
        characters = customers(kind).get(fact) or self.customer(fact)
        parts = [
            f"{taste.verb} {list(taste.characters.values())[index]}"
            for taste, index in zip(KINDS[kind], characters, strict=True)
        ]
        return f"The customer {', '.join(parts[:-1])}{' and ' * bool(parts[1:])}{parts[-1]}."

    def data_hash(self) -> str:
        return self._webshop.data_hash()


SETTINGS = GameSettings(
    opponent="pool:customer/all",
    seat="first",
    rewards={"task": success_reward, "released": success_reward},
    references={
        "floor: random": "scripted:random",
        "blind": "policy:customer/blind",
        "with memory": "policy:customer/memory",
        "known": "policy:customer/known",
        "wrong memory": "policy:customer/wrong",
    },
)
