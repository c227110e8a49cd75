"""The command line of WebShop's site: its options, and serving with them."""

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
"""(name, game) -> the policy."""


def add_options(parser: argparse.ArgumentParser, agents: Sequence[str] = ()) -> None:
    """Adds the options of serving to a parser; `agents` are those that can be watched."""
    parser.add_argument("--port", type=_port, default=PORT, metavar="N", help=f"default: {PORT}; 0 takes a free one")
    parser.add_argument("--size", default="small", metavar="NAME", help="of the catalogue; default: small")
    parser.add_argument("--data", metavar="DIR", help="the original's files, or what was imported from them")
    parser.add_argument("--goals", choices=("synthetic", "human"), help="with --data; default: synthetic")
    parser.add_argument("--split", default="train", metavar="NAME", help="where an agent's goals come from")
    parser.add_argument("--images", action="store_true", help="load the data's pictures from the servers they are on")
    parser.add_argument("--attributes", action="store_true", help="offer the page of a product's hidden attributes")
    parser.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="to listen on; needs --exposed")
    parser.add_argument("--exposed", action="store_true", help="yes, other machines may reach the site; no log-in")
    parser.add_argument("--name", action="append", default=[], metavar="HOST", help="a further name of this machine")
    parser.set_defaults(watch_agent=None, pace=1.5)
    if agents:
        parser.add_argument("--watch-agent", choices=tuple(agents), help="let an agent play, and show its address")
        parser.add_argument("--pace", type=float, metavar="SECONDS", help="between its actions; default: 1.5")


def _port(text: str) -> int:
    """Raises argparse's error where it is no port."""
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and int(text) <= LAST_PORT):
        raise argparse.ArgumentTypeError(f"a port is a number from 0 to {LAST_PORT}, got {text!r}")
    return int(text)


def serve(given: argparse.Namespace, make_agent: MakeAgent | None = None) -> None:
    """Serves what `add_options` parsed until Ctrl-C. Raises ValueError, OSError or ImportError."""
    shop = shop_for(given.split, given.size, given.data, given.goals)
    shop.numbers(given.split)  # refuses a split that has no goals
    site = Site(
        shop,
        host=given.host,
        port=given.port,
        exposed=given.exposed,
        names=given.name,
        images=given.images,
        shows_attributes=given.attributes,
    )
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
