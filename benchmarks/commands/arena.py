"""`mage arena`: meta-episodes in a browser, for a person or with an agent to watch."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Collection
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from mage_envs.benchmarks.evaluation.run.agents import make_agent
from mage_envs.benchmarks.evaluation.run.options import EnvKwargsOption
from mage_envs.benchmarks.play.arena import SOLVER, create_app
from mage_envs.benchmarks.play.sitting import HANDS
from mage_envs.benchmarks.play.watched import WatchedAgent
from mage_envs.cli.commands import read_port
from mage_envs.web.server import LocalSite

if TYPE_CHECKING:
    from flask import Flask

PORT = 3001


def command(
    port: Annotated[
        int, typer.Option(parser=read_port, metavar="N", help=f"Port (default: {PORT}, 0 selects a free port)")
    ] = PORT,
    watch: Annotated[
        str | None,
        typer.Option(metavar="AGENT", help="Agent to watch, as in policy:kuhn/nash, model:runs/demo, llm:MODEL@URL"),
    ] = None,
    env: Annotated[
        str | None,
        typer.Option(
            metavar="ID", help="Environment of --watch (default: the model's own, else mage/KuhnPoker-Meta-v0)"
        ),
    ] = None,
    env_kwargs: EnvKwargsOption = None,
    opponent: Annotated[
        str | None, typer.Option(metavar="NAME", help="Opponent or pool of --watch (default: the game's)")
    ] = None,
    episodes: Annotated[
        int | None, typer.Option(metavar="K", min=1, help="Episodes of --watch (default: the model's own, else 3)")
    ] = None,
    hands: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help=f"Hands per episode of --watch (default: the model's own, else {HANDS})"),
    ] = None,
    host: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="Address to listen on (default: 127.0.0.1); requires --exposed if other machines can reach it",
        ),
    ] = "127.0.0.1",
    exposed: Annotated[bool, typer.Option(help="Allow access from other machines, without a log-in")] = False,
    names: Annotated[
        list[str] | None,
        typer.Option("--name", metavar="HOST", help="Another host name of this machine; may be repeated"),
    ] = None,
) -> None:
    """Play meta-episodes in a browser, and watch an agent play.

    The site serves the browsers of this machine until Ctrl-C.

    Example: mage arena --watch policy:bayes:kuhn/paper
    """
    given = {"opponent": opponent, "num_episodes": episodes, "hands_per_episode": hands}
    options = {**(env_kwargs or {}), **{name: value for name, value in given.items() if value is not None}}
    if watch is None and (options or env is not None):
        raise ValueError("--env, --env-kwargs, --opponent, --episodes and --hands apply to --watch. Add --watch AGENT.")
    watched = None if watch is None else WatchedAgent(make_agent(watch), env, options, np.random.default_rng())

    def create(hosts: Collection[str], port: int) -> Flask:
        return create_app(hosts, f"arena-{port}", watched=watched)

    site = LocalSite(create, title="The arena", extra="arena", host=host, port=port, exposed=exposed, names=names or [])
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
