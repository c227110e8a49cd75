"""Agents for WebShop, in the learner's seat: an oracle that knows the goals, and three shoppers that read pages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from mage_envs.core import Game, Turn

if TYPE_CHECKING:
    from mage_envs.games.webshop.goals import Goal
    from mage_envs.games.webshop.products import Product

_SEPARATOR = " [SEP] "
_CLAUSE = re.compile(r",? and price lower than ([\d.]+) dollars$")
_PRICE = re.compile(r"\$([\d.]+)")
_BUTTONS = ("back to search", "< prev", "next >", "description", "features", "reviews", "attributes", "buy now")
_PAGE = 10


def instruction_in(observation: str) -> str:
    """The instruction that a page of mode `text`, `text_rich` or `dict` shows. Raises ValueError for any other text."""
    for separator in (_SEPARATOR, "\n"):
        parts = [part.strip() for part in observation.split(separator)]
        if "Instruction:" in parts[:-1]:
            return parts[parts.index("Instruction:") + 1]
    if observation.startswith("{"):
        return str(json.loads(observation)["instruction"])
    raise ValueError(
        f"WebShop's agents find no instruction in {observation[:60]!r}; they read the modes text, text_rich and dict."
    )


class WebShopOracle:
    """Looks the instruction up among the shop's goals and buys what scores best, by the search that ranks it highest.

    It knows catalogue and goals, not the state of the game that is played.
    """

    def __init__(self, game: Game) -> None:
        from mage_envs.games.webshop.game import WebShop  # loads the search engine's tables

        if not isinstance(game, WebShop):
            raise TypeError(f"webshop/oracle needs WebShop's own rules, not {type(game).__name__}.")
        self._shop = game.shop
        self._by_text: dict[str, list[int]] = {}
        self._plan: list[str] = []

    def reset(self, rng: np.random.Generator) -> None:
        """Starts an episode."""
        self._plan = []

    def act(self, turn: Turn) -> str:
        at_start = not any(action.startswith("click[") for action in turn.legal_actions)
        if at_start or not self._plan:
            self._plan = self._plan_for(instruction_in(turn.observation))
        return self._plan.pop(0)

    def _plan_for(self, instruction: str) -> list[str]:
        """The actions that buy the best product within reach, from any page."""
        best, plan = -1.0, [f"search[{instruction}]"]
        for goal in self._goals_with(instruction):
            for position in self._candidates(goal):
                product = self._shop.catalogue.product(position)
                options = dict(_chosen(product, goal))
                score = self._shop.score(product, goal, options).total
                way = self._way_to(product, position, goal) if score > best else None
                if way is not None:
                    best, plan = score, [*way, *(f"click[{value}]" for value in options.values()), "click[buy now]"]
                if best == 1.0:
                    return plan
        return plan

    def _goals_with(self, instruction: str) -> list[Goal]:
        """The goals of that very text: those of the products that it finds, else those of the whole table."""
        shop = self._shop
        found = [
            goal
            for position in shop.search(instruction.lower())
            for goal in shop.goals_of(shop.catalogue.product(position))
            if goal.instruction.strip() == instruction
        ]
        if found:
            return found
        if not self._by_text:
            for number in range(len(shop)):
                self._by_text.setdefault(shop.goal_at(number).instruction.strip(), []).append(number)
        return [shop.goal_at(number) for number in self._by_text.get(instruction, ())]

    def _candidates(self, goal: Goal) -> Iterator[int]:
        """The goal's own product, then whatever its text finds."""
        own = self._shop.catalogue.find(goal.asin)
        return chain(() if own is None else (own,), self._shop.search(goal.instruction.lower()))

    def _way_to(self, product: Product, position: int, goal: Goal) -> list[str] | None:
        """The shortest of some ways to the product's page, None where none of their searches finds it."""
        wanted = " ".join(goal.attributes)
        ways = []
        for words in (product.title, f"{product.title} {wanted}", f"{product.query} {wanted}", goal.instruction):
            query = re.sub(r"[\[\]<>]", " ", words).lower().strip()[:500].strip()
            hits = self._shop.search(query) if query else ()
            if position in hits:
                pages = hits.index(position) // _PAGE
                ways.append([f"search[{query}]", *["click[next >]"] * pages, f"click[{product.asin.lower()}]"])
                if not pages:
                    break
        return min(ways, key=len, default=None)


def _chosen(product: Product, goal: Goal) -> Iterator[tuple[str, str]]:
    """The product's options that are wanted, as (axis, value); of several, one equal to what is wanted."""
    from mage_envs.games.webshop.reward import options_matched

    for option in goal.options:
        axis_wanted, value_wanted = ("", option) if isinstance(option, str) else option
        fitting = [
            (axis == axis_wanted, value == value_wanted, axis, value)
            for axis, values in product.options.items()
            for value in values
            if value not in _BUTTONS and options_matched((value,), (option,))
        ]
        if fitting:
            yield max(fitting, key=lambda fit: fit[:2])[2:]


