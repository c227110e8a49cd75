"""`mage play`: a game or meta-episodes for a person, in a terminal or in a browser, and an agent to watch."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Collection
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
import typer

from mage_envs.benchmarks.evaluation.run.agents import make_agent
from mage_envs.benchmarks.play.arena import SOLVER, create_app
from mage_envs.benchmarks.play.sitting import HANDS
from mage_envs.benchmarks.play.terminal import TerminalPlay, play
from mage_envs.benchmarks.play.watched import WatchedAgent
from mage_envs.cli.commands import GameOptions
from mage_envs.web.server import LocalSite
from mage_envs.web.server_options import ServerOptions

if TYPE_CHECKING:
    from flask import Flask

PORT = 3001


def command(
    env_id: Annotated[
        str | None,
        typer.Argument(
            metavar="ID",
            help="Environment id, as in mage/KuhnPoker-v0, my_games:mage/MyGame-v0, or a game, as in KuhnPoker or "
            "OpenSpiel's kuhn_poker, whose meta-episodes are played",
            show_default=False,
        ),
    ] = None,
    opponents: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Opponent or pool, as in kuhn/aggressive, pool:kuhn/demo, checkpoint:runs/demo, my_games:Mine "
            "(default: the game's)",
        ),
    ] = None,
    seat: Annotated[
        Literal["first", "second", "alternate"] | None,
        typer.Option(help="Your seat (default: the game's, else alternate)"),
    ] = None,
    game_options: GameOptions = None,
    seed: Annotated[
        int | None, typer.Option(metavar="N", help="Seed of the first hand, to repeat it (default: random)")
    ] = None,
    hands: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help=f"Number of hands to play (default: until you quit); in a meta-episode, per episode "
            f"(default: {HANDS}, 1 alone)",
        ),
    ] = None,
    episodes: Annotated[
        int | None, typer.Option(metavar="K", min=1, help="Episodes of a meta-episode (default: 3)")
    ] = None,
    max_turns: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Answers per hand (default: the game's limit; no limit alone)"),
    ] = None,
    browser: Annotated[
        bool, typer.Option(help="Play meta-episodes of any game in a browser of this machine, until Ctrl-C")
    ] = False,
    watch: Annotated[
        str | None,
        typer.Option(
            metavar="AGENT",
            help="With --browser: agent that plays ID, as in policy:kuhn/nash, model:runs/demo, llm:MODEL@URL",
        ),
    ] = None,
    *,
    server: ServerOptions,
) -> None:
    """Play a game or a meta-episode in the terminal or in a browser.

    The environment prints what the learner would read. Answer with an action or its number.

    Example: mage play mage/KuhnPoker-Meta-v0
    """
    if browser:
        options = {"opponent": opponents, "num_episodes": episodes, "hands_per_episode": hands}
        options |= {"seat": seat, "max_turns": max_turns, **(game_options or {})}
        options = {name: value for name, value in options.items() if value is not None}
        if watch is None and (options or env_id is not None):
            raise ValueError(
                "The page of --browser asks for the game and its options. Remove them, or add --watch AGENT."
            )
        if seed is not None:
            raise ValueError("--seed applies to the terminal. Remove it, or --browser.")
        _serve(
            server, None if watch is None else WatchedAgent(make_agent(watch), env_id, options, np.random.default_rng())
        )
        return
    if watch is not None or server != ServerOptions():
        raise ValueError("--watch, --port, --host, --name and --exposed apply to the browser. Add --browser.")
    if env_id is None:
        raise ValueError("ID is missing. Name a game, as in mage play KuhnPoker, or use --browser.")
    terminal_play = TerminalPlay(
        opponents=opponents,
        seat=seat,
        game_options=game_options or {},
        seed=int(np.random.default_rng().integers(2**31)) if seed is None else seed,
        hands=hands,
        episodes=episodes,
        max_turns=max_turns,
    )
    play(env_id, terminal_play)


def _serve(server: ServerOptions, watched: WatchedAgent | None) -> None:
    """Serve the arena until Ctrl-C."""

    def create(hosts: Collection[str], port: int) -> Flask:
        return create_app(hosts, f"arena-{port}", watched=watched)

    site = LocalSite(create, title="The arena", extra="arena", **server.arguments(PORT))
    try:
        print(f"The arena is at {site.url} (Ctrl-C stops it).", flush=True)
        if watched is not None:
            print(f"Watch {watched.scene.title} at {site.url}/watch", flush=True)
        site.serve()
    except KeyboardInterrupt:
        # Ctrl-C is the way to stop the site, not an error.
        print()
    finally:
        site.close()
    _leave_solver()


def _leave_solver() -> None:
    """End the process at once if a game is still being solved, because no page needs it any more."""
    # Below Python 3.14, a daemon thread in OpenSpiel's C++ code aborts the interpreter that shuts down.
    if any(thread.name == SOLVER for thread in threading.enumerate()):
        sys.stdout.flush()
        os._exit(0)
