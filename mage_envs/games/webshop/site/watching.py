"""Sessions to look at: an agent's environment publishes its pages, a browser shows them as they change."""

from __future__ import annotations

import secrets
from collections import OrderedDict, deque
from threading import Lock
from typing import Any, NamedTuple, cast

import gymnasium as gym

from mage_envs.games.webshop.game import WebShop, WebShopState
from mage_envs.games.webshop.session import Session
from mage_envs.games.webshop.site.shown import Shown, shown
from mage_envs.hand import Hand, Stopped

MOST_WATCHES = 64
LAST_ACTIONS = 30
LONGEST_ACTION = 300
"""Characters of an action that are shown."""


class WatchedScene(NamedTuple):
    """What a watched session showed last."""

    episode: int
    step: int
    actions: tuple[tuple[int, str], ...]
    """The newest actions of the episode with their numbers, the newest first."""
    page: Shown


class AgentWatch:
    """One agent's sessions under one address. `show` is called by the agent's thread, `scene` by the site's."""

    def __init__(self, title: str, url: str, images: bool = False) -> None:
        self.title = title
        self.url = url
        self.scene: WatchedScene | None = None
        """Replaced as a whole, so that a reader needs no lock."""
        self._images = images
        self._episode = self._step = 0
        self._actions: deque[tuple[int, str]] = deque(maxlen=LAST_ACTIONS)

    def show(self, session: Session, action: str | None = None) -> None:
        """Publishes the page that `session` is on now, reached by `action`; without one another episode begins."""
        if action is None:
            self._episode += 1
            self._step = 0
            self._actions.clear()
        else:
            self._step += 1
            self._actions.appendleft((self._step, action[:LONGEST_ACTION]))
        self.scene = WatchedScene(self._episode, self._step, tuple(self._actions), shown(session, self._images))


class Watches:
    """The newest watches by token."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._watches: OrderedDict[str, AgentWatch] = OrderedDict()

    def add(self, title: str, root: str, images: bool) -> AgentWatch:
        """A new watch with an address that nobody can guess; `root` is the site's address."""
        token = secrets.token_hex(16)
        watch = AgentWatch(title, f"{root}/watch/{token}", images)
        with self._lock:
            while len(self._watches) >= MOST_WATCHES:
                self._watches.popitem(last=False)
            self._watches[token] = watch
        return watch

    def find(self, token: str) -> AgentWatch | None:
        with self._lock:
            return self._watches.get(token)


def session_of(hand: Hand) -> Session:
    """The session of WebShop's running hand."""
    state = hand.state
    return cast(WebShopState, state.at if isinstance(state, Stopped) else state).session


class WatchedEnv(gym.Wrapper[Any, Any, Any, Any]):
    """A WebShop environment, base or meta, that publishes each page to a watch."""

    def __init__(self, env: gym.Env[Any, Any], watch: AgentWatch) -> None:
        super().__init__(env)
        self._hand: Hand = env.get_wrapper_attr("hand")
        if not isinstance(self._hand.game, WebShop):
            raise TypeError(f"WatchedEnv shows WebShop; {self._hand.game.facts.name} has no pages.")
        self._watch = watch

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        answer = super().reset(seed=seed, options=options)
        self._publish(None)
        return answer

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        answer = super().step(action)
        dealt = self._hand.turns == 0 and self._hand.state is not self._shown  # the answer ended a hand before it
        self._publish(None if dealt else str(action))
        return answer

    def _publish(self, action: str | None) -> None:
        self._shown = self._hand.state
        self._watch.show(session_of(self._hand), action)
