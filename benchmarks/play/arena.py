"""The pages of the arena: choose a game, play a meta-episode, read the table at the end, watch an agent."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, TypeVar

import gymnasium as gym
import numpy as np

from mage_envs.benchmarks.evaluation.suites.panels import weights_of
from mage_envs.benchmarks.exact.headroom_table import plays
from mage_envs.benchmarks.play.end_table import EndTable, ExactSetting, end_table
from mage_envs.benchmarks.play.sitting import HANDS, Sitting
from mage_envs.benchmarks.play.watched import WatchedAgent
from mage_envs.core import Task
from mage_envs.opponents import list_opponents, list_pools
from mage_envs.registry import explain_unavailable, list_games, load_game, make_game, settings_of
from mage_envs.text.parser import REMARK_LIMIT
from mage_envs.tree import is_enumerable
from mage_envs.web.application import (
    Asked,
    Facts,
    GoTo,
    Page,
    Reaction,
    Refusal,
    Route,
    check_form,
    form_page,
    make_app,
)
from mage_envs.web.security import Tokens
from mage_envs.web.visits import Visit, Visits

if TYPE_CHECKING:
    from flask import Flask

T = TypeVar("T")

MOST_EPISODES = 9
MOST_SITTINGS = 64
MOST_SETTINGS = 2
"""Maximum number of settings whose exact values are kept. Those of a large game need up to 1 GB."""
SOLVER = "arena-solver"
"""Name of the threads that solve games."""
SOLVED_WITHIN_S = 2.0
"""Seconds to wait for exact values before a page says that they are being solved."""
NOTICES: Mapping[str, str] = {
    "stale": "That page was out of date, so nothing was played.",
    "ended": "That meta-episode is gone. Start another one here.",
    "blank": "Type an action or its number first.",
    "busy": "The agent is still thinking.",
}
"""Notices at the top of a page, by the name in the address."""


class PersonSitting:
    """A person's meta-episode with what was chosen for it."""

    def __init__(self, game: str, opponent: str, episodes: int, seed: int) -> None:
        """Start the meta-episode.

        Args:
            game: Registered name of the game.
            opponent: Name of an opponent or a pool.
            seed: Seed of the meta-episode.
        """
        self.game, self.opponent, self.episodes = game, opponent, episodes
        env_id = f"mage/{game}-Meta-v0"
        options: dict[str, Any] = {"num_episodes": episodes, "hands_per_episode": HANDS, "opponent": opponent}
        env = gym.make(env_id, disable_env_checker=True, **options)
        self.sitting = Sitting(env, Task(env_id, seed=seed), draws_boards=False)
        self.table: Future[EndTable] | None = None
        """Table at the end, as soon as it is being made."""


def games_to_play() -> tuple[str, ...]:
    """Return the games of two players that have registered pools and an enumerable tree."""
    pooled = [name for name in list_games() if any(plays(pool, name) for pool in list_pools())]
    # A game whose engine is not installed costs its own entry, not the page. Those with data of their own have no tree.
    playable = [name for name in pooled if not explain_unavailable(name) and not load_game(name).builds_data]
    games = {name: make_game(name) for name in playable if name != "OpenSpiel"}
    return tuple(name for name, game in games.items() if game.spec.players == 2 and is_enumerable(game))


