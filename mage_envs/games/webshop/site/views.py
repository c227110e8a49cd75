"""The views of the site."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from threading import Lock

import numpy as np

from mage_envs.games.webshop.goals import Goal
from mage_envs.games.webshop.session import DONE, ITEM, NEXT, RESULTS, Session
from mage_envs.games.webshop.shop import Shop
from mage_envs.games.webshop.site.shown import LAST_PAGE, address, build_page, can_choose
from mage_envs.games.webshop.site.watching import Watches
from mage_envs.web.application import Asked, Facts, GoTo, Page, Reaction, Refusal, Route, check_form, form_page
from mage_envs.web.security import Tokens
from mage_envs.web.visits import Visit, Visits

LONGEST_QUERY = 512
"""Maximum length of a visitor's search in characters."""
GOALS_PER_PAGE = 10
LONGEST_NUMBER = 9
"""Maximum number of digits of a number in a form or an address."""
NOTICES: Mapping[str, str] = {
    "stale": "That page was out of date, so nothing was clicked. < Prev leads back, not the browser's own button.",
    "ended": "That visit has ended. Start another one here.",
    "refused": "The shop has nothing of that name on this page.",
    "blank": "Type what to look for first.",
    "last": "The shop turns no more pages. Try another search.",
    "many": "This visit has had all the actions that it may have. Start another one.",
}
"""Notices at the top of a page, by the name in the address."""


