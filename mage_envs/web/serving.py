"""The site's configuration of waitress.

A request occupies a thread only when it is complete. The response to a rejected request repeats nothing of it.
"""

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

from mage_envs.web.security import WSGI, headers

MOST_CONNECTIONS = 256
"""Maximum number of open connections. A new one closes the oldest connection without a complete request."""
PATIENCE = 30
"""Time in seconds after which an idle connection is closed."""
LONGEST_HEAD = 16_384
"""Maximum size of a request's first line and headers in bytes."""
_HEAD_READ, _BODY_READ = 1 << 17, 1 << 20
"""Maximum number of bytes to read of the head and body of a rejected request, so that the client sees the response."""


class _Parser(HTTPRequestParser):
    """Parser that also rejects values that Python cannot convert: 5,000 digits, or an address with half a bracket."""

    def parse_header(self, header_plus: bytes) -> None:
        # The error determines the response. A minimal head replaces the long one, so that none of it is parsed.
        if len(header_plus) > LONGEST_HEAD:
            self.error = RequestHeaderFieldsTooLarge("")
            header_plus = b"GET / HTTP/1.0\r\n"
        try:
            super().parse_header(header_plus)
        except ValueError as error:
            raise ParsingError(str(error)) from error


class _Refusal(ErrorTask):
    """The response to a request that is not HTTP or too long: the site's headers, and the status code alone."""

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
    """Server of an application on a listening socket, which `close` closes."""

    def __init__(self, app: WSGI, listening: socket.socket) -> None:
        # Waitress warns whenever a request waits for a thread, which is normal here.
        logging.getLogger("waitress.queue").setLevel(logging.ERROR)
        self._open: dict[int, Any] = {}
        self._ends = Event()
        self._server = create_server(
            app,
            map=self._open,
            sockets=[listening],
            threads=8,
            # At this limit waitress accepts no connection from any client, so `_make_room` acts at half of it.
            connection_limit=2 * MOST_CONNECTIONS,
            channel_timeout=PATIENCE,
            cleanup_interval=1,
            max_request_header_size=_HEAD_READ,
            max_request_body_size=_BODY_READ,
            ident="mage",
            log_socket_errors=False,
        )
        self._server.channel_class = _Channel

    def serve(self) -> None:
        """Serve until another thread calls `end`, or until Ctrl-C."""
        # The own loop replaces that of waitress, which has no hook between two polls.
        while not self._ends.is_set():
            self._make_room()
            wasyncore.loop(timeout=1.0, use_poll=True, map=self._open, count=1)

    def _make_room(self) -> None:
        """Close the oldest waiting connection if there are too many, so that abandoned ones cannot block the site."""
        channels = self._server.active_channels.values()
        waiting = [channel for channel in channels if not channel.requests and not channel.total_outbufs_len]
        if len(channels) >= MOST_CONNECTIONS and waiting:
            min(waiting, key=lambda channel: channel.creation_time).handle_close()

    def end(self) -> None:
        """Make `serve` return."""
        # The trigger wakes the poll, which would otherwise last up to a second.
        self._ends.set()
        self._server.pull_trigger()

    def close(self) -> None:
        """Stop the threads and close all connections. `serve` must have returned."""
        self._server.task_dispatcher.shutdown()
        wasyncore.close_all(self._open, ignore_all=True)
