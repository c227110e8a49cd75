"""A server on raw sockets that answers as badly as its path says."""

from __future__ import annotations

import json
import re
import socket
import socketserver
import struct
import threading
from collections import deque
from collections.abc import Iterable
from typing import Any

from tests.opponents.llm.hostile_modes import BY_NAME, GOOD, TEXT, Mode, http

HOSTILE = "HOSTILE"
"""A prompt that holds this word is answered by the mode in the path, all others well."""
MIXED = "mixed"
"""The path that answers every second prompt by the next mode of `HostileServer.plan`, all others well."""


class _Handler(socketserver.StreamRequestHandler):
    server: HostileServer

    def handle(self) -> None:
        try:
            while request := self._request():
                path, body = request
                mode = self.server.mode(path, body)
                if mode is None:
                    self.wfile.write(http(fill_action(GOOD, body)))
                    continue
                self._misbehave(mode, body)
                return
        except OSError:
            return  # the client hung up, which it should

    def _request(self) -> tuple[str, bytes] | None:
        line = self.rfile.readline().split()
        if len(line) < 2:
            return None
        length = 0
        while header := self.rfile.readline().strip():
            name, _, value = header.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
            if name.lower() in (b"cookie", b"authorization"):
                self.server.told.add((name.lower().decode(), value.strip().decode()))
        return line[1].decode(), self.rfile.read(length)

    def _misbehave(self, mode: Mode, body: bytes) -> None:
        stopped = self.server.stopped
        for part in [mode.parts] if isinstance(mode.parts, bytes) else mode.parts():
            if stopped.is_set():
                return
            if part:
                self.wfile.write(fill_action(part, body))
            else:
                stopped.wait(0.05)
        if mode.end == "hang":
            self.connection.settimeout(30)
            self.connection.recv(1)  # until the client ends the connection
        if mode.end == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()


def fill_action(response: bytes, body: bytes) -> bytes:
    """The response with a legal action of the prompt, of as many characters as the place has."""
    listed = re.findall(rb"Legal actions: (\w+)", body)
    return response.replace(b"{action}", listed[-1].ljust(8)[:8]) if listed else response


class HostileServer(socketserver.ThreadingTCPServer):
    """`url(name)` is an endpoint with one mode, `url(MIXED)` one with all of `plan`."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, plan: Iterable[Mode] = ()) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.plan = deque(plan)
        self.modes: dict[bytes, Mode | None] = {}
        """How each prompt of the path `MIXED` is answered, whenever it is asked."""
        self.told: set[tuple[str, str]] = set()
        """Cookies and keys that clients sent."""
        self.stopped = threading.Event()
        self._lock = threading.Lock()
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/{name}/v1"

    def mode(self, path: str, body: bytes) -> Mode | None:
        """How a request is answered; None for well."""
        name = path.split("/")[1]
        if not body:
            return None  # the list of models, which is not a prompt
        if name != MIXED:
            return BY_NAME[name] if HOSTILE.encode() in body else None
        with self._lock:
            if body not in self.modes:
                self.modes[body] = self.plan.popleft() if len(self.modes) % 2 and self.plan else None
            return self.modes[body]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that hang up are part of the tests."""

    def stop(self) -> None:
        self.stopped.set()
        self.shutdown()
        self.server_close()


assert len(TEXT.format(action="12345678")) == len(TEXT), "a filled response keeps its length"
assert json.loads(GOOD)
