"""Agents for WebShop: an oracle that knows the goals, and a shopper that reads pages. Both take the learner's seat."""

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


class WebShopRule:
    """Searches for the instruction, opens the first product under the price limit, chooses the options that the
    instruction names, and buys. It reads nothing but pages of mode `text`."""

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
            return _on_results(turn, instruction)
        return f"search[{_CLAUSE.sub('', instruction)}]"

    def _on_product(self, turn: Turn, instruction: str) -> str:
        for value in _named_options(turn, _CLAUSE.sub("", instruction).lower()):
            if value not in self._clicked:
                self._clicked.add(value)
                return f"click[{value}]"
        return "click[buy now]"


def _on_results(turn: Turn, instruction: str) -> str:
    """Opens the first product whose lowest price is under the limit, or the first one, or looks further."""
    clause = _CLAUSE.search(instruction)
    limit = float(clause[1]) if clause else float("inf")
    parts = turn.observation.split(_SEPARATOR)
    asins = [action[6:-1] for action in turn.legal_actions if action[6:-1] not in (*_BUTTONS, "")]
    shown = [part.lower() for part in parts]
    for asin in asins:
        if asin in shown:
            price = _PRICE.match(parts[min(shown.index(asin) + 2, len(parts) - 1)])
            if price is not None and float(price[1]) <= limit:
                return f"click[{asin}]"
    return "click[next >]"


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
