"""WebShop (Yao et al. 2022).

Rules: an instruction tells what to buy: a kind of product, properties, options such as colour or size, and a price
limit. The shop has a search page, pages of results, product pages with options, pages with a product's description,
features and reviews, and the purchase, which ends the episode.
Actions: `search[words]` on any page, and `click[name]` of what the page offers, in any case.
Observation: the page, in one of five modes. `text` (default): its texts joined by ` [SEP] `, as the original's `text`
mode. `text_rich`: a line per text, buttons marked. `html`, `url` (of the original's site), `dict` (JSON).
Returns: the original's score of the purchase, 0 to 1: wanted attributes, options and price limit met, times a factor
for the kind of product. 0 without a purchase. Success is a score of exactly 1.
Versions: v0.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Mapping, Sequence

import numpy as np

from mage_envs.core import EpisodeReward, HandResult, IllegalAction, TextGame, success_or_nothing, success_reward
from mage_envs.games.webshop.goal_tables import EVERY
from mage_envs.games.webshop.goals import Goal
from mage_envs.games.webshop.pages import MODES, SEPARATOR
from mage_envs.games.webshop.session import DONE, Session, parse
from mage_envs.games.webshop.sources import shop_for

EXAMPLE = "search[<your query>]"
"""Stands for all searches among the legal actions."""
_EXPECTED = (EXAMPLE, "or a click that the page offers")
MOST_EARLIER = 100
"""Earlier pages or actions that an observation may repeat."""


class WebShop(TextGame):
    """WebShop; see the module's text for rules, actions, observation and returns.

    `split`: the goals that are drawn from: `train` (default), `val`, `test`, and in the built-in catalogue also
    `ood_type`, `ood_phrase` and `ood_catalogue`. `size`: of the built-in catalogue (`tiny` 100, `small` 1,000 products,
    `medium`, `large`, `xl`), or of the original's data (`small`, `full`). `data`: the folder with the original's files
    or what `import_official` made of it; then `goals` is `synthetic` (default) or `human`, and `price_seed` draws the
    prices that the files leave open. `goals` may also name a file of one's own goals (`*.json`, see `Shop.with_goals`).
    `title_tagger`: `builtin` (default), or `spacy` for the original's own, where spaCy and its model are installed.

    `mode`: of the observation. `compat`: everything as in the original: its goal numbers as splits (and `all`, drawn by
    its weights), its magic queries, its reading of actions, the score on the last page; what crashes there does nothing
    here. `option_state` appends the chosen options to the text, `show_score` the score to the last page,
    `show_attributes` offers the page of hidden attributes. `num_prev_obs`, `num_prev_actions`: so many earlier pages
    and actions stand before the page, oldest first, joined by ` [SEP] `.
    """

    name = "WebShop"
    num_players = 1
    rules = (
        "WebShop. You shop in an online store for the product that the instruction describes: the right kind of "
        "product with every property it asks for, the options it names (such as color or size), and a price under its "
        "limit. search[words] looks products up and shows the best matches, ten a page. click[name] follows what the "
        "page offers: a product by its id, an option, a page such as description or features, next > and < prev, back "
        "to search. Choose the options on the product's page before you buy. click[buy now] ends the episode; you "
        "succeed if the purchase meets the instruction in every point."
    )
    min_return = 0.0
    max_turns = 12
    history_window = 5
    reflect_window = 20
    unit = "score"
    rewards: Mapping[str, EpisodeReward] = {"task": success_reward, "released": success_or_nothing}  # type: ignore[misc]

    def __init__(
        self,
        split: str = "train",
        *,
        size: str = "small",
        data: str | os.PathLike[str] | None = None,
        goals: str | os.PathLike[str] | None = None,
        mode: str = "text",
        compat: bool = False,
        option_state: bool = False,
        show_score: bool = False,
        show_attributes: bool = False,
        price_seed: int = 0,
        title_tagger: str = "builtin",
        num_prev_obs: int = 0,
        num_prev_actions: int = 0,
    ) -> None:
        if mode not in MODES:
            raise ValueError(f"mode={mode!r} is unknown; choose one of: {', '.join(map(repr, MODES))}.")
        if option_state and mode != "text":
            raise ValueError(f"option_state=True belongs to mode='text'; mode={mode!r} has its own way.")
        for name, count in (("num_prev_obs", num_prev_obs), ("num_prev_actions", num_prev_actions)):
            if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= MOST_EARLIER:
                raise ValueError(f"{name}={count!r} must be a whole number from 0 to {MOST_EARLIER}.")
        self.shop = shop_for(split, size, data, goals, price_seed, title_tagger)
        self.mode = mode
        self._split = split
        self._numbers = self.shop.numbers(split, upstream=compat)
        self._weights = np.cumsum(self.shop.upstream_weights()) if compat and split == EVERY else None
        self._earlier = (num_prev_obs, num_prev_actions)
        self._past: deque[tuple[str, str]] = deque(maxlen=max(self._earlier))
        self._compat = compat
        self._render = MODES[mode]
        self._tells_options = option_state
        self._shows_score = show_score or compat
        self._shows_attributes = show_attributes
        self._chosen: Goal | None = None
        self._text: str | None = None
        self._legal: tuple[str, ...] | None = None

    def choose(self, task_id: str | None) -> None:
        self._chosen = None if task_id is None else self.shop.goal(task_id)

    def reset(self, rng: np.random.Generator) -> None:
        goal = self._chosen
        if goal is None:
            goal = self.shop.goal_at(int(self._numbers[self._drawn(rng)]))
        self._past.clear()
        self.session = Session(self.shop, goal, upstream=self._compat, shows_attributes=self._shows_attributes)
        self._text = self._legal = None

    def _drawn(self, rng: np.random.Generator) -> int:
        """A place among the split's goals; by weight it is off by one as in the original, which never draws the first
        goal and gives each the weight of the one before it."""
        if self._weights is None:
            return int(rng.integers(len(self._numbers)))
        passed = int(np.searchsorted(self._weights, rng.random() * self._weights[-1], "right"))
        return min(passed + 1, len(self._numbers) - 1)

    def task_id(self) -> str:
        return self.session.goal.id

    def category(self) -> str:
        """The split of the goal."""
        return self._split if self._chosen is None else self._chosen.split

    def current_player(self) -> int | None:
        return None if self.session.page == DONE else 0

    def legal_actions(self) -> tuple[str, ...]:
        """An example of a search, and every click that the page offers."""
        if self._legal is None:
            session = self.session
            self._legal = () if session.page == DONE else (EXAMPLE, *session.legal_actions())
        return self._legal

    def observe(self, player: int) -> str:
        if not self._past:
            return self._page()
        texts, last = [], len(self._past)
        for place, (page, action) in enumerate(self._past):
            ago = last - place
            texts += [page] * (ago <= self._earlier[0]) + [action] * (ago <= self._earlier[1])
        return SEPARATOR.join([*texts, self._page()])

    def _page(self) -> str:
        if self._text is None:
            session = self.session
            self._text = self._render(session, self._shows_score)
            if self._tells_options and session.options and session.page != DONE:
                chosen = ", ".join(f"{axis}: {value}" for axis, value in session.options.items())
                self._text += f"{SEPARATOR}Chosen: {chosen}"
        return self._text

    def information_state(self, player: int) -> str:
        """The page and what was chosen, which the text may not show."""
        return f"{self.observe(player)}\n{sorted(self.session.options.items())}"

    def canonical(self, action: str) -> str:
        parsed = parse(action, self._compat)
        return action if parsed is None else f"{parsed[0]}[{parsed[1]}]"

    def apply(self, action: str) -> None:
        before = self._page() if self._past.maxlen else ""
        if not self.session.play(action):
            raise IllegalAction(action, _EXPECTED)
        self._past.append((before, action))
        self._text = self._legal = None

    def returns(self) -> tuple[float, ...]:
        score = self.session.score
        return (0.0 if score is None else score.total,)

    def return_if_stopped(self, player: int) -> float:
        return 0.0

    def won(self, player: int) -> bool:
        score = self.session.score
        return score is not None and score.total == 1.0

    def is_success(self, hands: Sequence[HandResult]) -> bool:
        return bool(hands) and all(hand.success for hand in hands)

    def metrics(self) -> dict[str, float]:
        """`task_score`, the original's score (0 before a purchase), and after it its parts, all in [0, 1]: `r_type`
        (factor for the kind of product), `r_att`, `r_option` (where options are wanted) and `r_price`."""
        score = self.session.score
        if score is None:
            return {"task_score": 0.0}
        told = {
            "task_score": score.total,
            "r_type": score.r_type,
            "r_att": score.r_att,
            "r_price": float(score.r_price),
        }
        if score.r_option is not None:
            told["r_option"] = score.r_option
        return told
