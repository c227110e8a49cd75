"""Waitress as the site runs it: a request takes a thread once all of it is there, and a refusal repeats none of it."""

from __future__ import annotations

import logging
import socket
from threading import Event
from typing import Any

from waitress import wasyncore
from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser, ParsingError
from waitress.server import create_server
from waitress.task import ErrorTask
from waitress.utilities import RequestHeaderFieldsTooLarge

from mage_envs.games.webshop.site.security import WSGI, headers

MOST_CONNECTIONS = 256
"""Open at once; for a further one the oldest is closed on which no whole request has come."""
PATIENCE = 30
"""Seconds after which a connection is closed on which nothing was sent or taken."""
LONGEST_HEAD = 16_384
"""Bytes of a request's first line and headers."""
_HEAD_READ, _BODY_READ = 1 << 17, 1 << 20
"""Bytes that are read of what is refused for its length, so that the client reads the answer."""


class _Parser(HTTPRequestParser):
    """Takes for no HTTP, too, what Python cannot read: a number of 5,000 digits, an address with half a bracket."""

    def parse_header(self, header_plus: bytes) -> None:
        if len(header_plus) > LONGEST_HEAD:
            self.error = RequestHeaderFieldsTooLarge("")
            header_plus = b"GET / HTTP/1.0\r\n"
        try:
            super().parse_header(header_plus)
        except ValueError as error:
            raise ParsingError(str(error)) from error


class _Refusal(ErrorTask):
    """The answer to what is no HTTP or too long: the site's headers, and the number alone."""

    def execute(self) -> None:
        error = self.request.error
        body = b"%d\n" % error.code
        self.status = f"{error.code} {error.reason}"
        self.response_headers += headers(False).items()
        self.response_headers += [("Content-Type", "text/plain; charset=utf-8"), ("Cache-Control", "no-store")]
        self.content_length = len(body)
        self.set_close_on_finish()
        self.write(body)


class _Channel(HTTPChannel):
    error_task_class = _Refusal
    parser_class = _Parser


class Server:
    """Serves an application on a listening socket, which it closes in the end."""

    def __init__(self, app: WSGI, listening: socket.socket) -> None:
        logging.getLogger("waitress.queue").setLevel(logging.ERROR)  # that a request waits for a thread is no news
        self._open: dict[int, Any] = {}
        self._ends = Event()
        self._server = create_server(
            app,
            map=self._open,
            sockets=[listening],
            threads=8,
            connection_limit=2 * MOST_CONNECTIONS,  # from which on it takes none, whoever asks
            channel_timeout=PATIENCE,
            cleanup_interval=1,
            max_request_header_size=_HEAD_READ,
            max_request_body_size=_BODY_READ,
            ident="webshop",
            log_socket_errors=False,
        )
        self._server.channel_class = _Channel

    def serve(self) -> None:
        """Serves until `end`, from another thread, or Ctrl-C."""
        while not self._ends.is_set():
            self._make_room()
            wasyncore.loop(timeout=1.0, use_poll=True, map=self._open, count=1)

    def _make_room(self) -> None:
        """So that connections which are opened and left take nobody's place, however many there are."""
        channels = self._server.active_channels.values()
        waiting = [channel for channel in channels if not channel.requests and not channel.total_outbufs_len]
        if len(channels) >= MOST_CONNECTIONS and waiting:
            min(waiting, key=lambda channel: channel.creation_time).handle_close()

    def end(self) -> None:
        """Makes `serve` return."""
        self._ends.set()
        self._server.pull_trigger()

    def close(self) -> None:
        """Ends the threads and closes all connections; not while `serve` runs."""
        self._server.task_dispatcher.shutdown()
        wasyncore.close_all(self._open, ignore_all=True)
