"""An agent that plays episode after episode, for people to watch."""

from __future__ import annotations

from itertools import count
from threading import Event, Thread

import numpy as np

from mage_envs.core import Policy
from mage_envs.games.webshop.game import WebShop
from mage_envs.games.webshop.site.watching import AgentWatch, session_of
from mage_envs.hand import Hand, open_table
from mage_envs.random.streams import SEATS, SEED_BITS, Streams


def play(game: WebShop, policy: Policy, watch: AgentWatch, rng: np.random.Generator, pace: float, stop: Event) -> None:
    """Play episodes until `stop` is set.

    Args:
        game: The game.
        policy: The agent.
        watch: Page that shows the session.
        rng: Source of the seed of the goals.
        pace: Time between actions in seconds. The pause after an episode is three times as long.
        stop: Event that ends the play.
    """
    hand, streams = Hand(game), Streams(int(rng.integers(2**SEED_BITS)))
    hand.begin_episode(streams)
    for number in count():
        hand.deal(open_table(1), number)
        policy.reset(streams.at(SEATS, hand=number).generator())
        watch.show(session_of(hand))
        while not hand.over:
            # Waiting for the event, so that the thread ends at once when the site closes.
            if stop.wait(pace):
                return
            action = policy.act(hand.turn(0))
            invalid = hand.answer(action)
            watch.show(session_of(hand), f"{action} (means nothing here)" if invalid else action)
        if stop.wait(3 * pace):
            return


class Player:
    """`play` in its own thread. It is a context manager; the thread has ended when the context exits.

    Args:
        game: The game.
        policy: The agent.
        watch: Page that shows the session.
        rng: Source of the seed of the goals.
        pace: Time between actions in seconds.
    """

    def __init__(self, game: WebShop, policy: Policy, watch: AgentWatch, rng: np.random.Generator, pace: float) -> None:
        self._stop = Event()
        arguments = (game, policy, watch, rng, pace, self._stop)
        self._thread = Thread(target=play, args=arguments, name=f"webshop-{watch.title}", daemon=True)

    def __enter__(self) -> Player:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
