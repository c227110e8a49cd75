"""`mage serve webshop`: WebShop's site for browsers, and an agent to watch."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import count
from threading import Event, Thread
from typing import Annotated, Literal

import numpy as np
import typer

import mage_envs
from mage_envs.core import Policy
from mage_envs.games.webshop.game import WebShop
from mage_envs.games.webshop.site.server import Site
from mage_envs.games.webshop.site.watching import AgentWatch, session_of
from mage_envs.games.webshop.sources import shop_for
from mage_envs.hand import Hand, open_table
from mage_envs.random.streams import SEATS, SEED_BITS, Streams
from mage_envs.web.server_options import ServerOptions


def play(game: WebShop, policy: Policy, watch: AgentWatch, rng: np.random.Generator, pace: float, stop: Event) -> None:
    """Play episodes until `stop` is set.

    Args:
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


PORT = 3000


def command(
    size: Annotated[str, typer.Option(metavar="NAME", help="Size of the catalogue (default: small)")] = "small",
    data: Annotated[
        str | None, typer.Option(metavar="DIR", help="Folder with the original's files, or an imported folder")
    ] = None,
    goals: Annotated[
        Literal["synthetic", "human"] | None,
        typer.Option(help="Kind of goals, with --data only (default: synthetic)"),
    ] = None,
    split: Annotated[str, typer.Option(metavar="NAME", help="Split of an agent's goals (default: train)")] = "train",
    images: Annotated[bool, typer.Option(help="Load the data's pictures from their servers")] = False,
    attributes: Annotated[bool, typer.Option(help="Offer the page of a product's hidden attributes")] = False,
    watch: Annotated[Literal["rule", "oracle"] | None, typer.Option(help="Agent to play and to watch")] = None,
    pace: Annotated[
        float, typer.Option(metavar="SECONDS", help="Time between the agent's actions in seconds (default: 1.5)")
    ] = 1.5,
    *,
    server: ServerOptions,
) -> None:
    """Serve WebShop's site to the browsers of this machine, until Ctrl-C.

    Example: mage serve webshop --watch oracle
    """
    if not 0 < pace <= 3600:
        raise ValueError(f"--pace must be above 0 and at most 3600 seconds, got {pace}.")
    shop = shop_for(split, size, data, goals)
    # Raises ValueError before the site opens its port, if the split has no goals.
    shop.numbers(split)
    site = Site(shop, images=images, shows_attributes=attributes, **server.arguments(PORT))
    # The stack stops the agent before it closes the site.
    with ExitStack() as stack:
        stack.callback(site.close)
        print(f"WebShop is at {site.url} (Ctrl-C stops it).", flush=True)
        if watch is not None:
            game = WebShop(split, size=size, data=data, goals=goals, show_score=True)
            page = site.watch(f"{watch} agent")
            print(f"Watch the {page.title} at {page.url}", flush=True)
            policy = mage_envs.make_opponent(f"webshop/{watch}", game)
            stack.enter_context(Player(game, policy, page, rng=np.random.default_rng(), pace=pace))
        try:
            site.serve()
        except KeyboardInterrupt:
            # Ctrl-C is the way to stop the site, not an error.
            print()