class ArenaViews:
    """The views. They run in several threads, so a visit is read and changed under its lock."""

    def __init__(
        self,
        tokens: Tokens,
        visits: Visits[PersonSitting],
        rng: np.random.Generator,
        games: Callable[[], Collection[str]] = games_to_play,
        watched: WatchedAgent | None = None,
    ) -> None:
        """Prepare the views.

        Args:
            visits: Store of the meta-episodes.
            games: Function that returns the games to choose from.
            watched: Agent to watch, if there is one.
        """
        self._tokens, self._visits, self._watched = tokens, visits, watched
        # Generators of NumPy are not thread-safe.
        self._rng, self._lock = rng, Lock()
        # Games are solved one at a time, so that no value is computed twice.
        self._solving = Lock()
        self._games = self._in_background(games)
        self._settings: OrderedDict[tuple[str, str], ExactSetting] = OrderedDict()

    def routes(self) -> tuple[Route, ...]:
        """Return (address, method, view) of every page."""
        watching: tuple[Route, ...] = (("/watch", "GET", self.watch), ("/watch", "POST", self.advance))
        return (
            ("/", "GET", self.home),
            ("/healthz", "GET", self.health),
            ("/games/<game>", "GET", self.game),
            ("/sittings", "POST", self.start),
            ("/play", "GET", self.play),
            ("/play", "POST", self.answer),
            *(watching if self._watched else ()),
        )

    def health(self, request: Asked) -> Reaction:
        """Return the state of the site, for programs."""
        return Facts({"status": "ok", "sittings": len(self._visits)})

    def home(self, request: Asked) -> Reaction:
        """Return the list of games."""
        values = {"games": self._games.result(), "going": self._visits.find(request.token) is not None}
        return form_page(self._tokens, request, "home.html", {**values, "watched": self._watched is not None})

    def game(self, request: Asked, game: str) -> Reaction:
        """Return the page of a game, with its opponents. Raises Refusal if the game is not in the list."""
        spec = load_game(self._check_game(game)).spec
        values = {"game": game, "rules": spec.rules, "opponents": _opponents(game), "most": MOST_EPISODES}
        return form_page(self._tokens, request, "game.html", values)

    def _check_game(self, game: str) -> str:
        if game not in self._games.result():
            raise Refusal(404, "There is no such game.")
        return game

    def start(self, request: Asked) -> Reaction:
        """Start a meta-episode under a new token. Raises Refusal if the form holds something that it did not offer."""
        check_form(self._tokens, request)
        game, opponent = self._check_game(request.form.get("game", "")), request.form.get("opponent", "")
        episodes = request.form.get("episodes", "")
        if episodes not in {str(number) for number in range(1, MOST_EPISODES + 1)}:
            raise Refusal(400, f"A meta-episode has 1 to {MOST_EPISODES} episodes.")
        if opponent not in _opponents(game):
            raise Refusal(400, "There is no such opponent.")
        with self._lock:
            seed = int(self._rng.integers(2**31))
        # A new token, so that an old page or form of this visitor cannot act on the new meta-episode.
        token = self._tokens.new()
        self._visits.drop(request.token)
        self._visits.add(token, Visit(PersonSitting(game, opponent, int(episodes), seed)), request.address)
        return GoTo("/play", token=token)

    def play(self, request: Asked) -> Reaction:
        """Return the current page of the meta-episode."""
        visit = self._visits.find(request.token)
        if visit is None or request.token is None:
            return GoTo("/", "ended")
        with visit.lock:
            person, sitting = visit.session, visit.session.sitting
            # Copies, because the page is written after the lock is released.
            values = {
                "own": person,
                "offered": _opponents(person.game)[person.opponent],
                "happened": tuple(sitting.happened),
            }
            values |= {"form_key": self._tokens.form_key(request.token), "step": visit.actions}
            if not sitting.over:
                values |= {"heading": sitting.heading, "reflects": sitting.reflects, "shown": sitting.shown}
                values |= {"notes": dict(sitting.notes), "rules": sitting.spec.rules, "longest": REMARK_LIMIT}
                values |= {"columns": sitting.view.columns, "choices": ()}
                if not sitting.reflects:
                    values["choices"] = sitting.view.choices(sitting.prompt.legal_actions)
                return Page("play.html", values)
            values["opponent"] = sitting.trajectory.opponent
            if person.table is None:
                person.table = self._in_background(partial(self._end_table, person))
            table = person.table
        # Without the lock, because other requests of the visitor need not wait.
        with suppress(TimeoutError):
            return Page("end.html", values | {"table": table.result(SOLVED_WITHIN_S)})
        return Page("end.html", values | {"table": None})

    def answer(self, request: Asked) -> Reaction:
        """Play the action or the note of the form."""
        visit = self._visits.find(check_form(self._tokens, request))
        if visit is None:
            return GoTo("/", "ended")
        with visit.lock:
            sitting = visit.session.sitting
            # A form of an earlier page would answer something that the visitor does not see any more.
            if request.form.get("step") != str(visit.actions) or sitting.over:
                return GoTo("/play", "stale")
            # Browsers send line breaks in form values as CR LF.
            typed = request.form.get("answer", "").replace("\r\n", "\n").strip()
            if not sitting.reflects:
                if not typed:
                    return GoTo("/play", "blank")
                typed = sitting.view.action(typed, sitting.prompt.legal_actions)
            visit.actions += 1
            sitting.play(typed)
        return GoTo("/play")

    def _in_background(self, function: Callable[[], T]) -> Future[T]:
        """Return the future result of a function, which no page waits for and Ctrl-C does not wait for either."""
        future: Future[T] = Future()

        def run() -> None:
            with self._solving:
                try:
                    future.set_result(function())
                except Exception as error:
                    # A page that asks for the result raises it.
                    future.set_exception(error)

        # An executor's threads are joined when the process ends. A daemon's are not.
        Thread(target=run, name=SOLVER, daemon=True).start()
        return future

    def _end_table(self, person: PersonSitting) -> EndTable:
        # `_in_background` runs one function at a time, so the settings need no lock of their own.
        key = (person.game, person.opponent)
        if key not in self._settings:
            self._settings[key] = ExactSetting(make_game(person.game), weights_of(person.opponent))
            while len(self._settings) > MOST_SETTINGS:
                self._settings.popitem(last=False)
        return end_table(self._settings[key], [person.sitting])

    # -- watching --------------------------------------------------------------------------------------------------

    def watch(self, request: Asked) -> Reaction:
        """Return the page of the watched agent."""
        scene = None if self._watched is None else self._watched.scene
        return form_page(self._tokens, request, "watch.html", {"scene": scene})

    def advance(self, request: Asked) -> Reaction:
        """Let the watched agent give its next answer or play to the end, or start another meta-episode."""
        check_form(self._tokens, request)
        if self._watched is None or request.form.get("do") not in ("next", "end", "new"):
            raise Refusal(400, "The agent cannot do that.")
        try:
            is_advanced = self._watched.advance(request.form["do"])
        except RuntimeError as error:
            raise Refusal(502, str(error)) from error
        return GoTo("/watch", "" if is_advanced else "busy")