class Views:
    """The pages of one shop. Views run in several threads, so a visit is read and changed under its lock.

    Args:
        watches: Store of the agents' sessions.
        rng: Source of the random goals.
        images: If True, show the data's pictures.
        shows_attributes: If True, offer the page of hidden attributes.
    """

    def __init__(
        self,
        shop: Shop,
        tokens: Tokens,
        visits: Visits[Session],
        watches: Watches,
        rng: np.random.Generator,
        *,
        images: bool,
        shows_attributes: bool,
    ) -> None:
        self._shop = shop
        self._tokens = tokens
        self._visits = visits
        self._watches = watches
        # Generators of NumPy are not thread-safe.
        self._rng = rng
        self._rng_lock = Lock()
        self._images = images
        self._shows_attributes = shows_attributes
        counts = {split: count for split, count in shop.splits.items() if count}
        self._splits = {split: counts[split] for split in sorted(counts, key=lambda split: (split != "train", split))}

    def routes(self) -> tuple[Route, ...]:
        """Return (address, method, view) of every page."""
        pages = ("/search", "/results/<path:path>", "/item/<path:path>", "/done")
        return (
            ("/", "GET", self.home),
            ("/healthz", "GET", self.health),
            ("/goals/<split>/<number>", "GET", self.goals),
            ("/watch/<token>", "GET", self.watch),
            ("/watch/<token>/still", "GET", partial(self.watch, still=True)),
            *((page, "GET", self.page) for page in pages),
            ("/visits", "POST", self.start),
            ("/search", "POST", self.search),
            ("/click", "POST", self.click),
        )

    # -- before a visit --------------------------------------------------------------------------------------------

    def home(self, request: Asked) -> Reaction:
        """Return the first page, which starts or continues a visit."""
        visit = self._visits.find(request.token)
        going = None
        if visit is not None:
            with visit.lock:
                going = build_page(visit.session)
        values = {"splits": self._splits, "products": len(self._shop.catalogue), "going": going}
        return form_page(self._tokens, request, "home.html", values)

    def goals(self, request: Asked, split: str, number: str) -> Reaction:
        """Return a page of a split's instructions to choose from.

        Args:
            number: Number of the page, from 1.

        Raises:
            Refusal: If the page does not exist.
        """
        # Goals are numbered by their place in the split, because an id would reveal the product.
        page, count = _whole(number), self._splits.get(split, 0)
        pages = -(-count // GOALS_PER_PAGE)
        if page is None or not 1 <= page <= pages:
            raise Refusal(404, "There is no such page of goals.")
        indices = range((page - 1) * GOALS_PER_PAGE, min(page * GOALS_PER_PAGE, count))
        instructions = [(index, self._goal(split, index).instruction) for index in indices]
        values = {"split": split, "splits": self._splits, "goals": instructions, "number": page, "pages": pages}
        return form_page(self._tokens, request, "goals.html", values)

    def _goal(self, split: str, index: int) -> Goal:
        return self._shop.goal_at(int(self._shop.numbers(split)[index]))

    def start(self, request: Asked) -> Reaction:
        """Start a visit under a new token, with the goal of the current visit, a chosen goal or a random one."""
        check_form(self._tokens, request)
        old = self._visits.find(request.token)
        if "again" in request.form:
            if old is None:
                return GoTo("/", "ended")
            goal = old.session.goal
        else:
            goal = self._read_goal(request.form)
        # A new token, so that an old page or form of this visitor cannot act on the new visit.
        token = self._tokens.new()
        self._visits.drop(request.token)
        self._visits.add(
            token, Visit(Session(self._shop, goal, shows_attributes=self._shows_attributes)), request.address
        )
        return GoTo("/search", token=token)

    def _read_goal(self, form: Mapping[str, str]) -> Goal:
        split = form.get("split", "")
        if split not in self._splits:
            raise Refusal(400, "There are no goals of that name.")
        if "goal" not in form:
            with self._rng_lock:
                return self._shop.draw(split, self._rng)
        index = _whole(form["goal"])
        if index is None or index >= self._splits[split]:
            raise Refusal(400, "There is no such goal.")
        return self._goal(split, index)

    def health(self, request: Asked) -> Reaction:
        """Return the state of the site, for programs."""
        return Facts({"status": "ok", "products": len(self._shop.catalogue), "visits": len(self._visits)})

    # -- a visit ---------------------------------------------------------------------------------------------------

    def page(self, request: Asked, path: str = "") -> Reaction:
        """Return the current page of the visit. A request for another address is redirected to it."""
        visit = self._visits.find(request.token)
        if visit is None or request.token is None:
            return GoTo("/", "ended")
        with visit.lock:
            values = {"page": build_page(visit.session, self._images), "step": visit.actions, "live": False}
            page_address = address(visit.session)
        if request.path != page_address:
            return GoTo(page_address, request.notice)
        values |= {"form_key": self._tokens.form_key(request.token), "longest_query": LONGEST_QUERY}
        return Page("shop.html", values)

    def search(self, request: Asked) -> Reaction:
        """Search for the query of the form. This is possible on every page except the last."""
        visit = self._visits.find(check_form(self._tokens, request))
        query = request.form.get("search_query", "").strip()
        if len(query) > LONGEST_QUERY:
            raise Refusal(400, f"A search has at most {LONGEST_QUERY} characters.")
        if visit is None:
            return GoTo("/", "ended")
        with visit.lock:
            notice = "" if query else "blank"
            return _play_actions(visit, [f"search[{query}]"] if query else [], notice)

    def click(self, request: Asked) -> Reaction:
        """Choose the options of the form, then click its button."""
        visit = self._visits.find(check_form(self._tokens, request))
        if visit is None:
            return GoTo("/", "ended")
        with visit.lock:
            session = visit.session
            # A form of an earlier page would click on something that the visitor does not see any more.
            if request.form.get("step") != str(visit.actions):
                return GoTo(address(session), "stale")
            name = request.form.get("click", "")
            if session.page == RESULTS and name == NEXT and session.number >= LAST_PAGE:
                return GoTo(address(session), "last")
            clicks = [*_options(session, request.form), *([name] if name else [])]
            return _play_actions(visit, [f"click[{click}]" for click in clicks])

    # -- watching --------------------------------------------------------------------------------------------------

    def watch(self, request: Asked, token: str, *, still: bool = False) -> Reaction:
        """Return the page of an agent's session.

        Args:
            still: If True, the page does not reload every second.

        Raises:
            Refusal: If there is no watch with that token.
        """
        watch = self._watches.find(token)
        if watch is None:
            raise Refusal(404, "Nothing is shown under this address.")
        scene = watch.scene
        page = None if scene is None else scene.page
        values = {"title": watch.title, "scene": scene, "page": page, "live": True, "still": still, "token": token}
        return Page("watch.html", values)


def _whole(text: str) -> int | None:
    """Return the number of a text of digits, or None if the text is not such a number."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= LONGEST_NUMBER else None


def _options(session: Session, form: Mapping[str, str]) -> list[str]:
    """Return the option values of a form that are not chosen yet."""
    if session.page != ITEM or session.product is None:
        return []
    choices = []
    for index, (axis, values) in enumerate(session.product.options.items()):
        # Browsers send line breaks in form values as CR LF.
        value = form.get(f"option-{index}", "").replace("\r\n", "\n")
        if value in values and session.options.get(axis) != value and can_choose(session, axis, value):
            choices.append(value)
    return choices


def _play_actions(visit: Visit[Session], actions: list[str], notice: str = "") -> GoTo:
    """Play actions in a visit and redirect to its page. The caller must hold the lock of the visit."""
    session = visit.session
    for action in actions:
        if visit.used_up and session.page != DONE:
            return GoTo(address(session), "many")
        if session.play(action):
            visit.actions += 1
        else:
            notice = "refused"
    return GoTo(address(session), notice)
