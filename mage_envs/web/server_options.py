"""Options of the commands that serve a site or an endpoint from this machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from mage_envs.cli.commands import read_port

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """Port and address of a server."""

    port: Annotated[
        int | None, typer.Option(parser=read_port, metavar="N", help="Port of the server (0 selects a free port)")
    ] = None
    """None for the default of the server."""
    host: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help=f"Address to listen on (default: {LOOPBACK}); requires --exposed if other machines can reach it",
        ),
    ] = LOOPBACK
    exposed: Annotated[bool, typer.Option(help="Allow access from other machines, without a log-in")] = False
    names: Annotated[
        list[str] | None,
        typer.Option("--name", metavar="HOST", help="Another host name of this machine; may be repeated"),
    ] = None

    def arguments(self, port: int) -> dict[str, Any]:
        """Return the arguments of `open_port`, with `port` as the default."""
        return {
            "host": self.host,
            "port": port if self.port is None else self.port,
            "exposed": self.exposed,
            "names": self.names or [],
        }