def _opponents(game: str) -> dict[str, str]:
    """Return the opponents of a game with their descriptions: pools, the game's own first, then single opponents."""
    default_opponent = settings_of(game).opponent
    pools = sorted(
        (f"pool:{pool}" for pool in list_pools() if plays(pool, game)), key=lambda pool: pool != default_opponent
    )
    return {
        **{pool: f"hidden, drawn from {pool}" for pool in pools},
        **{name: name for name in list_opponents(game)},
    }


def create_app(
    hosts: Collection[str],
    cookie: str = "arena",
    *,
    visits: Visits[PersonSitting] | None = None,
    rng: np.random.Generator | None = None,
    games: Callable[[], Sequence[str]] = games_to_play,
    watched: WatchedAgent | None = None,
) -> Flask:
    """Return the arena as a WSGI application.

    Args:
        hosts: Accepted values of the Host header, with ports.
        cookie: Name of the visitor's cookie.
        visits: Store of the meta-episodes (default: a new one).
        rng: Source of the seeds (default: a new generator).
        games: Function that returns the games to choose from.
        watched: Agent to watch, if there is one.

    Raises:
        ImportError: If flask is not installed.
    """
    tokens = Tokens()
    views = ArenaViews(
        tokens,
        visits=Visits(MOST_SITTINGS) if visits is None else visits,
        rng=np.random.default_rng() if rng is None else rng,
        games=games,
        watched=watched,
    )
    values: dict[str, Any] = {"hosts": hosts, "cookie": cookie, "notices": NOTICES, "extra": "arena"}
    return make_app("mage_envs.benchmarks.play", views.routes(), tokens, **values)
