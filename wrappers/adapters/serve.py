"""`mage serve`: serve environments to clients of other frameworks."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

import typer

from mage_envs.cli.commands import add_command, choice_of
from mage_envs.cli.json_options import read_object
from mage_envs.web.asgi import OriginGuard
from mage_envs.web.security import host_names, is_loopback
from mage_envs.wrappers.adapters.rewards import REWARDS


def openenv(
    env: Annotated[
        str,
        typer.Option(metavar="ID", help="Environment of clients that name no panel (default: Kuhn Poker's meta id)"),
    ] = "mage/KuhnPoker-Meta-v0",
    env_kwargs: Annotated[
        Mapping[str, Any] | None,
        typer.Option(
            parser=partial(read_object, "--env-kwargs"),
            metavar="JSON",
            help="""Options of the environments as JSON, such as '{"context": "conversation"}'""",
        ),
    ] = None,
    reward: Annotated[
        str, typer.Option(parser=choice_of(REWARDS), metavar="NAME", help="return (default), final or differential")
    ] = "return",
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
    port: Annotated[int, typer.Option(min=0, max=65_535, metavar="N", help="Port (default: 8000)")] = 8000,
    max_sessions: Annotated[int, typer.Option(min=1, metavar="N", help="Maximum number of clients (default: 64)")] = 64,
    session_timeout: Annotated[
        float, typer.Option(metavar="SECONDS", help="Time after which a silent session ends in seconds (default: 300)")
    ] = 300.0,
) -> None:
    """Serve an environment and all panels to OpenEnv clients, until Ctrl-C.

    Example: mage serve openenv --port 8000
    """
    if not (exposed or is_loopback(host)):
        raise ValueError(
            f"--host {host} can be reached from other machines, and there is no log-in: use 127.0.0.1 or add --exposed."
        )
    try:
        import uvicorn
        from openenv.core.env_server.types import ConcurrencyConfig

        from mage_envs.wrappers.adapters.openenv import server
    except ImportError as error:
        raise ImportError(
            f'mage serve openenv requires OpenEnv: {error}. Install it with: pip install "mage-envs[openenv]"'
        ) from error
    limits = ConcurrencyConfig(max_concurrent_envs=max_sessions, session_timeout=session_timeout)
    # Bound here, because the accepted values of the Host header contain the port.
    listening = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    hosts = host_names(listening.getsockname()[1], (*(names or ()), host))
    app = OriginGuard(server(env, reward, env_kwargs, limits), hosts)
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listening])


app = typer.Typer(add_completion=False, no_args_is_help=True, help="Serve environments to clients of other frameworks.")


@app.callback()
def _several() -> None:
    # With one subcommand only, typer would drop its name without this callback.
    """Serve environments to clients of other frameworks."""


add_command(app, "openenv", openenv)
