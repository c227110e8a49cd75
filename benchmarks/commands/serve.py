"""`mage serve`: serve environments to clients of other frameworks, or a game's site to browsers."""

from __future__ import annotations

from typing import Annotated

import typer

from mage_envs.cli.commands import GameOptions, add_command, choice_of
from mage_envs.game_record import RECORDS
from mage_envs.loading.imports import load_entry
from mage_envs.web.security import OriginGuard
from mage_envs.web.server import open_port
from mage_envs.web.server_options import ServerOptions
from mage_envs.wrappers.adapters.rewards import REWARDS

PORT = 8000


def openenv(
    env: Annotated[
        str,
        typer.Option(metavar="ID", help="Environment of clients that name no panel (default: Kuhn Poker's meta id)"),
    ] = "mage/KuhnPoker-Meta-v0",
    game_options: GameOptions = None,
    reward: Annotated[
        str, typer.Option(parser=choice_of(REWARDS), metavar="NAME", help="return (default), final or differential")
    ] = "return",
    max_sessions: Annotated[int, typer.Option(min=1, metavar="N", help="Maximum number of clients (default: 64)")] = 64,
    session_timeout: Annotated[
        float, typer.Option(metavar="SECONDS", help="Time after which a silent session ends in seconds (default: 300)")
    ] = 300.0,
    *,
    server: ServerOptions,
) -> None:
    """Serve an environment and all panels to OpenEnv clients, until Ctrl-C.

    Example: mage serve openenv --port 8000
    """
    listening, hosts = open_port(**server.arguments(PORT), title="The environment")
    with listening:
        try:
            import uvicorn
            from openenv.core.env_server.types import ConcurrencyConfig

            from mage_envs.wrappers.adapters.openenv import server as openenv_app
        except ImportError as error:
            raise ImportError(
                f'mage serve openenv requires OpenEnv: {error}. Install it with: pip install "mage-envs[openenv]"'
            ) from error
        limits = ConcurrencyConfig(max_concurrent_envs=max_sessions, session_timeout=session_timeout)
        guarded = OriginGuard(openenv_app(env, reward, game_options, limits), hosts)
        uvicorn.Server(uvicorn.Config(guarded, log_level="warning")).run(sockets=[listening])


app = typer.Typer(add_completion=False, no_args_is_help=True, help="Serve environments to other frameworks, or a site.")
# A program with a callback keeps its subcommands' names even if there is one only, because no game has a site.
app.callback()(lambda: None)
add_command(app, "openenv", openenv)
for _record in RECORDS.values():
    for _name, _site in _record.sites.items():
        add_command(app, _name, load_entry(_site))
