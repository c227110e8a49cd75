"""WebShop (Yao et al. 2022).

Rules: an instruction names the purchase: a kind of product, properties, options such as colour or size, and a price
limit. The shop has a search page, pages of results, product pages with options, and pages with a product's
description, features and reviews. The purchase ends the episode.
Actions: `search[words]` on any page, and `click[name]` for a name that the page offers. Upper and lower case are equal.
Observation: the page, in one of five modes. `text` (default): its texts joined by ` [SEP] `, as in the original's
`text` mode. `text_rich`: a line per text, with marked buttons. `html`, `url` (of the original's site), `dict` (JSON).
Returns: the original's score of the purchase, from 0 to 1: the share of attributes, options and price limit that are
met, times a factor for the kind of product. The score is 0 without a purchase. Success is a score of exactly 1.
Versions: v0.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from typing import ClassVar, Self

import numpy as np

from mage_envs.core import Game, GameSpec, IllegalAction, State
from mage_envs.games.webshop.catalogue_maker.make import certificates, seed_of
from mage_envs.games.webshop.embedded import HELD_OUT
from mage_envs.games.webshop.goals import Goal
from mage_envs.games.webshop.pages import MODES
from mage_envs.games.webshop.session import DONE, Session, parse
from mage_envs.games.webshop.shop import Shop
from mage_envs.games.webshop.sources import shop_for
from mage_envs.games.webshop.words import SEPARATOR, VOCABULARY, read_page, spell_actions
from mage_envs.loading.options import check_choice, check_positive
from mage_envs.settings import GameSettings, success_or_nothing, success_reward
from mage_envs.text.plain import MAX_CHARACTERS, nearest_action
from mage_envs.text.words.spelling import ObservationWords

EXAMPLE = "search[<your query>]"
"""Placeholder for all searches among the legal actions."""
_EXPECTED = (EXAMPLE, "or a click that the page offers")
PARTS, NOTHING = "parts", "none"
MOST_EARLIER = 100
"""Maximum number of earlier pages or actions in an observation."""
_LOOSE_SEARCH = re.compile(r"\W*search\b\W*(\w.*?)\W*", re.IGNORECASE | re.DOTALL)


def nearest_page_action(answer: str, legal_actions: Sequence[str]) -> str:
    """Return a search for the words of an answer that begins with `search`, or else the nearest action of the page."""
    words = _LOOSE_SEARCH.fullmatch(answer[:MAX_CHARACTERS])
    return f"search[{words[1]}]" if words else nearest_action(answer, legal_actions)


class WebShopState(State):
    """One point of a visit. An action continues in a copy of the session; all states share the shop."""

    player: int | None
    returns: tuple[float, ...]
    category: str

    def __init__(self, game: WebShop, session: Session, category: str, past: tuple[tuple[str, str], ...] = ()) -> None:
        """Store the session.

        Args:
            game: The game, which holds the options of observations.
            session: The visit. The state owns it, and nothing else may change it.
            past: (page, action) pairs before this page, oldest first.
        """
        score = session.score
        self.session = session
        self.task_id = session.goal.id
        self.category = category
        self.player = None if session.page == DONE else 0
        self.returns = (0.0 if score is None else score.total,)
        self._game = game
        self._past = past

    @cached_property
    def legal_actions(self) -> tuple[str, ...]:
        """An example of a search and every click that the page offers, or nothing after the purchase."""
        return () if self.player is None else (EXAMPLE, *self.session.legal_actions())

    def observation(self, seat: int) -> str:
        texts, count = [], len(self._past)
        # Pages and actions have separate limits, so the older entries may contribute only one of the two.
        for index, (page, action) in enumerate(self._past):
            age = count - index
            texts += [page] * (age <= self._game.num_prev_obs) + [action] * (age <= self._game.num_prev_actions)
        return SEPARATOR.join([*texts, self._page])

    @cached_property
    def _page(self) -> str:
        session, game = self.session, self._game
        text = MODES[game.mode](session, game.show_score or game.compat)
        if game.option_state and session.options and session.page != DONE:
            choices = ", ".join(f"{axis}: {value}" for axis, value in session.options.items())
            text += f"{SEPARATOR}Chosen: {choices}"
        return text

    def information_state(self, seat: int) -> str:
        """Return the page and the chosen options, because the text may not show the options."""
        return f"{self.observation(seat)}\n{sorted(self.session.options.items())}"

    def after(self, action: str) -> Self:
        # A shallow copy is enough, because a session replaces its attributes and never changes their values.
        session = copy(self.session)
        if not session.play(action):
            raise IllegalAction(action, _EXPECTED)
        length = max(self._game.num_prev_obs, self._game.num_prev_actions)
        past = (*self._past, (self._page, action))[-length:] if length else ()
        return type(self)(self._game, session, self.category, past)

    def canonical(self, action: str) -> str:
        parsed = parse(action, self._game.compat)
        return action if parsed is None else f"{parsed[0]}[{parsed[1]}]"

    def won(self, seat: int) -> bool:
        return self.returns[0] == 1.0

    def metrics(self) -> dict[str, float]:
        """Return the original's score and its parts, all in [0, 1].

        `task_score` is 0 before the purchase. After it there are also `r_type` (factor for the kind of product),
        `r_att`, `r_price`, and `r_option` if the goal names options.
        """
        score = self.session.score
        if score is None:
            return {"task_score": 0.0}
        metrics = {
            "task_score": score.total,
            "r_type": score.r_type,
            "r_att": score.r_att,
            "r_price": float(score.r_price),
        }
        if score.r_option is not None:
            metrics["r_option"] = score.r_option
        return metrics


@dataclass(eq=False)
class WebShop(Game):
    """WebShop without Java, with a generated catalogue or the official data.

    The module's docstring states rules, actions, observation and returns.

    Success: a score of exactly 1.

    Args:
        split: Split of the goals: `train` (default), `val` or `test`, and in the built-in catalogue also `ood_type`,
            `ood_phrase` or `ood_catalogue`.
        size: Size of the built-in catalogue (`tiny` 100 products, `small` 1,000, `medium` 10,000, `large` 100,000,
            `xl` 1,000,000), or of the original's data (`small`, `full`).
        data: Folder with the original's files, or a folder that `import_official` built (default: the built-in
            catalogue).
        goals: With `data`, `synthetic` (default) or `human`. It may also name a file of the user's own goals
            (`*.json`, see `Shop.with_goals`).
        mode: Mode of the observation (default: `text`).
        compat: If True, behave as the original: its goal numbers as splits (and `all`, drawn by its weights), its magic
            queries, its parser of actions, the score on the last page. Actions that crash the original are illegal.
        option_state: If True, append the chosen options to the text.
        show_score: If True, append the score to the last page.
        show_attributes: If True, offer the page of hidden attributes.
        price_seed: Seed of the prices that the original's files give as a range.
        title_tagger: `builtin` (default), or `spacy` for the original's tagger. The latter requires spaCy and its
            model.
        num_prev_obs: Number of earlier pages before the page, oldest first, joined by `[SEP]` between blanks.
        num_prev_actions: Number of earlier actions before the page, in the same sequence.
        feedback: `parts` (default): the last page names the parts of the score that the purchase does not meet, except
            under `compat`. `none`: it does not.
        catalogues: Number of built-in catalogues that episodes draw from (default: 1). The size `small` has 20, each
            generated at its first use.

    Raises:
        ValueError: If an option is invalid or does not fit the others, or if the split has no goals.
        DataFileError: If a file of the original is missing or malformed.
        ImportError: If the tagger is not installed.
    """

    spec = GameSpec(
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
        nearest=nearest_page_action,
        observation_words=ObservationWords(read_page, VOCABULARY, spell_actions),
    )
    builds_data: ClassVar[bool] = True

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
    feedback: str = PARTS
    catalogues: int = 1
    shop: Shop = field(init=False)
    """Catalogue and goals, shared by all games with the same options. With several catalogues, those of the first."""

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ValueError(f"mode={self.mode!r} is unknown; choose one of: {', '.join(map(repr, MODES))}.")
        if self.option_state and self.mode != "text":
            raise ValueError(f"option_state=True requires mode='text', got mode={self.mode!r}.")
        # bool is a subclass of int, so True would pass as 1.
        for name, count in (("num_prev_obs", self.num_prev_obs), ("num_prev_actions", self.num_prev_actions)):
            if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= MOST_EARLIER:
                raise ValueError(f"{name}={count!r} must be a whole number from 0 to {MOST_EARLIER}.")
        if self.mode != "text" or self.num_prev_obs or self.num_prev_actions:
            # The words are those of one page as text.
            self.spec = replace(type(self).spec, observation_words=None)
        check_choice("feedback", self.feedback, (PARTS, NOTHING))
        self.shop = self._shop(0)
        check_positive("catalogues", self.catalogues, self._available)
        # Raises ValueError now, not at the first reset, if the split has no goals.
        self.shop.numbers(self.split, self.compat)

    def initial_state(self, rng: np.random.Generator) -> WebShopState:
        # One catalogue needs no draw.
        shop = self.shop if self.catalogues == 1 else self._shop(int(rng.integers(self.catalogues)))
        return WebShopState(self, self._session(shop, shop.draw(self.split, rng, self.compat)), self.split)

    def task_state(self, task_id: str, rng: np.random.Generator) -> WebShopState:
        shop = self._shop_with(task_id)
        goal = shop.goal(task_id)
        return WebShopState(self, self._session(shop, goal), goal.split)

    def data_hash(self) -> str:
        if self.catalogues == 1:
            return self.shop.fingerprint
        # The certificates name the content of the other catalogues, which need not be generated for this.
        content = (self.shop.fingerprint, *self._certificates[: self.catalogues])
        return sha256(" ".join(content).encode()).hexdigest()[:12]

    def family(self, task_id: str) -> str:
        """Return the family of near duplicates of the goal's product, or the product's id if it has no family."""
        return self._shop_with(task_id).family(task_id)

    def shops(self) -> Iterator[Shop]:
        """Yield the shops of all catalogues."""
        return map(self._shop, range(self.catalogues))

    @property
    def _certificates(self) -> tuple[str, ...]:
        return certificates(self.size, self.split == HELD_OUT)

    @property
    def _available(self) -> int:
        """Number of catalogues. The user's own data or goals belong to one."""
        return max(1, len(self._certificates)) if self.data is None and self.goals is None else 1

    def _shop(self, seed: int) -> Shop:
        return shop_for(
            split=self.split,
            size=self.size,
            data=self.data,
            goals=self.goals,
            price_seed=self.price_seed,
            title_tagger=self.title_tagger,
            catalogue=seed,
        )

    def _shop_with(self, task_id: str) -> Shop:
        """Return the shop whose catalogue has the goal's product, or the first one if there is none."""
        if self.catalogues == 1:
            return self.shop
        seed = seed_of(task_id.partition("-")[0], self.size, held_out=self.split == HELD_OUT)
        return self.shop if seed is None or seed >= self.catalogues else self._shop(seed)

    def _session(self, shop: Shop, goal: Goal) -> Session:
        return Session(
            shop,
            goal,
            upstream=self.compat,
            shows_attributes=self.show_attributes,
            shows_parts=self.feedback == PARTS and not self.compat,
        )


SETTINGS = GameSettings(
    rewards={"task": success_reward, "released": success_or_nothing},
    history_window=5,
    reflect_window=20,
    references={
        "floor: random": "scripted:random",
        "floor: webshop/first": "policy:webshop/first",
        "floor: webshop/next": "policy:webshop/next",
    },
)
