"""One visit to the shop: the current page, and the effect of each action.

The transitions are the original's. A search is possible on every page. "Next >" has no last page. A value of two axes
belongs to the last one. If a button and an option value have the same name, a click means the button.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from mage_envs.games.webshop.goals import Goal
from mage_envs.games.webshop.products import Product
from mage_envs.games.webshop.reward import Score
from mage_envs.games.webshop.shop import Shop

INDEX, RESULTS, ITEM, SUB, DONE = "index", "results", "item", "sub", "done"
"""Kinds of page."""
BACK, PREVIOUS, NEXT, BUY, SEARCH = "back to search", "< prev", "next >", "buy now", "search"
THANKS = "Thank you for shopping with us!"
INSTRUCTION_MET, INSTRUCTION_UNMET = "The instruction is met.", "The instruction is not met."
SUB_PAGES = ("description", "features", "reviews", "attributes")
PAGE_SIZE = 10
LONGEST_QUERY = 10_000
"""Maximum number of characters of a search; a longer one is illegal. The original's engine fails on 1,025 words."""
_ACTION = re.compile(r"\s*(search|click)\s*\[(.*)\]", re.DOTALL | re.IGNORECASE)


def parse(action: str, upstream: bool = False) -> tuple[str, str] | None:
    """Return ("search" or "click", argument in lower case), or None for any other text.

    The name ends at the first `[`, and the argument at the last `]`. Surrounding blanks and the name's case are
    ignored. With `upstream` the text is parsed as in the original: the name ends at the last `[`, and blanks count.
    """
    if upstream:
        name, argument = _upstream_parts(action)
    else:
        match = _ACTION.match(action)
        name, argument = (match[1].lower(), match[2].strip()) if match else ("", "")
    return (name, argument.lower()) if name in ("search", "click") and argument else None


def _upstream_parts(action: str) -> tuple[str, str]:
    """Return the groups of a match of `(.+)\\[(.+)\\]` at the start, or empty strings, in linear time."""
    # The groups are greedy, so the brackets are the last ones that leave both groups non-empty. `.` stops at a newline.
    line = action.partition("\n")[0]
    end = line.rfind("]")
    start = line.rfind("[", 1, max(end - 1, 0))
    return (line[:start], line[start + 1 : end]) if start > 0 else ("", "")


def judgement(is_met: bool, caption: str, unmet: Iterable[str]) -> str:
    """Return the text of the last page about a purchase.

    Args:
        is_met: True if the purchase meets the instruction.
        caption: Words before the list.
        unmet: What the purchase does not meet.
    """
    return f"{INSTRUCTION_MET if is_met else INSTRUCTION_UNMET} {caption}{', '.join(unmet) or 'none'}"


def _unmet_parts(score: Score, goal: Goal) -> Iterator[str]:
    """Yield the parts of the score that a purchase does not meet, in the words of the rules."""
    if score.r_type < 1.0:
        yield "kind of product"
    for name, share, requirements in (
        ("properties", score.r_att, goal.attributes),
        ("options", score.r_option, goal.options),
    ):
        if share is not None and share < 1.0:
            yield f"{name} ({round(share * len(requirements))} of {len(requirements)} met)"
    if not score.r_price:
        yield "price"