class WebShopFirst:
    """Searches for the instruction as it stands, opens the first result and buys it: what no reading at all is worth.

    Where a search finds nothing it looks further until the turns are over.
    """

    def reset(self, rng: np.random.Generator) -> None:
        """Starts an episode."""

    def act(self, turn: Turn) -> str:
        if "click[buy now]" in turn.legal_actions:
            return "click[buy now]"
        if "click[next >]" in turn.legal_actions:
            return next(iter(_results(turn)), "click[next >]")
        return f"search[{instruction_in(turn.observation)}]"


class WebShopRule:
    """Searches for the instruction without its price, opens the first product under the price limit, chooses the
    options that the instruction names, and buys. It reads nothing but pages of mode `text`.

    It is not the rule baseline of the original, which buys the first result and chooses nothing (see `WebShopFirst`).
    """

    def __init__(self) -> None:
        self._clicked: set[str] = set()

    def reset(self, rng: np.random.Generator) -> None:
        """Starts an episode."""
        self._clicked = set()

    def act(self, turn: Turn) -> str:
        instruction = instruction_in(turn.observation)
        if "click[buy now]" in turn.legal_actions:
            return self._on_product(turn, instruction)
        self._clicked = set()
        if "click[next >]" in turn.legal_actions:
            return self._on_results(turn, instruction)
        return f"search[{_CLAUSE.sub('', instruction)}]"

    def _on_results(self, turn: Turn, instruction: str) -> str:
        """Opens the first product whose lowest price is under the limit, or looks further."""
        clause = _CLAUSE.search(instruction)
        limit = float(clause[1]) if clause else float("inf")
        affordable = (action for action, price in _priced(turn) if price <= limit)
        return next(affordable, "click[next >]")

    def _on_product(self, turn: Turn, instruction: str) -> str:
        for value in _named_options(turn, _CLAUSE.sub("", instruction).lower()):
            if value not in self._clicked:
                self._clicked.add(value)
                return f"click[{value}]"
        return "click[buy now]"


class WebShopNext(WebShopRule):
    """Buys as `WebShopRule` does, and in each further episode of a meta-episode the next product that fits its price
    limit in the order of the results, until one is a success, which it buys again: K tries that read no page.
    """

    def __init__(self) -> None:
        super().__init__()
        self._failed: set[str] = set()
        """The clicks that opened what was bought without success, or could not be bought in time."""
        self._opened = ""
        self._instruction = ""

    def begin_meta_episode(self) -> None:
        """Forgets what failed."""
        self._failed, self._opened = set(), ""

    def reset(self, rng: np.random.Generator) -> None:
        """Starts an episode; the one before failed unless `see_result` said otherwise."""
        super().reset(rng)
        if self._opened:
            self._failed.add(self._opened)
        self._opened = ""

    def see_result(self, turn: Turn) -> None:
        """Keeps to a purchase that was right."""
        if turn.success:
            self._opened = ""

    def act(self, turn: Turn) -> str:
        instruction = instruction_in(turn.observation)
        if instruction != self._instruction:  # outside of a meta-episode each hand has a goal of its own
            self._failed, self._instruction = set(), instruction
        return super().act(turn)

    def _on_results(self, turn: Turn, instruction: str) -> str:
        left = turn._replace(legal_actions=tuple(one for one in turn.legal_actions if one not in self._failed))
        action = super()._on_results(left, instruction)
        self._opened = "" if action == "click[next >]" else action
        return action


def _results(turn: Turn) -> Iterator[str]:
    """The clicks that open the products of a page of results, in its order."""
    clicks = (action for action in turn.legal_actions if action.startswith("click["))
    return (action for action in clicks if action[6:-1] not in _BUTTONS)


def _priced(turn: Turn) -> Iterator[tuple[str, float]]:
    """The clicks that open the products of a page of results, in its order, each with the lowest price shown."""
    parts = turn.observation.split(_SEPARATOR)
    shown = [part.lower() for part in parts]
    for action in _results(turn):
        if action[6:-1] in shown:
            price = _PRICE.match(parts[min(shown.index(action[6:-1]) + 2, len(parts) - 1)])
            if price is not None:
                yield action, float(price[1])


def _named_options(turn: Turn, instruction: str) -> Iterator[str]:
    """Of each axis, the longest value that stands in the instruction as whole words."""
    offered = {action[6:-1] for action in turn.legal_actions} - set(_BUTTONS)
    best = ""
    for part in turn.observation.split(_SEPARATOR)[4:]:
        if part.lower() in offered:
            if len(part) > len(best) and re.search(rf"(?<!\w){re.escape(part.lower())}(?!\w)", instruction):
                best = part.lower()
        elif best:  # the next axis, or the title
            yield best
            best = ""
