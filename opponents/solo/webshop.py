"""Agents for WebShop in the learner's seat: an oracle that knows the goals, and three agents that read the pages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from mage_envs.core import Game, Policy, Turn
from mage_envs.games.webshop.words import (
    BUTTONS,
    SEPARATOR,
    instruction_in,
    is_named,
    price_limit,
    products_in,
    without_price,
)

if TYPE_CHECKING:
    from mage_envs.games.webshop.goals import Goal
    from mage_envs.games.webshop.products import Product
    from mage_envs.games.webshop.shop import Shop

_PAGE = 10
"""Products per page of results."""


class WebShopOracle(Policy):
    """An agent that finds the instruction among the shop's goals and buys the product with the best score.

    It knows the catalogue and the goals, but not the state of the game that is played.
    """

    def __init__(self, game: Game) -> None:
        # Imported here because the module loads the tables of the search engine.
        from mage_envs.games.webshop.game import WebShop

        if not isinstance(game, WebShop):
            raise TypeError(f"Opponent 'webshop/oracle' expects WebShop, got {type(game).__name__}.")
        self._game, self._shop = game, game.shop
        self._by_text: dict[str, list[tuple[Shop, int]]] = {}
        self._plan: list[str] = []

    def reset(self, rng: np.random.Generator) -> None:
        """Start an episode."""
        self._plan = []

    def act(self, turn: Turn) -> str:
        # Only the search page has no clicks, and a plan starts there.
        at_start = not any(action.startswith("click[") for action in turn.legal_actions)
        if at_start or not self._plan:
            self._plan = self._plan_for(instruction_in(turn.observation))
        return self._plan.pop(0)

    def _plan_for(self, instruction: str) -> list[str]:
        """Return the actions that buy the best product that a search can reach."""
        # Start below any score, so that the first product that can be reached becomes the plan.
        best, plan = -1.0, [f"search[{instruction}]"]
        for goal in self._goals_with(instruction):
            for position in self._candidates(goal):
                product = self._shop.catalogue.product(position)
                options = dict(_select_options(product, goal))
                score = self._shop.score(product, goal, options).total
                # Finding a way costs several searches, so look only for products that would improve the plan.
                way = self._way_to(product, position, goal) if score > best else None
                if way is not None:
                    best, plan = score, [*way, *(f"click[{value}]" for value in options.values()), "click[buy now]"]
                # 1 is the maximum score.
                if best == 1.0:
                    return plan
        return plan

    def _goals_with(self, instruction: str) -> list[Goal]:
        """Return the goals with this instruction, from the products that a search finds or from the whole table.

        With several catalogues, the shop of these goals becomes the agent's shop.
        """
        # Usually the search finds the goal's product. Reading all goals of a large shop is slow, so it is done only if
        # the search fails, and once.
        for shop in self._game.shops():
            matches = [
                goal
                for position in shop.search(instruction.lower())
                for goal in shop.goals_of(shop.catalogue.product(position))
                if goal.instruction.strip() == instruction
            ]
            if matches:
                self._shop = shop
                return matches
        if not self._by_text:
            for shop in self._game.shops():
                for number in range(len(shop)):
                    self._by_text.setdefault(shop.goal_at(number).instruction.strip(), []).append((shop, number))
        entries = self._by_text.get(instruction, [])
        self._shop = entries[0][0] if entries else self._shop
        return [shop.goal_at(number) for shop, number in entries if shop is self._shop]

    def _candidates(self, goal: Goal) -> Iterator[int]:
        """Yield the goal's own product, then the products that its instruction finds."""
        own_position = self._shop.catalogue.find(goal.asin)
        return chain(() if own_position is None else (own_position,), self._shop.search(goal.instruction.lower()))

    def _way_to(self, product: Product, position: int, goal: Goal) -> list[str] | None:
        """Return the shortest of several paths to the product's page, or None if none of the searches finds it."""
        attributes = " ".join(goal.attributes)
        ways = []
        for words in (
            product.title,
            f"{product.title} {attributes}",
            f"{product.query} {attributes}",
            goal.instruction,
        ):
            # With the original's rules, an argument with a bracket is lost and `<r>` starts a special query.
            query = re.sub(r"[\[\]<>]", " ", words).lower().strip()[:500].strip()
            hits = self._shop.search(query) if query else ()
            if position in hits:
                pages = hits.index(position) // _PAGE
                ways.append([f"search[{query}]", *["click[next >]"] * pages, f"click[{product.asin.lower()}]"])
                if not pages:
                    break
        return min(ways, key=len, default=None)


def _select_options(product: Product, goal: Goal) -> Iterator[tuple[str, str]]:
    """Yield the product's options that the goal requires, as (axis, value), with exact matches preferred."""
    from mage_envs.games.webshop.reward import count_options

    for option in goal.options:
        axis_wanted, value_wanted = ("", option) if isinstance(option, str) else option
        fitting = [
            (axis == axis_wanted, value == value_wanted, axis, value)
            for axis, values in product.options.items()
            for value in values
            if value not in BUTTONS and count_options((value,), (option,))
        ]
        if fitting:
            yield max(fitting, key=lambda fit: fit[:2])[2:]