class Session:
    """One visit with one goal.

    An action replaces attributes and never changes their values, so a shallow copy is independent.

    Args:
        shop: The shop, which all sessions share.
        upstream: If True, enable the original's magic queries and its parser of actions.
        shows_attributes: If True, offer the page of hidden attributes.
        shows_parts: If True, the last page names the parts of the score that the purchase does not meet.
    """

    def __init__(
        self,
        shop: Shop,
        goal: Goal,
        *,
        upstream: bool = False,
        shows_attributes: bool = False,
        shows_parts: bool = False,
    ) -> None:
        self.shop = shop
        self.goal = goal
        self.upstream = upstream
        self.shows_attributes = shows_attributes
        self.shows_parts = shows_parts
        self.score: Score | None = None
        """Score of the purchase, or None before it."""
        self._offered: dict[str, None] | None = None
        """The clickable names of this page, or None before they are needed."""
        self._go_home()

    def __copy__(self) -> Session:
        # Every action copies its session, and this is faster than the default of `copy`.
        session = object.__new__(type(self))
        session.__dict__.update(self.__dict__)
        return session

    def _go_home(self) -> None:
        self._offered = None
        self.page = INDEX
        self.query = ""
        self.number = 0
        """Number of the page of results, from 1, or 0 before a search."""
        self.results: Sequence[int] = ()
        """Catalogue positions of all hits, best first."""
        self.product: Product | None = None
        self.options: Mapping[str, str] = {}
        """Chosen options, axis to value, in the order of the first choice."""
        self.visited: frozenset[str] = frozenset()
        self.sub = ""

    @property
    def shown(self) -> Sequence[int]:
        """Catalogue positions of the products on this page of results."""
        return self.results[(self.number - 1) * PAGE_SIZE : self.number * PAGE_SIZE]

    @property
    def tabs(self) -> tuple[str, ...]:
        """Names of the sub pages that the pages of products offer."""
        return SUB_PAGES if self.shows_attributes else SUB_PAGES[:3]

    def play(self, action: str) -> bool:
        """Apply an action. Returns False, and changes nothing, if the action is illegal here."""
        parsed = parse(action, self.upstream)
        if parsed is None or self.page == DONE:
            return False
        name, argument = parsed
        return self.search(argument) if name == "search" else self.click(argument)

    def search(self, query: str) -> bool:
        """Show the first page of results. Returns False if the query is illegal."""
        if len(query) > LONGEST_QUERY:
            return False
        try:
            results = self.shop.magic(query, self.goal) if self.upstream else None
        # The original crashes on such a query, so the action is illegal.
        except LookupError:
            return False
        self._show_results(query, self.shop.search(query) if results is None else results, 1)
        return True

    def _show_results(self, query: str, results: Sequence[int], number: int) -> None:
        self._offered = None
        self.page, self.query, self.results, self.number = RESULTS, query, results, number
        self.product, self.options = None, {}

    def click(self, name: str) -> bool:
        """Click the button, product or option `name` (lower case). Returns False if this page does not offer it."""
        # The order of the branches decides between a button and an option of the same name, as in the original.
        if name == SEARCH or name not in self.clickables():
            return False
        # A choice of an option leaves the names as they are, but every other click opens a page.
        page = self.page
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
        if self.page != page:
            self._offered = None
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
        # A new dict, because copies of this session share the old one.
        axes = [axis for axis, values in self.product.options.items() if value in values]
        self.options = {**self.options, axes[-1]: value}

    def _buy(self) -> None:
        assert self.product is not None
        self.score = self.shop.score(self.product, self.goal, self.options)
        self.page = DONE

    def feedback(self) -> str:
        """Return the last line of the last page, or an empty string if it has none."""
        if not self.shows_parts or self.score is None:
            return ""
        return judgement(self.score.total == 1.0, "Parts not met: ", _unmet_parts(self.score, self.goal))

    def clickables(self) -> dict[str, None]:
        """Return the clickable names in the original's order: buttons, products, options.

        The dict serves as an ordered set. On the index it contains `search`, although a click on it has no effect.
        """
        # Copies of this session share the names, so that an action does not make those of its page again.
        if self._offered is None:
            self._offered = self._names()
        return self._offered

    def _names(self) -> dict[str, None]:
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
        names = dict.fromkeys((BACK, PREVIOUS, *self.tabs, BUY))
        for values in self.product.options.values():
            names.update(dict.fromkeys(values))
        return names

    def legal_actions(self) -> tuple[str, ...]:
        """Return every legal click, as `click[name]`."""
        # `parse` must recover the name from `click[name]`. A value can be empty, or contain brackets.
        clicks = [(f"click[{name}]", name) for name in self.clickables() if name != SEARCH]
        if self.upstream:
            return tuple([click for click, name in clicks if parse(click, upstream=True) == ("click", name)])
        return tuple([click for click, name in clicks if name and name == name.strip().lower()])
