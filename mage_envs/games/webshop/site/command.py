"""Command line of WebShop's site."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from contextlib import ExitStack

import numpy as np

from mage_envs.core import Game, Policy
from mage_envs.games.webshop.game import WebShop
from mage_envs.games.webshop.site.playing import Player
from mage_envs.games.webshop.site.server import Site
from mage_envs.games.webshop.sources import shop_for

PORT, LAST_PORT = 3000, 65_535
MakeAgent = Callable[[str, Game], Policy]
"""Function of (name, game) that returns the policy."""


def add_options(parser: argparse.ArgumentParser, agents: Sequence[str] = ()) -> None:
    """Add the options of the site to a parser; `agents` are the names for `--watch-agent`."""
    parser.add_argument(
        "--port", type=_port, default=PORT, metavar="N", help=f"Port (default: {PORT}, 0 selects a free port)"
    )
    parser.add_argument("--size", default="small", metavar="NAME", help="Size of the catalogue (default: small)")
    parser.add_argument("--data", metavar="DIR", help="Folder with the original's files, or an imported folder")
    parser.add_argument(
        "--goals", choices=("synthetic", "human"), help="Kind of goals, with --data only (default: synthetic)"
    )
    parser.add_argument("--split", default="train", metavar="NAME", help="Split of an agent's goals (default: train)")
    parser.add_argument("--images", action="store_true", help="Load the data's pictures from their servers")
    parser.add_argument("--attributes", action="store_true", help="Offer the page of a product's hidden attributes")
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="Address to listen on (default: 127.0.0.1); requires --exposed if other machines can reach it",
    )
    parser.add_argument("--exposed", action="store_true", help="Allow access from other machines, without a log-in")
    parser.add_argument(
        "--name", action="append", default=[], metavar="HOST", help="Another host name of this machine; may be repeated"
    )
    parser.set_defaults(watch_agent=None, pace=1.5)
    if agents:
        parser.add_argument("--watch-agent", choices=tuple(agents), help="Agent to play and to watch")
        parser.add_argument(
            "--pace", type=float, metavar="SECONDS", help="Time between the agent's actions in seconds (default: 1.5)"
        )


def _port(text: str) -> int:
    """Return the port of a text. Raises argparse's error if it is not a port."""
    # `int` would accept signs, blanks, underscores and other digits.
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and int(text) <= LAST_PORT):
        raise argparse.ArgumentTypeError(f"a port must be a number from 0 to {LAST_PORT}, got {text!r}")
    return int(text)


def serve(given: argparse.Namespace, make_agent: MakeAgent | None = None) -> None:
    """Serve with the options of `add_options` until Ctrl-C. Raises ValueError, OSError or ImportError."""
    shop = shop_for(given.split, given.size, given.data, given.goals)
    # Raises ValueError before the site opens its port, if the split has no goals.
    shop.numbers(given.split)
    site = Site(
        shop,
        host=given.host,
        port=given.port,
        exposed=given.exposed,
        names=given.name,
        images=given.images,
        shows_attributes=given.attributes,
    )
    # The stack stops the agent before it closes the site.
    with ExitStack() as stack:
        stack.callback(site.close)
        print(f"WebShop is at {site.url} (Ctrl-C stops it).", flush=True)
        if given.watch_agent is not None and make_agent is not None:
            stack.enter_context(_agent(given, site, make_agent))
        site.serve()


def _agent(given: argparse.Namespace, site: Site, make_agent: MakeAgent) -> Player:
    if not 0 < given.pace <= 3600:
        raise ValueError(f"--pace must be above 0 and at most 3600 seconds, got {given.pace}.")
    game = WebShop(given.split, size=given.size, data=given.data, goals=given.goals, show_score=True)
    watch = site.watch(f"{given.watch_agent} agent")
    print(f"Watch the {watch.title} at {watch.url}", flush=True)
    policy = make_agent(given.watch_agent, game)
    return Player(game, policy, watch, rng=np.random.default_rng(), pace=given.pace)
