"""One visit to the shop: where the visitor is, and what each action does.

The transitions are the original's: a search is possible from every page; "Next >" never ends; a value that two axes
share goes to the last one; the buttons' names come before option values of the same name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from mage_envs.games.webshop.goals import Goal
from mage_envs.games.webshop.products import Product
from mage_envs.games.webshop.reward import Score
from mage_envs.games.webshop.shop import Shop

INDEX, RESULTS, ITEM, SUB, DONE = "index", "results", "item", "sub", "done"
"""The kinds of page."""
BACK, PREVIOUS, NEXT, BUY, SEARCH = "back to search", "< prev", "next >", "buy now", "search"
THANKS = "Thank you for shopping with us!"
SUB_PAGES = ("description", "features", "reviews", "attributes")
PAGE_SIZE = 10
LONGEST_QUERY = 10_000
"""Characters; a longer search is refused. (The original's engine fails on 1,025 different words.)"""
_ACTION = re.compile(r"\s*(search|click)\s*\[(.*)\]", re.DOTALL | re.IGNORECASE)


def parse(action: str, upstream: bool = False) -> tuple[str, str] | None:
    """("search" or "click", lower-cased argument), None for anything else.

    The name ends at the first `[`, the argument at the last `]`; blanks around either and the name's case do not
    matter. `upstream`: as the original reads it, so that an argument with a `[` is lost and blanks count.
    """
    if upstream:
        name, argument = _upstream_parts(action)
    else:
        match = _ACTION.match(action)
        name, argument = (match[1].lower(), match[2].strip()) if match else ("", "")
    return (name, argument.lower()) if name in ("search", "click") and argument else None


def _upstream_parts(action: str) -> tuple[str, str]:
    """What the expression `(.+)\\[(.+)\\]` finds at the start, both groups as long as can be, in linear time."""
    line = action.partition("\n")[0]
    end = line.rfind("]")
    start = line.rfind("[", 1, max(end - 1, 0))
    return (line[:start], line[start + 1 : end]) if start > 0 else ("", "")


class Session:
    """One visit, with one goal. `upstream` turns the original's magic queries and its reading of actions on.

    An action replaces attributes and changes none of their values, so that a shallow copy goes on by itself.
    """

    def __init__(self, shop: Shop, goal: Goal, *, upstream: bool = False, shows_attributes: bool = False) -> None:
        self.shop = shop
        self.goal = goal
        self.upstream = upstream
        self.shows_attributes = shows_attributes
        self.score: Score | None = None
        """Set by the purchase."""
        self._go_home()

    def __copy__(self) -> Session:
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    def _go_home(self) -> None:
        self.page = INDEX
        self.query = ""
        self.number = 0
        """Of the page of results, from 1."""
        self.results: Sequence[int] = ()
        """Catalogue positions of all hits."""
        self.product: Product | None = None
        self.options: Mapping[str, str] = {}
        """Chosen: axis to value, in the order of the first choice."""
        self.visited: frozenset[str] = frozenset()
        self.sub = ""

    @property
    def shown(self) -> Sequence[int]:
        """Catalogue positions of the products on this page of results."""
        return self.results[(self.number - 1) * PAGE_SIZE : self.number * PAGE_SIZE]

    def play(self, action: str) -> bool:
        """Carries an action out; False where it means nothing here, and then nothing changed."""
        parsed = parse(action, self.upstream)
        if parsed is None or self.page == DONE:
            return False
        name, argument = parsed
        return self.search(argument) if name == "search" else self.click(argument)

    def search(self, query: str) -> bool:
        """Shows the first page of results."""
        if len(query) > LONGEST_QUERY:
            return False
        try:
            results = self.shop.magic(query, self.goal) if self.upstream else None
        except LookupError:
            return False
        self._show_results(query, self.shop.search(query) if results is None else results, 1)
        return True

    def _show_results(self, query: str, results: Sequence[int], number: int) -> None:
        self.page, self.query, self.results, self.number = RESULTS, query, results, number
        self.product, self.options = None, {}

    def click(self, name: str) -> bool:
        """Clicks what is called `name` (lower case) on this page."""
        if name == SEARCH or name not in self.clickables():
            return False
        if name == BUY:
            self._buy()
        elif name == BACK:
            self._go_home()
        elif self.page == RESULTS and name in (NEXT, PREVIOUS):
            self._show_results(self.query, self.results, self.number + (1 if name == NEXT else -1))
        elif self.page == RESULTS:
            self._open(name)
        elif name == PREVIOUS and self.page == SUB:
            self.page = ITEM
        elif name == PREVIOUS:
            self._show_results(self.query, self.results, self.number)
        elif name in SUB_PAGES:
            self.page, self.sub = SUB, name
        else:
            self._choose(name)
        return True

    def _open(self, name: str) -> None:
        for position in self.shown:
            product = self.shop.catalogue.product(position)
            if product.asin.lower() == name:
                self.page, self.product = ITEM, product
                self.visited |= {product.asin}
                return

    def _choose(self, value: str) -> None:
        assert self.product is not None
        axes = [axis for axis, values in self.product.options.items() if value in values]
        self.options = {**self.options, axes[-1]: value}

    def _buy(self) -> None:
        assert self.product is not None
        self.score = self.shop.score(self.product, self.goal, self.options)
        self.page = DONE

    def clickables(self) -> dict[str, None]:
        """Names of what can be clicked, in the order in which the original lists it: buttons, products, options.

        `search` on the index is among them, though clicking it does nothing.
        """
        if self.page == INDEX:
            return {SEARCH: None}
        if self.page == DONE:
            return {}
        if self.page == SUB:
            return {BACK: None, PREVIOUS: None}
        if self.page == RESULTS:
            names = dict.fromkeys((BACK, PREVIOUS, NEXT) if self.number > 1 else (BACK, NEXT))
            for position in self.shown:
                names[self.shop.catalogue.product(position).asin.lower()] = None
            return names
        assert self.product is not None
        names = dict.fromkeys((BACK, PREVIOUS, *SUB_PAGES[: 4 if self.shows_attributes else 3], BUY))
        for values in self.product.options.values():
            names.update(dict.fromkeys(values))
        return names

    def legal_actions(self) -> tuple[str, ...]:
        """Every click that works here, as `click[name]`."""
        return tuple([f"click[{name}]" for name in self.clickables() if name != SEARCH and self._can_be_named(name)])

    def _can_be_named(self, name: str) -> bool:
        """Whether `parse` reads `click[name]` as it is meant: the shop's values may be empty, or hold brackets."""
        if self.upstream:
            return parse(f"click[{name}]", upstream=True) == ("click", name)
        return bool(name) and name == name.strip().lower()
