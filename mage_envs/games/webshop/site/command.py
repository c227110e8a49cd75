"""`mage serve webshop`: WebShop's site for browsers, and an agent to watch."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Annotated, Literal

import numpy as np
import typer

import mage_envs
from mage_envs.games.webshop.game import WebShop
from mage_envs.games.webshop.site.playing import Player
from mage_envs.games.webshop.site.server import Site
from mage_envs.games.webshop.sources import shop_for
from mage_envs.web.server_options import ServerOptions

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
