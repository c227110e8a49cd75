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
from copy import copy
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property

import numpy as np

from mage_envs.core import Game, GameFacts, IllegalAction, State
from mage_envs.games.webshop.goals import Goal
from mage_envs.games.webshop.pages import MODES, SEPARATOR
from mage_envs.games.webshop.session import DONE, Session, parse
from mage_envs.games.webshop.shop import Shop
from mage_envs.games.webshop.sources import shop_for
from mage_envs.settings import GameSettings, success_or_nothing, success_reward

EXAMPLE = "search[<your query>]"
"""Stands for all searches among the legal actions."""
_EXPECTED = (EXAMPLE, "or a click that the page offers")
MOST_EARLIER = 100
"""Earlier pages or actions that an observation may repeat."""


class WebShopState(State):
    """Where a visit is. An action goes on with a copy of the session; the shop is shared."""

    player: int | None
    returns: tuple[float, ...]
    category: str

    def __init__(self, game: WebShop, session: Session, category: str, past: tuple[tuple[str, str], ...] = ()) -> None:
        """`category`: the split of the goal; `past`: the pages and actions before this page, oldest first."""
        score = session.score
        self.session = session
        self.task = session.goal.id
        self.category = category
        self.player = None if session.page == DONE else 0
        self.returns = (0.0 if score is None else score.total,)
        self._game = game
        self._past = past

    @cached_property
    def legal_actions(self) -> tuple[str, ...]:
        """An example of a search, and every click that the page offers."""
        return () if self.player is None else (EXAMPLE, *self.session.legal_actions())

    def observation(self, seat: int) -> str:
        texts, last = [], len(self._past)
        for place, (page, action) in enumerate(self._past):
            ago = last - place
            texts += [page] * (ago <= self._game.num_prev_obs) + [action] * (ago <= self._game.num_prev_actions)
        return SEPARATOR.join([*texts, self._page])

    @cached_property
    def _page(self) -> str:
        session, game = self.session, self._game
        text = MODES[game.mode](session, game.show_score or game.compat)
        if game.option_state and session.options and session.page != DONE:
            chosen = ", ".join(f"{axis}: {value}" for axis, value in session.options.items())
            text += f"{SEPARATOR}Chosen: {chosen}"
        return text

    def information_state(self, seat: int) -> str:
        """The page and what was chosen, which the text may not show."""
        return f"{self.observation(seat)}\n{sorted(self.session.options.items())}"

    def after(self, action: str) -> WebShopState:
        session = copy(self.session)
        if not session.play(action):
            raise IllegalAction(action, _EXPECTED)
        kept = max(self._game.num_prev_obs, self._game.num_prev_actions)
        past = (*self._past, (self._page, action))[-kept:] if kept else ()
        return WebShopState(self._game, session, self.category, past)

    def canonical(self, action: str) -> str:
        parsed = parse(action, self._game.compat)
        return action if parsed is None else f"{parsed[0]}[{parsed[1]}]"

    def won(self, seat: int) -> bool:
        return self.returns[0] == 1.0

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


@dataclass(eq=False)
class WebShop(Game):
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

    facts = GameFacts(
        name="WebShop",
        rules=(
            "WebShop. You shop in an online store for the product that the instruction describes: the right kind of "
            "product with every property it asks for, the options it names (such as color or size), and a price under "
            "its limit. search[words] looks products up and shows the best matches, ten a page. click[name] follows "
            "what the page offers: a product by its id, an option, a page such as description or features, next > and "
            "< prev, back to search. Choose the options on the product's page before you buy. click[buy now] ends the "
            "episode; you succeed if the purchase meets the instruction in every point."
        ),
        players=1,
        unit="score",
        min_return=0.0,
        max_turns=12,
    )

    split: str = "train"
    _: KW_ONLY
    size: str = "small"
    data: str | os.PathLike[str] | None = None
    goals: str | os.PathLike[str] | None = None
    mode: str = "text"
    compat: bool = False
    option_state: bool = False
    show_score: bool = False
    show_attributes: bool = False
    price_seed: int = 0
    title_tagger: str = "builtin"
    num_prev_obs: int = 0
    num_prev_actions: int = 0
    shop: Shop = field(init=False)
    """Catalogue and goals, which all games with these options share."""

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ValueError(f"mode={self.mode!r} is unknown; choose one of: {', '.join(map(repr, MODES))}.")
        if self.option_state and self.mode != "text":
            raise ValueError(f"option_state=True belongs to mode='text'; mode={self.mode!r} has its own way.")
        for name, count in (("num_prev_obs", self.num_prev_obs), ("num_prev_actions", self.num_prev_actions)):
            if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= MOST_EARLIER:
                raise ValueError(f"{name}={count!r} must be a whole number from 0 to {MOST_EARLIER}.")
        self.shop = shop_for(
            split=self.split,
            size=self.size,
            data=self.data,
            goals=self.goals,
            price_seed=self.price_seed,
            title_tagger=self.title_tagger,
        )
        self.shop.numbers(self.split, self.compat)  # refuses a split that has no goals

    def initial_state(self, rng: np.random.Generator) -> WebShopState:
        goal = self.shop.draw(self.split, rng, self.compat)
        return WebShopState(self, self._session(goal), self.split)

    def task_state(self, task: str, rng: np.random.Generator) -> WebShopState:
        goal = self.shop.goal(task)
        return WebShopState(self, self._session(goal), goal.split)

    def data_hash(self) -> str:
        return self.shop.fingerprint

    def family(self, task: str) -> str:
        """The family of near duplicates that the goal's product belongs to, the product where it has none."""
        return self.shop.family(task)

    def _session(self, goal: Goal) -> Session:
        return Session(self.shop, goal, upstream=self.compat, shows_attributes=self.show_attributes)


SETTINGS = GameSettings(
    rewards={"task": success_reward, "released": success_or_nothing}, history_window=5, reflect_window=20
)
