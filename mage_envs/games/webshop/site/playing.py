"""An agent that plays one episode after the other, for people to watch."""

from __future__ import annotations

from threading import Event, Thread

import numpy as np

from mage_envs.core import IllegalAction, Policy
from mage_envs.games.webshop.game import WebShop
from mage_envs.games.webshop.site.watching import Watch


def play(game: WebShop, policy: Policy, watch: Watch, rng: np.random.Generator, pace: float, stop: Event) -> None:
    """Plays episodes until `stop` is set, with `pace` seconds between actions and three times as long at an end."""
    while not stop.is_set():
        game.reset(rng)
        policy.reset(rng)
        watch.show(game.session)
        for _ in range(game.max_turns):
            if stop.wait(pace):
                return
            action = policy.act(game.turn(0))
            try:
                game.apply(action)
            except IllegalAction:
                action = f"{action} (means nothing here)"
            watch.show(game.session, action)
            if game.current_player() is None:
                break
        stop.wait(3 * pace)


class Player:
    """`play` in a thread of its own; a context at whose end the thread has stopped."""

    def __init__(self, game: WebShop, policy: Policy, watch: Watch, rng: np.random.Generator, pace: float) -> None:
        self._stop = Event()
        arguments = (game, policy, watch, rng, pace, self._stop)
        self._thread = Thread(target=play, args=arguments, name=f"webshop-{watch.title}", daemon=True)

    def __enter__(self) -> Player:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