class WebShopFirst(Policy):
    """An agent that searches for the unchanged instruction and buys the first result: a baseline that does not read.

    If a search finds nothing, it turns pages until the turns run out.
    """

    def reset(self, rng: np.random.Generator) -> None:
        """Start an episode; the agent has no state."""

    def act(self, turn: Turn) -> str:
        if "click[buy now]" in turn.legal_actions:
            return "click[buy now]"
        if "click[next >]" in turn.legal_actions:
            return next(iter(_results(turn)), "click[next >]")
        return f"search[{instruction_in(turn.observation)}]"


class WebShopRule(Policy):
    """An agent that buys the first product under the price limit, with the options that the instruction names.

    It searches for the instruction without its price, and reads only pages of mode `text`. The original's rule baseline
    is different: it buys the first result and chooses no options (see `WebShopFirst`).
    """

    def __init__(self) -> None:
        self._clicked: set[str] = set()
        """Options that were chosen on the present product's page."""

    def reset(self, rng: np.random.Generator) -> None:
        """Start an episode."""
        self._clicked = set()

    def act(self, turn: Turn) -> str:
        instruction = instruction_in(turn.observation)
        if "click[buy now]" in turn.legal_actions:
            return self._on_product(turn, instruction)
        # Any other page ends the visit of a product.
        self._clicked = set()
        if "click[next >]" in turn.legal_actions:
            return self._on_results(turn, instruction)
        return f"search[{without_price(instruction)}]"

    def _on_results(self, turn: Turn, instruction: str) -> str:
        """Return the click on the first product with its lowest price under the limit, else on the next page."""
        limit, products = price_limit(instruction), products_in(turn.observation, turn.legal_actions)
        affordable = (product.name for product in products if product.price is not None and product.price <= limit)
        name = next(affordable, None)
        return "click[next >]" if name is None else f"click[{name}]"

    def _on_product(self, turn: Turn, instruction: str) -> str:
        for value in _matching_options(turn, without_price(instruction).lower()):
            if value not in self._clicked:
                self._clicked.add(value)
                return f"click[{value}]"
        return "click[buy now]"


class WebShopNext(WebShopRule):
    """A `WebShopRule` that buys the next affordable product in each further episode of a meta-episode.

    After a success it buys the same product again. It is the baseline of trying K products without reading their pages.
    """

    def __init__(self) -> None:
        super().__init__()
        self._failed: set[str] = set()
        """Clicks on products that were bought without success, or that could not be bought in time."""
        self._opened = ""
        """Click on the product of the present episode."""
        self._instruction = ""

    def on_meta_episode_start(self) -> None:
        """Forget the failed products."""
        self._failed, self._opened = set(), ""

    def reset(self, rng: np.random.Generator) -> None:
        """Start an episode; the previous one counts as failed unless `on_hand_end` reported a success."""
        super().reset(rng)
        if self._opened:
            self._failed.add(self._opened)
        self._opened = ""

    def on_hand_end(self, turn: Turn) -> None:
        """Keep the product if its purchase was a success."""
        if turn.success:
            self._opened = ""

    def act(self, turn: Turn) -> str:
        instruction = instruction_in(turn.observation)
        # Outside of a meta-episode each hand has a goal of its own, so earlier failures are void.
        if instruction != self._instruction:
            self._failed, self._instruction = set(), instruction
        return super().act(turn)

    def _on_results(self, turn: Turn, instruction: str) -> str:
        untried_turn = turn._replace(
            legal_actions=tuple(legal_action for legal_action in turn.legal_actions if legal_action not in self._failed)
        )
        action = super()._on_results(untried_turn, instruction)
        self._opened = "" if action == "click[next >]" else action
        return action


def _results(turn: Turn) -> Iterator[str]:
    """Yield the clicks that open the products on a page of results, in the order of the page."""
    clicks = (action for action in turn.legal_actions if action.startswith("click["))
    return (action for action in clicks if action[6:-1] not in BUTTONS)


def _matching_options(turn: Turn, instruction: str) -> Iterator[str]:
    """Yield the longest value of each axis that the instruction contains as whole words."""
    # Parts before the fifth are buttons and the instruction itself. The values of one axis are neighbours on the page;
    # any other part (the name of the next axis, or the title) ends them.
    offered = {action[6:-1] for action in turn.legal_actions} - set(BUTTONS)
    best = ""
    for part in turn.observation.split(SEPARATOR)[4:]:
        name = part.lower()
        if name in offered:
            if len(name) > len(best) and is_named(name, instruction):
                best = name
        elif best:
            yield best
            best = ""
