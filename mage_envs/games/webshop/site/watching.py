"""Sessions of agents in a browser: an environment publishes its pages, and the site shows them."""

from __future__ import annotations

import secrets
from collections import OrderedDict, deque
from threading import Lock
from typing import Any, NamedTuple, cast

import gymnasium as gym

from mage_envs.games.webshop.game import WebShop, WebShopState
from mage_envs.games.webshop.session import Session
from mage_envs.games.webshop.site.shown import Shown, build_page
from mage_envs.hand import Hand, TruncatedState

MOST_WATCHES = 64
LAST_ACTIONS = 30
LONGEST_ACTION = 300
"""Maximum number of characters of an action on the page."""


class WatchedScene(NamedTuple):
    """The latest state of a watched session."""

    episode: int
    step: int
    actions: tuple[tuple[int, str], ...]
    """(number, action) of the latest actions of the episode, the latest first."""
    page: Shown


class AgentWatch:
    """One agent's sessions under one address. The agent's thread calls `show`; the site's threads read `scene`.

    Args:
        images: If True, show the data's pictures.
    """

    def __init__(self, title: str, url: str, images: bool = False) -> None:
        self.title = title
        self.url = url
        # The scene is replaced as a whole, so that readers need no lock.
        self.scene: WatchedScene | None = None
        """Latest state, or None before the first page."""
        self._images = images
        self._episode = self._step = 0
        self._actions: deque[tuple[int, str]] = deque(maxlen=LAST_ACTIONS)

    def show(self, session: Session, action: str | None = None) -> None:
        """Publish the current page of `session` after `action`. Without an action, a new episode begins."""
        if action is None:
            self._episode += 1
            self._step = 0
            self._actions.clear()
        else:
            self._step += 1
            self._actions.appendleft((self._step, action[:LONGEST_ACTION]))
        self.scene = WatchedScene(self._episode, self._step, tuple(self._actions), build_page(session, self._images))


class Watches:
    """The latest watches by token."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._watches: OrderedDict[str, AgentWatch] = OrderedDict()

    def add(self, title: str, root: str, images: bool) -> AgentWatch:
        """Return a new watch with a random address, which cannot be guessed.

        Args:
            images: If True, show the data's pictures.
        """
        token = secrets.token_hex(16)
        watch = AgentWatch(title, f"{root}/watch/{token}", images)
        with self._lock:
            # The oldest watch ends, because an environment does not report that it is closed.
            while len(self._watches) >= MOST_WATCHES:
                self._watches.popitem(last=False)
            self._watches[token] = watch
        return watch

    def find(self, token: str) -> AgentWatch | None:
        """Return the watch with that token, or None if there is none."""
        with self._lock:
            return self._watches.get(token)


def session_of(hand: Hand) -> Session:
    """Return the session of the current hand of WebShop."""
    # A hand that ends before the game does, as at its limit of turns, wraps its last state.
    state = hand.state
    return cast(WebShopState, state.at if isinstance(state, TruncatedState) else state).session


class WatchedEnv(gym.Wrapper[Any, Any, Any, Any]):
    """A WebShop environment, base or meta, that publishes each page to a watch."""

    def __init__(self, env: gym.Env[Any, Any], watch: AgentWatch) -> None:
        super().__init__(env)
        self._hand: Hand = env.get_wrapper_attr("hand")
        if not isinstance(self._hand.game, WebShop):
            raise TypeError(f"WatchedEnv requires WebShop, got {self._hand.game.spec.name}, which has no pages.")
        self._watch = watch

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        answer = super().reset(seed=seed, options=options)
        self._publish(None)
        return answer

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        answer = super().step(action)
        # No turns and another state mean that the action ended a hand and the environment dealt the next one.
        dealt = self._hand.turns == 0 and self._hand.state is not self._shown
        self._publish(None if dealt else str(action))
        return answer

    def _publish(self, action: str | None) -> None:
        self._shown = self._hand.state
        self._watch.show(session_of(self._hand), action)
